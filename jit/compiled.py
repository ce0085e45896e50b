"""A compiled kernel: its image and everything there is to look at."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsalang._backend import formats
from dsalang._backend.collector import paused
from dsalang._backend.errors import InternalError, LaunchError, UserError
from dsalang._backend.image.model import Choice, Image
from dsalang._backend.isa.table import VECTOR_REGISTERS
from dsalang._backend.resident import FLAG
from dsalang._backend.target import Target
from dsalang._runtime.files import write_for_user

from . import knobs
from .micro.plan import Plan, chosen_of
from .micro.select import planned
from .schedule import Schedule, shortest, variants
from .source import KernelSource
from .specialize import Specialization

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from dsalang._backend.predict import Prediction

    from .decorator import JITFunction

_NONE: Mapping[str, bool | int | float] = {}
TEXTS = ("tile", "dsa", "asm", "llvm", "riscv")
"""What `CompiledKernel.text` holds."""


class Metadata(dict[str, Any]):
    """Facts about a compiled kernel by name, also as attributes: `metadata["name"]`, `metadata.name`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"metadata has no {name!r}; it has {', '.join(self)}") from None


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """A kernel compiled for a specialisation and a target. `kernel[grid](*args)` launches it.

    `text` maps "tile" (IR of the front end), "dsa" (IR after all passes), "asm" (instructions, vector
    programs, SRAM map, semaphores), "llvm" (the glue) and "riscv" (its machine code) to text, made when asked.
    """

    source: KernelSource
    specialization: Specialization
    target: Target
    image: Image
    text: Mapping[str, str] = field(init=False, repr=False)
    function: JITFunction | None = field(default=None, repr=False)

    n_regs = VECTOR_REGISTERS
    """Registers that a vector program may use: what host code that counts GPU registers is told."""
    n_spills = 0
    """Values that did not fit them; the compiler splits programs instead."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", _Texts(self))

    def __repr__(self) -> str:
        types = ", ".join(f"{n}: {t}" for n, t in self.specialization.signature.items())
        given = ", ".join(f"{n}={v!r}" for n, v in self.specialization.constants.items())
        return f"<compiled kernel {self.image.name}({types}) for {self.target.name}, {given or 'no constants'}>"

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """The kernel ready to be launched on a grid.

        Arguments are all of the kernel's in order; constexpr ones may be left out, those that the kernel was compiled with
        hold in any case.
        """
        if self.function is None:
            raise LaunchError(f"{self.image.name} was compiled without a function to launch")
        return partial(self._launch, grid)

    def _launch(self, grid: Any, *args: Any, **kwargs: Any) -> Any:
        assert self.function is not None
        names = [param.name for param in self.source.params]
        if len(args) > len(names):
            return self.function[grid](*args, **kwargs)  # which refuses it
        spec = self.specialization
        own = {param.name for param in self.source.params if param.constexpr}
        values = {**dict(zip(names, args)), **kwargs}
        values |= {name: value for name, value in spec.constants.items() if name in own}
        return self.function[grid](**values, target=self.target)

    @property
    def shared(self) -> int:
        """Bytes of SRAM that the kernel uses, by the name of a GPU's memory."""
        return self.image.sram_bytes

    def _init_handles(self) -> None:
        """Accepted for Triton's sake: there is nothing to load before a launch."""

    @property
    def asm(self) -> Mapping[str, str]:
        """The same as `text`."""
        return self.text

    @property
    def metadata(self) -> Metadata:
        """Name, target, signature, constants, facts, SRAM bytes and counts, as plain values.

        `shared`, `num_warps`, `num_ctas`: what Triton's host code asks for; `shared` is the SRAM in use.
        """
        spec = self.specialization
        facts = {
            "name": self.image.name,
            "target": self.image.target,
            "target_digest": self.image.target_digest,
            "signature": dict(spec.signature),
            "constants": dict(spec.constants),
            "divisible": dict(spec.facts.divisible),
            "alias": dict(spec.facts.alias),
            "num_stages": spec.num_stages,
            "resident": {
                name: sum(r.slots * r.slot_bytes for r in self.image.rings if r.kept == name)
                for name in dict.fromkeys(r.kept for r in self.image.rings if r.kept)
            },
            "sram_bytes": self.image.sram_bytes,
            "instructions": len(self.image.templates),
            "vector_programs": len(self.image.programs),
            "semaphores": len(self.image.credits),
            "code_bytes": len(self.image.code),
        }
        return Metadata(facts, shared=self.image.sram_bytes, num_warps=1, num_ctas=1)

    def predict(
        self, grid: Any, values: Mapping[str, bool | int | float] = _NONE, warm: bool = False
    ) -> Prediction:
        """How long a launch takes, without running it.

        Args:
            grid: how many programs: an int, or a tuple of one to three ints.
            values: scalar arguments by name; those that only change data may be left out (0).
            warm: whether a kernel that keeps arrays in SRAM finds them there; else it loads them.

        A static schedule takes what it takes, on the grid that it was made for.

        Raises:
            LaunchError: a value is not that of a scalar argument, or the grid is not one.
            UserError: how the kernel runs depends on data that it loads.
        """
        from dsalang._backend.predict import predict

        from .launch import grid_of, scalar_bits

        args = {a.name: int(a.name == FLAG) for a in self.image.arguments}
        scalars = {
            a.name: a.fmt for a in self.image.arguments if not a.is_pointer and a.name != FLAG
        }
        if warm and FLAG in args:
            args[FLAG] = 0
        for name, value in values.items():
            if name in scalars:
                args[name] = scalar_bits(formats.by_name(scalars[name]), value)
            elif name not in self.specialization.constants:
                raise LaunchError(
                    f"{self.image.name} has no scalar argument {name!r}",
                    hint=f"its scalar arguments are {', '.join(scalars) or 'none'}",
                )
        found = predict(self.module, self.target, list(args.values()), grid_of(grid, args))
        if self.latency_cycles is None:
            return found
        time = self.target.microseconds(self.latency_cycles)
        return replace(found, cycles=self.latency_cycles, microseconds=time, exact=True)

    @cached_property
    def module(self) -> ModuleOp:
        """The IR after all passes, with flags; for looking at, not for changing."""
        return dsa_ir(self.source, self.specialization, self.target, self.plan)

    @property
    def plan(self) -> Plan:
        """Which calls run microkernels."""
        return Plan(self.target, chosen_of(self.image.choices))

    @property
    def microkernels(self) -> tuple[Choice, ...]:
        """Where microkernels could run: the place, the op, the microkernel, whether it `ran` and why."""
        return self.image.choices

    @property
    def latency_cycles(self) -> int | None:
        """Cycles that a kernel with a static schedule is guaranteed to take; None with a dynamic one."""
        return None if self.schedule is None else self.schedule.cycles

    @property
    def latency_us(self) -> float | None:
        """The same in microseconds."""
        return None if self.schedule is None else self.schedule.microseconds

    @property
    def schedule(self) -> Schedule | None:
        """The static schedule: `rows` (core, engine, start, end, line), figures; its text is a table."""
        return None if self.image.timing is None else Schedule(self.image, self.target)

    def save(self, path: str | Path) -> Path:
        """Write the device image, an ELF file that `dsa objdump` and a device's runtime read."""
        from dsalang._backend.image.elf import save

        return write_for_user(path, save(self.image), "the image")


