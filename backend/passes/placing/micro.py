"""Microkernels: the instructions of a call are those that its function writes."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Block, BlockArgument, SSAValue

from ...dialects import tile
from ...dialects.locations import from_ir
from ...dialects.types import PtrType
from ...errors import Loc, MicrokernelError, UserError
from ...micro.contract import Constant, Contract, Microkernel, lookup
from ...micro.places import of_traceback
from ...micro.scalars import Address, Number
from ...micro.tiles import Tile
from ...micro.writer import Site, Writer, operand_tile
from .emit import Placement
from .vector import copy, in_sram

Call = tile.MicrokernelOp | tile.MicrokernelHbmOp


def place_micro(p: Placement, op: Call) -> None:
    """Write the instructions of a call. What is wrong with the microkernel is a MicrokernelError at its line."""
    kernel, contract = lookup(op.kernel.data), Contract.of(op.contract.data)
    places, outside = tile.ints(op.in_place), p.location
    for place, result in zip(places, op.res):
        if place >= 0:
            source = in_sram(p, op.args[place])
            if source != p.view(result):
                copy(p, source, p.view(result))
    caller = from_ir(op.location)
    own = None
    if kernel.own_flags:
        own = f"{kernel.name}/{len(p.own_calls)}"
        p.own_calls.append(own)
    site = Site.within(p, caller, own)
    results = [
        operand_tile(site, p.view(result), fmt, f"result {k}", True)
        for k, (result, fmt) in enumerate(zip(op.res, contract.results))
    ]
    arguments = _arguments(p, site, op, contract, results)
    fresh = [t for t, place in zip(results, places) if place < 0]
    _run(kernel, Writer(site, results, p.own_credits), arguments, fresh, caller)
    p.last_ring, p.location = site.last_ring, outside


def _arguments(
    p: Placement, site: Site, op: Call, contract: Contract, results: list[Tile]
) -> list[Any]:
    """The arguments of the function: tiles, addresses and constants; an in-place operand is its result."""
    places = tile.ints(op.in_place)
    found: list[Any] = []
    for name, given in contract.arguments.items():
        if isinstance(given, Constant):
            found.append(given.value)
        elif given in places:
            found.append(results[places.index(given)])
        elif contract.operands[given].startswith("*"):
            value = op.args[given]
            number = Number(site, p.core(value))
            found.append(Address(number, contract.operands[given][1:], _argument_behind(value)))
        else:
            view = in_sram(p, op.args[given])
            found.append(operand_tile(site, view, contract.operands[given], name, False))
    site.last_ring = p.last_ring  # scalars that had to be written to SRAM
    return found


def _argument_behind(address: SSAValue) -> int:
    """The pointer argument of the kernel that an address is made of, -1 when that is not clear."""
    todo, found = [address], set()
    while todo:
        value = todo.pop()
        if isinstance(value, BlockArgument):
            if (
                isinstance(value.owner, Block)
                and value.owner.parent_op() is not None
                and _is_pointer(value)
            ):
                found.add(value.index)
            continue
        if isinstance(value.owner, tile.MapOp | tile.PtrCastOp):
            todo += value.owner.operands
    return found.pop() if len(found) == 1 else -1


def _of_code(kernel: Microkernel, caller: Loc | None) -> Loc:
    code = kernel.function.__code__
    return Loc(code.co_filename, code.co_firstlineno, 1, caller)


def _is_pointer(value: SSAValue) -> bool:
    return isinstance(value.type, PtrType)


def _run(
    kernel: Microkernel,
    writer: Writer,
    arguments: list[Any],
    fresh: list[Tile],
    caller: Loc | None,
) -> None:
    """Let the function write; it must fill what is in `fresh`."""
    try:
        kernel.function(writer, *arguments)
        for result in fresh:
            writer.require_written(result)
    except MicrokernelError as error:
        if error.loc is None:
            error.loc = of_traceback(error.__traceback__, caller) or _of_code(kernel, caller)
        raise
    except UserError:
        raise
    except Exception as error:
        loc = of_traceback(error.__traceback__, caller) or _of_code(kernel, caller)
        raise MicrokernelError(
            f"microkernel {kernel.name} failed: {type(error).__name__}: {error}", loc
        ) from error
