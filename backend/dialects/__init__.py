"""The IR dialects, and reading and writing IR as text."""

from __future__ import annotations

import io

from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, scf
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.printer import Printer

from .dsa import Dsa
from .tile import Tile


def context() -> Context:
    """A context with every dialect that dsalang uses."""
    result = Context()
    for dialect in (builtin.Builtin, arith.Arith, func.Func, scf.Scf, Tile, Dsa):
        result.load_dialect(dialect)
    return result


def parse_ir(text: str) -> builtin.ModuleOp:
    """Parse and verify a module."""
    module = Parser(context(), text).parse_module()
    module.verify()
    return module


def print_ir(op: Operation, locations: bool = False) -> str:
    """The textual form of an op; with source locations when asked."""
    out = io.StringIO()
    Printer(out, print_debuginfo=locations).print_op(op)
    return out.getvalue() + "\n"
