"""Programs that strangers wrote, run by changing an import: Triton's tutorials and the answers of Triton-Puzzles-Lite.

    python benchmarks/compatibility.py tutorials FOLDER [NAME ...]    # python/tutorials of a checkout of Triton
    python benchmarks/compatibility.py tutorials FOLDER --full        # 06, 09 and 10 at their own sizes: hours, 20 GB
    python benchmarks/compatibility.py puzzles FOLDER                 # a checkout of Triton-Puzzles-Lite

Needs torch; tutorial 04 also tabulate. Files are read where they are; what is replaced in their text on the way stands in
`TUTORIALS`, with why. docs/compatibility.md has the results.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import os
import runpy
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dsalang import compat, testing

Names = dict[str, Any]


@dataclass(frozen=True)
class Tutorial:
    """How a tutorial is run.

    Attributes:
        device: replacements in its text: the choice of a device, nothing else.
        check: called with its names, and whether at its own sizes, where it is imported instead of run as a program, which
            would measure for hours.
    """

    device: Mapping[str, str]
    check: Callable[[Names, bool], None] | None = None


CUDA = {'device="cuda"': 'device="cpu"', 'device = "cuda"': 'device = "cpu"'}
"""Tensors are the host's."""
NO_CAPABILITY = {"torch.cuda.get_device_capability()": "(0, 0)"}
"""Asking CUDA for its version fails where torch has no CUDA."""
CORES = {
    'torch.cuda.get_device_properties("cuda").multi_processor_count': "triton.runtime.driver.active.utils"
    '.get_device_properties(0)["multiprocessor_count"]',
}
HAS_TMA = {"is_cuda() and torch.cuda.get_device_capability()[0] >= 9": "True"}
"""Tensor descriptors work here, so the parts that a GPU must be new enough for run too."""


def attention(names: Names, full: bool) -> None:
    """Its own test: on 256 tokens, or on all shapes of its parametrisation whose reference fits this host."""
    batches, heads, lengths = ((1, 4), (2, 48), (128, 1024, 4096)) if full else ((1,), (2,), (256,))
    shapes = itertools.product(lengths, batches, heads, (64, 128), (False, True))
    for length, batch, head, width, causal in shapes:
        if batch * head * length**2 > LARGEST_SCORES:
            continue
        for mode, provider in (("fwd", "triton-fp8"), ("bwd", "triton-fp16")):
            names["test_op"](batch, head, length, width, causal, False, mode, provider)


LARGEST_SCORES = 10**9
"""Elements of torch's matrix of scores that a host has memory for: it keeps five of them."""


def persistent_matmul(names: Names, full: bool) -> None:
    """Its own check, which prints what failed; 512 in place of 8192."""
    import torch

    shown = io.StringIO()
    sizes = ((32, 32, 32), (8192, 8192, 512) if full else (512, 512, 512))
    with contextlib.redirect_stdout(shown):
        for kind, size in itertools.product((torch.float16, torch.float8_e4m3fn), sizes):
            names["validate"](*size, kind)
    assert "❌" not in shown.getvalue(), shown.getvalue()


def block_scaled_matmul(names: Names, full: bool) -> None:
    """Its own checks; 128×256×512 in place of 8192×8192×8192."""
    for kind in ("mxfp8", "mxfp4", "mixed", "nvfp4"):
        names["validate_block_scaled"](*((8192,) * 3 if full else (128, 256, 512)), kind)
    if "validate_block_scaled_amd" in names:
        names["validate_block_scaled_amd"](128, 128, 512)


TUTORIALS: dict[str, Tutorial] = {
    "01-vector-add": Tutorial({}),
    "02-fused-softmax": Tutorial({}),
    "03-matrix-multiplication": Tutorial({}),
    "04-low-memory-dropout": Tutorial({}),
    "05-layer-norm": Tutorial({}),
    "06-fused-attention": Tutorial(CUDA, attention),
    "07-extern-functions": Tutorial(
        # The functions of libdevice are the machine's own: there is no file to name.
        {"raise RuntimeError('unknown backend')": "extern_libs = {}"}
    ),
    # Without HAS_TMA: tuning the variant with descriptors over all its configurations takes many minutes.
    "08-grouped-gemm": Tutorial({**CUDA, **CORES}),
    "09-persistent-matmul": Tutorial(
        {**HAS_TMA, **CUDA, **CORES, **NO_CAPABILITY}, persistent_matmul
    ),
    "10-block-scaled-matmul": Tutorial(CUDA, block_scaled_matmul),
}