class _Texts(Mapping[str, str]):
    def __init__(self, kernel: CompiledKernel) -> None:
        self._kernel = kernel
        self._made: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in TEXTS:
            raise KeyError(f"{name!r}; there are {', '.join(TEXTS)}")
        if name not in self._made:
            self._made[name] = _text(self._kernel, name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(TEXTS)

    def __len__(self) -> int:
        return len(TEXTS)


def _text(kernel: CompiledKernel, name: str) -> str:
    if name == "llvm":
        return kernel.image.glue
    if name in ("asm", "riscv"):
        return _disassembly(kernel.image, name)
    from dsalang._backend.dialects import print_ir

    # IR is not kept in images, which come from the cache; parsing again gives the same.
    if name == "dsa":
        return print_ir(kernel.module)
    return print_ir(tile_ir(kernel.source, kernel.specialization, kernel.plan))


def _disassembly(image: Image, name: str) -> str:
    from dsalang._backend.image.objdump import objdump

    # Sections are separated by blank lines; the last one is the machine code.
    *parts, code = objdump(image).rstrip("\n").rsplit("\n\n", 1)
    return (code if name == "riscv" else "".join(parts)) + "\n"


def tile_ir(source: KernelSource, spec: Specialization, plan: Plan | None = None) -> ModuleOp:
    """The front end's IR of a kernel. Raises CompileError with the place in the user's source.

    Args:
        plan: which calls run microkernels; none do when absent, but those that are called by name.
    """
    from .parse import parse

    return parse(source, spec.signature, spec.constants, spec.facts, plan)


def dsa_ir(
    source: KernelSource, spec: Specialization, target: Target, plan: Plan | None = None
) -> ModuleOp:
    """The IR of a kernel after all passes."""
    from dsalang._backend.pipeline import run_passes

    module = tile_ir(source, spec, plan)
    run_passes(module, target, num_stages=spec.num_stages, resident=spec.resident)
    return module


@paused()
def compile_kernel(source: KernelSource, spec: Specialization, target: Target) -> Image:
    """Compile, without looking into any cache. A failure that is not the user's is an InternalError."""
    from dsalang._backend.pipeline import compile_module

    dumps = knobs.DUMP.get()
    try:
        image = shortest(
            compile_module(
                planned(source, variant, target),
                target,
                num_stages=variant.num_stages,
                resident=variant.resident,
                grid=variant.grid,
                values=variant.fixed,
                observe=_print_pass if "passes" in dumps else None,
                verify=knobs.VERIFY.get(),
            )
            for variant in variants(spec)
        )
    except UserError:
        raise
    except Exception as error:
        what = (
            str(error) if isinstance(error, InternalError) else f"{type(error).__name__}: {error}"
        )
        raise InternalError(
            f"compiling {source.name} failed: {what}\n"
            f"This is a bug in dsalang; it is reproduced by: {reproduce(source, spec, target)}"
        ) from error
    kernel = CompiledKernel(source, spec, target, image)
    for name in dumps:
        if name != "passes":
            print(f"// {source.name}: {name}\n{kernel.text[name]}", file=sys.stderr)
    return image


def _print_pass(name: str, module: Any) -> None:
    from dsalang._backend.dialects import print_ir

    print(f"// after {name}\n{print_ir(module)}", file=sys.stderr)


def reproduce(source: KernelSource, spec: Specialization, target: Target) -> str:
    """The command that compiles the same thing."""
    static = ""
    if spec.grid is not None:
        spec = spec.folded()
        static = f" --schedule static --grid {','.join(map(str, spec.grid or ()))}"
    types = ",".join(spec.signature.values())
    constants = "".join(f" --const {name}={value!r}" for name, value in spec.constants.items())
    kept = spec.resident
    if kept.arrays:
        static = f" --resident {','.join(kept.arrays)} --grid {','.join(map(str, kept.grid))}"
    return (
        f"DSA_DUMP=passes dsa compile {source.file}:{source.name} --target {target.name} "
        f'--signature "{types}"{constants}{static}'
    )
