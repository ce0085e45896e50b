"""Shared functions that copy boxes of memory: rows, and rows that become columns."""

from __future__ import annotations

from collections.abc import Callable

from .. import ir
from . import helpers
from .build import I1, I8, I64, PTR, VOID, Bool, Code, Int, Value, constant, vector
from .transpose import transposed as square_transposed

_LONG_ROW = 4096
"""Bytes from which on the C library's copy is as fast as a loop over vectors."""
_LARGE, _AHEAD = 128 * 1024, 4
"""Bytes that are not in the host's first caches, and how many rows ahead they are asked for."""
_PIECE = 16
"""Bytes of the smallest vector."""
_SQUARE = 16
"""Elements along a square that is transposed in registers, where they fit."""
WIDTHS = (2, 4)
"""Bytes of elements that `columns` is for; each costs some time in the first process on a host."""


def element(width: int) -> ir.Type:
    """The type of an element of so many bytes."""
    return ir.IntType(8 * width)


def rows(module: ir.Module, vector_bytes: int) -> ir.Function:
    """void f(to, to_step, from, from_step, count, bytes, past): `count` rows of `bytes` bytes, in order.

    They go past the caches where `past` says so.
    """

    def body(code: Code) -> None:
        to, to_step, source, from_step, count, bytes_, past = code.function.args

        def each(copy: Callable[[Value, Value], None]) -> None:
            def row(i: Int) -> None:
                copy(code.at(to, code.mul(i, to_step)), code.at(source, code.mul(i, from_step)))

            code.loop(0, count, row)

        def vectors(width: int, ahead: int = 0) -> None:
            """The last vector of a row may go over bytes that it has already."""
            last = code.sub(bytes_, width)
            further = [code.mul(step, ahead) for step in (to_step, from_step)]

            def copy(target: Value, start: Value) -> None:
                def piece(at: Int) -> None:
                    if ahead:
                        code.prefetch(code.at(start, code.add(at, further[1])))
                        code.prefetch(code.at(target, code.add(at, further[0])), write=True)
                    code.store(code.load(vector(I8, width), start, at), target, at)

                code.loop(0, last, piece, step=width)
                piece(last)

            each(copy)

        def bytes_alone(target: Value, start: Value) -> None:
            code.loop(0, bytes_, lambda at: code.store(code.load(I8, start, at), target, at))

        stream = helpers.stream(module, vector_bytes)
        cases: list[tuple[Bool, Callable[[], None]]] = [
            (past, lambda: each(lambda t, s: code.b.call(stream, [t, s, bytes_, past]))),
            (
                code.compare(">=", bytes_, _LONG_ROW),
                lambda: each(lambda t, s: code.copy(t, s, bytes_)),
            ),
            (
                code.both(
                    code.compare(">=", bytes_, vector_bytes),
                    code.compare(">=", code.mul(bytes_, count), _LARGE),
                ),
                lambda: vectors(vector_bytes, _AHEAD),
            ),
            (code.compare(">=", bytes_, vector_bytes), lambda: vectors(vector_bytes)),
            (code.compare(">=", bytes_, _PIECE), lambda: vectors(_PIECE)),
        ]
        for condition, do in cases:
            then, other = code.b.append_basic_block("case"), code.b.append_basic_block("case")
            code.b.cbranch(condition, then, other)
            code.b.position_at_end(then)
            do()
            code.b.ret_void()
            code.b.position_at_end(other)
        each(bytes_alone)
        code.b.ret_void()

    return helpers.helper(module, "dsa.rows", VOID, [PTR, I64, PTR, I64, I64, I64, I1], body)


def columns(module: ir.Module, width: int, vector_bytes: int) -> ir.Function:
    """void f(to, to_step, from, from_step, rows, columns): to[r][c] = from[c][r], elements of `width` bytes.

    Rows of `to` are `to_step` bytes apart, those of `from` are `from_step` bytes apart.
    """
    type_ = element(width)
    side = min(_SQUARE, vector_bytes // width)

    def body(code: Code) -> None:
        to, to_step, source, from_step, row_count, column_count = code.function.args

        def place(r: Int, c: Int) -> tuple[Value, Value]:
            target = code.at(to, code.add(code.mul(r, to_step), code.mul(c, width)))
            return target, code.at(source, code.add(code.mul(c, from_step), code.mul(r, width)))

        def square(r: Int, c: Int) -> None:
            target, start = place(r, c)
            values = [
                code.load(vector(type_, side), start, code.mul(from_step, k)) for k in range(side)
            ]
            for k, value in enumerate(square_transposed(code, values)):
                code.store(value, target, code.mul(to_step, k))

        def single(r: Int, c: Int) -> None:
            target, start = place(r, c)
            code.store(code.load(type_, start), target)

        def whole(count: Int) -> Int:
            return code.b.and_(count, constant(I64, -side))

        def box(
            one: Callable[[Int, Int], None], first: tuple[Int, Int], end: tuple[Int, Int], step: int
        ) -> None:
            code.loop(
                first[1],
                end[1],
                lambda c: code.loop(first[0], end[0], lambda r: one(r, c), step=step),
                step=step,
            )

        squares = whole(row_count), whole(column_count)
        box(square, (0, 0), squares, side)
        box(single, (0, squares[1]), (squares[0], column_count), 1)
        box(single, (squares[0], 0), (row_count, column_count), 1)
        code.b.ret_void()

    name = f"dsa.columns.{width}"
    return helpers.helper(module, name, VOID, [PTR, I64, PTR, I64, I64, I64], body)
