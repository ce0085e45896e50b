"""Host code of instructions: every template of an image becomes one LLVM function (see `abi.py`)."""

from __future__ import annotations

import llvmlite.ir as ir

from ...image.model import Image, Template
from ...target import Target


def emit_unit(
    module: ir.Module, template: Template, image: Image, target: Target, name: str
) -> ir.Function:
    """Add the function `name` of `template` to `module`: `i64 name(i8 *sram, i64 *values, i64 *context)`.

    Raises KeyError for set and wait, which touch no data.
    """
    raise NotImplementedError(f"{template.instruction.op} has no host code yet")
