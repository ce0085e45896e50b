"""mma: matrix multiply-accumulate, as a register-tiled kernel or, where sizes are open, as plain loops."""

from __future__ import annotations

from dataclasses import replace

from ... import formats
from ...isa.table import SCALE_BLOCK
from . import lanes, mma_plain, mma_tiled
from .build import Int, constant
from .mma_model import Matrix, Product, Scales
from .unit import Unit
from .walk import injective


def emit(unit: Unit) -> None:
    """The body of an mma."""
    batch, m, n, k = (unit.field(name) for name in ("batch", "m", "n", "k"))
    accumulate = unit.static("accumulate") != 0

    def clear() -> None:
        if not accumulate:
            _clear(unit, batch, m, n, _matrix(unit, "d", batch, m, n, False))

    def multiply() -> None:
        a, b = (_operand(unit, name) for name in "ab")
        d = _matrix(unit, "d", batch, m, n, False)
        product = Product(batch, m, n, k, a, b, d, accumulate)
        (mma_tiled.emit if _tiled(product) else mma_plain.emit)(unit, product)

    empty = unit.compare("==", k, 0)
    unit.when(empty, clear)
    unit.when(unit.negate(empty), multiply)


def _operand(unit: Unit, name: str) -> Matrix:
    """A as [M, K] or B as [K, N], with its scales."""
    batch, k = unit.field("batch"), unit.field("k")
    along = unit.field("m" if name == "a" else "n")
    fmt = formats.OPERANDS_BY_CODE[unit.static(f"fmt_{name}")]
    stored = unit.shift_right(unit.add(k, 1), 1) if fmt.per_element == 2 else k
    shape = (along, stored) if name == "a" else (stored, along)
    matrix = _matrix(unit, name, batch, *shape, unit.static(f"trans_{name}") != 0)
    address = unit.field(f"scale_{name}")
    if not unit.present(address):
        return matrix
    step, lead = unit.field(f"batch_scale_{name}"), unit.field(f"ld_scale_{name}")
    count = unit.shift_right(unit.add(k, SCALE_BLOCK - 1), SCALE_BLOCK.bit_length() - 1)
    range_ = unit.check_sram(address, (batch, along, count), (step, lead, 1), 1)
    return replace(matrix, scales=Scales(address, step, lead, range_))


def _matrix(unit: Unit, name: str, batch: Int, rows: Int, columns: Int, transposed: bool) -> Matrix:
    fmt = formats.OPERANDS_BY_CODE[unit.static(f"fmt_{name}")]
    step, lead, width = unit.field(f"batch_{name}"), unit.field(f"ld{name}"), fmt.bytes
    strides = (step, width, lead) if transposed else (step, lead, width)
    address = unit.field(name)
    range_ = unit.check_sram(address, (batch, rows, columns), strides, fmt.bytes)
    return Matrix(fmt, address, strides, range_)


def _tiled(p: Product) -> bool:
    """Whether the tiled kernel can do it: sizes and row strides known, no element of D written twice."""
    known = [p.m, p.n, p.k, *p.a.strides[1:], *p.b.strides[1:]]
    known += [matrix.scales.lead for matrix in (p.a, p.b) if matrix.scales]
    if not all(isinstance(x, int) for x in known):
        return False
    most = 255 * 255 if p.a.fmt.name == p.b.fmt.name == "uint8" else 255 * 128
    if p.integers and p.k * most >= 1 << 31:
        return False
    first = 1 if isinstance(p.batch, int) and p.batch == 1 else 0
    return injective((p.batch, p.m, p.n)[first:], p.d.strides[first:], p.d.fmt.bytes)


def _clear(unit: Unit, batch: Int, m: Int, n: Int, d: Matrix) -> None:
    zero = constant(lanes.storage(d.fmt), 0)
    start = unit.at(unit.sram, d.address)
    unit.walk((batch, m, n), [d.strides], lambda at: unit.store(zero, start, at[0]))
