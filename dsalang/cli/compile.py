"""`dsa compile`: one kernel of a file, as an image or as one of its texts."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import sys
from pathlib import Path
from typing import Any

from dsalang._backend.errors import DsaError, UserError
from dsalang._jit.compiled import TEXTS, CompiledKernel
from dsalang._jit.decorator import JITFunction
from dsalang._jit.dtypes import from_name
from dsalang._jit.schedule import SCHEDULES
from dsalang._runtime.files import write_atomically
from dsalang.user_file import failure

Commands = Any  # argparse's type of a group of subcommands is private


def add_to(commands: Commands) -> None:
    """Add the subcommand."""
    p = commands.add_parser(
        "compile",
        help="compile a kernel of a Python file",
        description="Compile a kernel of a Python file.",
        epilog='example: dsa compile kernels.py:add --signature "*fp16,*fp16,*fp16,i32" --const BLOCK=128 '
        "--emit asm",
    )
    p.add_argument(
        "kernel", metavar="FILE:KERNEL", help="a Python file and the kernel's name in it"
    )
    p.add_argument(
        "--signature", default="", help='types of the run-time parameters, e.g. "*fp16,i32"'
    )
    p.add_argument(
        "--const",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a constexpr argument (repeatable)",
    )
    p.add_argument(
        "--target", help="name of a shipped target or a target file (default: DSA_TARGET or edge)"
    )
    p.add_argument("--num-stages", type=int, help="slots of the rings that loads fill")
    p.add_argument(
        "--schedule",
        choices=SCHEDULES,
        help="static: issue cycles fixed for one grid (default: dynamic)",
    )
    p.add_argument("--grid", help="programs, for a static schedule or --resident, e.g. 16 or 4,4")
    p.add_argument(
        "--resident", help="array parameters whose tiles stay in SRAM across launches, e.g. w1,w2"
    )
    p.add_argument(
        "--deadline-us", type=float, help="fail when a static schedule takes longer than this"
    )
    p.add_argument(
        "--emit",
        choices=(*TEXTS, "schedule", "image"),
        default="asm",
        help="what to write (default: asm)",
    )
    p.add_argument(
        "-o", "--output", type=Path, help="a file; default: stdout, for an image KERNEL.elf"
    )
    p.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compile and write."""
    kernel = load_kernel(options.kernel)
    constants = dict(_constant(text) for text in options.const)
    compiled = kernel.compile(
        options.signature,
        constants,
        options.target,
        options.num_stages,
        options.schedule,
        _grid(options.grid),
        options.deadline_us,
        options.resident.split(",") if options.resident else None,
    )
    output: Path | None = options.output
    try:
        if options.emit == "image":
            path = compiled.save(output or Path(f"{compiled.image.name}.elf"))
            print(f"{path}: {path.stat().st_size} bytes for {compiled.target.name}")
            return 0
        text = _schedule(compiled) if options.emit == "schedule" else compiled.text[options.emit]
        if output is None:
            print(text, end="")
        else:
            write_atomically(output, text.encode())
    except OSError as error:
        raise UserError(f"cannot write the result: {error}") from None
    return 0


def _schedule(compiled: CompiledKernel) -> str:
    """The static schedule as a table."""
    if compiled.schedule is None:
        raise UserError("the kernel has no static schedule", hint="add --schedule static --grid N")
    return f"{compiled.schedule}\n"


def _grid(text: str | None) -> tuple[int, ...] | None:
    """The sizes of --grid."""
    if text is None:
        return None
    try:
        return tuple(int(size) for size in text.split(","))
    except ValueError:
        raise UserError(
            f"--grid {text} is not a grid", hint="write one to three integers, e.g. 4,4"
        ) from None


def load_kernel(place: str) -> JITFunction:
    """The kernel that FILE:KERNEL names; the file is run as a module."""
    file, colon, name = place.rpartition(":")
    if not colon or not file or not name:
        raise UserError(
            f"{place!r} does not name a kernel", hint="write FILE:KERNEL, e.g. kernels.py:add"
        )
    path = Path(file)
    if not path.is_file():
        raise UserError(f"no such file: {file}")
    # Not under the file's own name, which may be that of a library.
    module_spec = importlib.util.spec_from_file_location("__dsa_main__", path)
    if module_spec is None or module_spec.loader is None:
        raise UserError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module_spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        module_spec.loader.exec_module(module)
    except DsaError:
        raise
    except (Exception, SystemExit) as error:
        raise failure(file, error) from None
    found = getattr(module, name, None)
    if isinstance(found, JITFunction):
        return found
    kernels = [key for key, value in vars(module).items() if isinstance(value, JITFunction)]
    known = f"kernels there are {', '.join(kernels)}" if kernels else "it has no @dsa.jit functions"
    raise UserError(f"{file} has no kernel {name!r}", hint=known)


def _constant(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise UserError(f"--const {text!r} is not NAME=VALUE")
    try:
        return name.strip(), ast.literal_eval(value)
    except (ValueError, SyntaxError):
        pass
    try:
        return name.strip(), from_name(value.strip())
    except KeyError:
        raise UserError(
            f"--const {text}: {value!r} is not a Python literal or a dtype",
            hint="strings need quotes: --const \"MODE='fast'\"",
        ) from None
