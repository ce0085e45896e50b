"""Short ways to write tile IR in tests and to look at what a pass made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue

from dsalang._backend.dialects import parse_ir, tile

HEAD = """
func.func @k(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %idx: !tile.ptr<i32>, %n: i32, %m: i32)
    attributes {dsa.alias = array<i64: 0, 1, 2, -1, -1>} {
"""


def kernel(body: str) -> ModuleOp:
    """A kernel with pointers x, y (f32), idx (i32) and integers n, m."""
    return parse_ir(HEAD + expand(body) + "\n  func.return\n}")


def expand(body: str) -> str:
    """`%r = fn(%a, %b) : T` (one type for all) is short for a `tile.map`; other lines stay."""
    lines = []
    for line in body.splitlines():
        text = line.strip()
        name, equals, right = text.partition(" = ")
        if (
            equals
            and name.startswith("%")
            and "(" in right
            and not right.startswith(('"', "arith", "scf"))
        ):
            call, _, type_ = right.partition(" : ")
            fn, _, args = call.partition("(")
            args = args.rstrip(")")
            count = args.count(",") + 1
            operands, arrow, result = type_.partition(" -> ")
            types = operands if "," in operands else ", ".join([operands] * count)
            text = f'{name} = "tile.map"({args}) {{fn = "{fn}"}} : ({types}) -> {result if arrow else operands}'
        lines.append(text)
    return "\n".join(lines)


def run(body: str, *passes: Callable[[ModuleOp], None]) -> ModuleOp:
    module = kernel(body)
    for run_pass in passes:
        run_pass(module)
        module.verify()
    return module


def find(module: ModuleOp, kind: type[Operation]) -> list[Any]:
    return [op for op in module.walk() if isinstance(op, kind)]


def names(module: ModuleOp) -> list[str]:
    """Names of the ops inside the function, `tile.map` by its operation."""
    skip = ("builtin.module", "func.func", "func.return", "arith.constant")
    return [
        f"map.{op.fn.data}" if isinstance(op, tile.MapOp) else op.name
        for op in module.walk()
        if op.name not in skip
    ]


def number(value: SSAValue) -> int | None:
    """The integer behind a constant."""
    attribute = value.owner.properties.get("value") if isinstance(value.owner, Operation) else None
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None


def store_scalar(value: str, type_: str = "f32") -> str:
    """Keep a scalar f32 alive."""
    return f'"tile.store"(%y, {value}) {{operandSegmentSizes = array<i32: 1, 1, 0>}} : (!tile.ptr<f32>, {type_}) -> ()'


def print_value(value: str, type_: str) -> str:
    """Keep a value alive."""
    return f'"tile.print"({value}) {{prefix = "", unsigned = array<i64: 0>}} : ({type_}) -> ()'
