"""The example of docs/microkernels.md works as it stands there."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import dsalang as dsa

PAGE = Path(__file__).parents[2] / "docs" / "microkernels.md"


def test_the_example():
    blocks = re.findall(r"(?:^    .*\n|^\n)+", PAGE.read_text(), re.M)
    text = "\n".join(line[4:] for block in blocks for line in block.splitlines())
    file = "<docs/microkernels.md>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, object] = {"__name__": "docs"}
    exec(compile(text, file, "exec"), scope)
    micro = scope["row_product"]
    assert isinstance(micro, dsa.MicrokernelFunction)
    dsa.unregister_microkernel(micro)
    micro.self_test("fp32[1, 64]", "fp32[64, 48]", None)
    micro.self_test("fp32[1, 64]", "fp32[64, 48]", "fp32[1, 48]")


def test_every_method_of_the_writer_is_on_the_page():
    from dsalang._backend.micro.writer import Writer

    page = PAGE.read_text()
    names = [n for n in vars(Writer) if not n.startswith("_") and n != "require_written"]
    assert not [name for name in names if f"k.{name}" not in page]