def run_tutorial(path: Path, tutorial: Tutorial, full: bool) -> None:
    """Run one; its own assertions decide."""
    text = path.read_text()
    for old, new in tutorial.device.items():
        text = text.replace(old, new)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / f"tutorial_{path.stem.replace('-', '_')}.py"
        copy.write_text(text)
        names = runpy.run_path(str(copy), run_name="tutorial" if tutorial.check else "__main__")
        if tutorial.check:
            tutorial.check(names, full)


def only_the_first_size() -> None:
    """Benchmarks of the tutorials measure one size: they are made for machines that are not emulated."""
    usual = testing.Benchmark.__init__

    def init(self: Any, x_names: Any, x_vals: Any, *args: Any, **kwargs: Any) -> None:
        usual(self, x_names, list(x_vals)[:1], *args, **kwargs)

    testing.Benchmark.__init__ = init  # type: ignore[method-assign]


def tutorials(folder: Path, chosen: list[str], full: bool) -> int:
    """Run all, or the chosen ones; how many failed."""
    import torch

    os.environ["PYTEST_VERSION"] = "8"  # tutorial 06 takes it as a sign to try one configuration
    torch.cpu.set_stream = lambda stream: None  # tutorial 02 sets one; launches are in order anyway
    only_the_first_size()
    failed = 0
    for name, tutorial in TUTORIALS.items():
        if chosen and not any(name.startswith(part) for part in chosen):
            continue
        if full and tutorial.check is None:
            continue
        run = partial(run_tutorial, folder / f"{name}.py", tutorial, full)
        failed += not report(name, run)
    return failed


def puzzles(folder: Path) -> int:
    """Run the answers with the puzzles' own checks; 1 when one is wrong.

    Their `interpreter` module watches memory through the insides of Triton's interpreter; here the engine itself stops at
    an access out of bounds.
    """
    watch = types.ModuleType("interpreter")
    watch.__dict__.update(
        patch=contextlib.nullcontext, collect_grid=lambda: (None, None, {}, {})
    )  # fmt: skip
    sys.modules["interpreter"] = watch
    sys.path.insert(0, str(folder))
    sys.argv = ["puzzles_ans.py", "--all"]
    os.environ["TRITON_INTERPRET"] = "1"  # their way to say that tensors are the host's
    shown = io.StringIO()

    def run() -> None:
        with contextlib.redirect_stdout(shown):
            runpy.run_path(str(folder / "puzzles_ans.py"), run_name="__main__")
        right = shown.getvalue().count("✅ Results match: True")
        assert right == 12, f"{right} of 12 are right:\n{shown.getvalue()}"

    return int(not report("puzzles: 12 of 12", run))


def report(name: str, run: Callable[[], None]) -> bool:
    """Run, print one line, and tell whether it went well."""
    begin = time.perf_counter()
    shown = io.StringIO()
    try:
        with contextlib.redirect_stdout(shown):
            run()
    except Exception:
        print(
            f"FAIL  {name}\n{shown.getvalue()[-2000:]}{traceback.format_exc(limit=-4)}", flush=True
        )
        return False
    print(f"ok    {name}  {time.perf_counter() - begin:.1f} s", flush=True)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=["tutorials", "puzzles"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="tutorials by the beginnings of their names")
    parser.add_argument("--full", action="store_true", help="06, 09 and 10 at their own sizes")
    options = parser.parse_args()
    compat.install()
    folder = options.folder.resolve()
    failed = (
        puzzles(folder)
        if options.what == "puzzles"
        else tutorials(folder, options.names, options.full)
    )
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
