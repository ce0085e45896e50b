"""What an instruction's static fields must satisfy before the engine runs it.

Everything here raises ValueError: it means a damaged image or a bug of the compiler.
"""

from __future__ import annotations

from collections.abc import Collection

from dsalang._backend import formats
from dsalang._backend.cost import Fields, array, scalar
from dsalang._backend.isa.check import SIZES
from dsalang._backend.isa.table import BY_NAME, NONE, AtomicKind, Field, ReduceKind
from dsalang._backend.isa.vprog import VectorProgram
from dsalang._backend.target import Target

STATIC = (
    "elem_bytes",
    "ndim",
    "fmt",
    "fmt_a",
    "fmt_b",
    "fmt_d",
    "index_fmt",
    "kind",
    "axis",
    "program",
)
"""Fields that decide what an instruction is; no run-time operand may fill them."""

_FORMATS = {"format": formats.BY_CODE, "operand": formats.OPERANDS_BY_CODE}


def check_static(
    op: str, fields: Fields, open_: Collection[str], program: VectorProgram | None, target: Target
) -> None:
    """Check the complete static fields of a template; `open_` are the fields that come at run time."""
    for name in open_:
        if name.partition(".")[0] in STATIC:
            raise ValueError(f"{op}: field {name} cannot come at run time")
    for field in BY_NAME[op].fields:
        _check_field(op, field, fields, open_)
    if op == "mma":
        _check_mma(fields, open_, target)
    if program is not None:
        for name, operands in (("in", program.inputs), ("out", program.outputs)):
            addresses = array(fields, name)
            for k in range(len(operands)):
                if addresses[k] == NONE and f"{name}.{k}" not in open_:
                    raise ValueError(f"{op}: operand {name}.{k} is missing")


def _check_field(op: str, field: Field, fields: Fields, open_: Collection[str]) -> None:
    name = field.name
    if name in SIZES:
        _check_sizes(op, field, fields, open_)
    elif name == "elem_bytes" and scalar(fields, name) not in (1, 2, 4, 8):
        raise ValueError(f"{op}: elements of {scalar(fields, name)} bytes")
    elif name == "ndim" and scalar(fields, name) > BY_NAME[op].by_name["size"].count:
        raise ValueError(f"{op}: {scalar(fields, name)} dims")
    elif name == "axis" and scalar(fields, name) >= scalar(fields, "ndim"):
        raise ValueError(f"{op}: no axis {scalar(fields, name)}")
    elif name.startswith("fmt") and scalar(fields, name) not in _FORMATS[field.values]:
        raise ValueError(f"{op}: unknown format {scalar(fields, name)}")
    elif name == "kind":
        (AtomicKind if op == "dma.atomic" else ReduceKind)(scalar(fields, name))
    elif name == "index":
        used = any(a != NONE for a in array(fields, name)) or any(
            o.startswith("index.") for o in open_
        )
        fmt = formats.BY_CODE.get(scalar(fields, "index_fmt"))
        if used and (fmt is None or fmt.name not in ("int32", "int64")):
            raise ValueError(f"{op}: index vectors of format {fmt}")


def _check_sizes(op: str, field: Field, fields: Fields, open_: Collection[str]) -> None:
    if field.count == 1:
        entries = {field.name: scalar(fields, field.name)}
    else:
        sizes = array(fields, field.name)[: scalar(fields, "ndim")]
        entries = {f"{field.name}.{d}": size for d, size in enumerate(sizes)}
    for name, size in entries.items():
        if size < (name != "k") and name not in open_:
            raise ValueError(f"{op}: {name} is {size}")


def _accumulators(a: str, b: str, floats: bool, blocks: bool) -> tuple[str, ...]:
    """The formats that a product can be accumulated in; none if it does not exist."""
    if "fp64" in (a, b):
        return ("fp64",) if a == b and not blocks else ()
    return ("fp32", "bf16") if floats else ("int32",)


def _check_mma(fields: Fields, open_: Collection[str], target: Target) -> None:
    fmt_a, fmt_b, fmt_d = (formats.OPERANDS_BY_CODE[scalar(fields, f"fmt_{x}")] for x in "abd")
    for fmt in (fmt_a, fmt_b):
        if fmt.name not in target.tensor.macs_per_cycle:
            raise ValueError(f"the tensor engine of {target.name} does not multiply {fmt}")
    blocks = fmt_a.is_float != fmt_b.is_float or any(
        scalar(fields, name) != NONE or name in open_ for name in ("scale_a", "scale_b")
    )
    if blocks and not target.tensor.block_scales:
        raise ValueError(
            f"the tensor engine of {target.name} takes neither block scales nor integers beside floats"
        )
    if fmt_d.name not in _accumulators(fmt_a.name, fmt_b.name, blocks or fmt_a.is_float, blocks):
        raise ValueError(f"mma of {fmt_a} by {fmt_b} into {fmt_d} does not exist")
    for name in ("m", "n", "k"):
        if scalar(fields, name) > target.tensor.max_dim:
            raise ValueError(
                f"mma: {name} = {scalar(fields, name)} is above the {target.tensor.max_dim} of "
                f"{target.name}"
            )
