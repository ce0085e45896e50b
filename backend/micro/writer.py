"""What a microkernel writes with: its first argument, usually called `k`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields as dataclass_fields
from typing import Any, NoReturn

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnknownLoc, i32, i64
from xdsl.ir import Block, Operation

from .. import formats
from ..dialects import dsa, locations
from ..errors import Loc, MicrokernelError, MicrokernelRefusedError
from ..isa.table import Engine
from ..passes.placing import vector
from ..passes.placing.emit import Placement, View
from ..target import Target
from .bounds import Bounds
from .instructions import Instructions, box, product
from .places import here
from .scalars import Address, Number
from .tiles import Tile, view_of
from .vector import trace


class Site(Placement):
    """The place pass's state while a microkernel writes: operations get its lines, and are checked."""

    caller: Loc | None
    bounds: Bounds
    own: str | None
    over: set[Block]
    """Bodies of loops that are written."""

    @classmethod
    def within(cls, p: Placement, caller: Loc | None, own: str | None) -> Site:
        """A site that goes on where `p` is; what both add to goes to the same places."""
        site = cls(**{entry.name: getattr(p, entry.name) for entry in dataclass_fields(Placement)})
        site.caller, site.bounds, site.own, site.over = caller, Bounds(), own, set()
        return site

    def emit(self, op: Operation) -> Operation:
        """Add an operation at the line of the microkernel that is running."""
        loc = here(self.caller)
        self.location = UnknownLoc() if loc is None else locations.to_ir(loc)
        for operand in op.operands:
            owner = operand.owner
            if (owner if isinstance(owner, Block) else owner.parent) in self.over:
                raise MicrokernelError(
                    "what belongs to an iteration of a loop is used after the loop",
                    hint="a ring's slot, the counter and what is made of it end with the `with`",
                )
        if isinstance(op, dsa.IssueOp):
            self.bounds.check(op)
        if self.own is not None and isinstance(
            op, dsa.IssueOp | dsa.SetOp | dsa.WaitOp | scf.ForOp
        ):
            op.attributes[dsa.OWN] = StringAttr(self.own)
        return super().emit(op)


class Semaphore:
    """A counting semaphore of one call; `number` is below 0 until the sync pass has numbered it."""

    def __init__(self, number: int, credits: int) -> None:
        self.number, self.credits = number, credits


class Ring:
    """Slots of SRAM of one shape that a loop uses in turn: `next()` once per iteration."""

    def __init__(
        self, writer: Writer, shape: tuple[int, ...], fmt: str, slots: int, label: str
    ) -> None:
        self._writer, self._shape, self._fmt = writer, shape, fmt
        self._slots, self._label, self._taken = slots, label, False

    def next(self) -> Tile:
        """The slot of this iteration. It stands in the loop once."""
        if self._taken:
            raise MicrokernelError(
                f"ring {self._label!r} moves on twice in one iteration",
                hint="use two rings, or one scratch tile per slot",
            )
        self._taken = True
        return self._writer._new(self._shape, self._fmt, self._label, self._slots)


class Writer:
    """Writes the instructions of one call.

    Attributes:
        results: the tiles to fill.
        target: the machine, with its figures.
        isa: a method per instruction of the machine that takes its fields by name (docs/isa.md).
    """

    def __init__(self, site: Site, results: Sequence[Tile], semaphores: list[int]) -> None:
        self._site, self._semaphores = site, semaphores
        self.results = tuple(results)
        self.isa = Instructions(site)

    @property
    def target(self) -> Target:
        """The machine."""
        return self._site.target

    def require_written(self, result: Tile) -> None:
        """Raise MicrokernelError when nothing has been written to a result."""
        self._site.bounds.require_written(view_of(result))

    @property
    def result(self) -> Tile:
        """The only result."""
        if len(self.results) != 1:
            raise MicrokernelError(f"the call has {len(self.results)} results: use k.results")
        return self.results[0]

    def refuse(self, reason: str) -> NoReturn:
        """Say that this call is not one that the microkernel serves; generated code takes it."""
        raise MicrokernelRefusedError(reason)

    # memory

    def scratch(self, shape: Sequence[int], fmt: str, label: str = "scratch") -> Tile:
        """A tile of its own, for the time of the call; what is in it is lost afterwards."""
        return self._new(tuple(shape), fmt, label, 0)

    def ring(self, shape: Sequence[int], fmt: str, slots: int, label: str = "ring") -> Ring:
        """Slots that a loop of the microkernel uses in turn, such as those that loads fill ahead."""
        if not 1 <= slots <= self.target.semaphore_max:
            raise MicrokernelError(
                f"a ring has 1 to {self.target.semaphore_max} slots, not {slots}"
            )
        return Ring(self, tuple(shape), fmt, slots, label)

    def _new(self, shape: tuple[int, ...], fmt: str, label: str, slots: int) -> Tile:
        if fmt not in formats.BY_NAME:
            raise MicrokernelError(f"there is no format {fmt!r}")
        if not all(isinstance(n, int) and n > 0 for n in shape):
            raise MicrokernelError(f"a tile has positive sizes, not {list(shape)}")
        known, loc = formats.by_name(fmt), here(self._site.caller)
        self._site.location = UnknownLoc() if loc is None else locations.to_ir(loc)
        view = self._site.temporary(label, shape, known)
        if slots:
            acquire = view.slot.owner
            assert isinstance(acquire, dsa.AcquireOp) and isinstance(acquire.ring.owner, dsa.RingOp)
            acquire.ring.owner.slots = IntegerAttr(slots, i64)
        self._site.bounds.allow(view, label, writable=True)
        return Tile(view, known.name, label)

    # order

    def semaphore(self, credits: int = 0) -> Semaphore:
        """A semaphore that starts with `credits`. Only with flags="own"."""
        self._require_own("a semaphore")
        most = self.target.semaphore_max
        if not 0 <= credits <= most:
            raise MicrokernelError(f"a semaphore starts with 0 to {most} credits, not {credits}")
        if len(self._semaphores) >= self.target.semaphores:
            raise MicrokernelError(f"{self.target.name} has {self.target.semaphores} semaphores")
        self._semaphores.append(credits)
        return Semaphore(-len(self._semaphores), credits)

    def set(self, engine: str, semaphore: Semaphore) -> None:
        """Queue `set` on an engine: LD, ST, MM or VE."""
        self._require_own("set")
        if engine == "CORE":
            raise MicrokernelError(
                "the control core has no set instruction", hint="LD, ST, MM or VE"
            )
        self._site.emit(dsa.SetOp(_engine(engine), semaphore.number))

    def wait(self, engine: str, semaphore: Semaphore) -> None:
        """Queue `wait` on an engine; on CORE the control core itself waits."""
        self._require_own("wait")
        self._site.emit(dsa.WaitOp(_engine(engine), semaphore.number))

    def _require_own(self, what: str) -> None:
        if self._site.own is None:
            raise MicrokernelError(
                f"{what} is for microkernels that keep their own order",
                hint='declare it with @dsa.microkernel(flags="own"), or leave the flags to the compiler',
            )

    @contextmanager
    def loop(self, count: int) -> Iterator[Number]:
        """`with k.loop(n) as i:` the body runs n times on the machine, i counting from 0."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise MicrokernelError(f"a loop runs a positive number of times, not {count!r}")
        site, body = self._site, Block(arg_types=[i32])
        bounds = [site.constant(n, i32) for n in (0, count, 1)]
        loop = scf.ForOp(bounds[0], bounds[1], bounds[2], [], body)
        with site.block(body):
            yield Number(site, site.result(arith.ExtSIOp(body.args[0], i64)))
            site.emit(scf.YieldOp())
        site.emit(loop)
        site.over.add(body)

    # instructions, from tiles

    def matmul(
        self, out: Tile, a: Tile, b: Tile, accumulate: bool = False, fmt_b: str | None = None
    ) -> None:
        """out (+)= a·b on the tensor engine, one instruction over the last two dims; a dim before them is a batch.

        The elements of a row or of a column of each operand are neighbours. Two floats, or a float and an integer,
        may be mixed. `fmt_b` says what the bytes of `b` hold where it is a packed format ("int4"): pairs along K.
        """
        product(self._site, out, a, b, accumulate, fmt_b)

    def vector(
        self, out: Tile | tuple[Tile, ...], function: Callable[..., Any], *inputs: Tile
    ) -> None:
        """out = function(v, *inputs) at every point of out's shape on the vector engine, one instruction.

        `function` gets the program `v` (a method per operation) and a register per input, and gives a register
        per output. Inputs broadcast as in numpy. All inputs are read before an output is written.
        """
        outs = out if isinstance(out, tuple) else (out,)
        shape = outs[0].shape
        if any(t.shape != shape for t in outs):
            raise MicrokernelError("the outputs of a vector program differ in shape")
        program = trace(function, [t.fmt for t in inputs], [t.fmt for t in outs])
        walks = [(view_of(t), t.broadcast(shape)) for t in (*inputs, *outs)]
        n = len(inputs)
        vector.vexec(self._site, program, shape, walks[:n], [], walks[n:])

    def copy(self, out: Tile, source: Tile) -> None:
        """Copy a tile on the vector engine; both have the same shape and format."""
        if out.shape != source.shape or out.elem_bytes != source.elem_bytes:
            raise MicrokernelError(f"{source} is not copied to {out}")
        vector.copy(self._site, view_of(source), view_of(out))

    def fill(self, out: Tile, value: float) -> None:
        """Write a number everywhere."""
        self.vector(out, lambda v: v.const(value, out.fmt))

    def reduce(self, out: Tile, source: Tile, kind: str, axis: int) -> None:
        """Reduce a dim of a tile away; `kind` is a ReduceKind such as "fsum" or "fmax" (docs/isa.md)."""
        shape = (*source.shape[:axis], *source.shape[axis + 1 :])
        if not 0 <= axis < source.ndim or out.shape != shape or out.fmt != source.fmt:
            raise MicrokernelError(f"reducing axis {axis} of {source} does not give {out}")
        self.isa.kind("reduce", kind)
        view = view_of(source)
        vector.reduce(self._site, kind, view.fmt, view, axis, {"out": view_of(out)})

    def load(self, out: Tile, source: Address, strides: Sequence[int]) -> None:
        """Load a tile from HBM; `strides` are bytes in HBM per dim."""
        box(self._site, "dma.load", out, source, strides)

    def store(self, target: Address, source: Tile, strides: Sequence[int]) -> None:
        """Store a tile to HBM; `strides` are bytes in HBM per dim."""
        box(self._site, "dma.store", source, target, strides)


def operand_tile(site: Site, view: View, fmt: str, label: str, writable: bool) -> Tile:
    """A tile of the call, which its instructions may touch."""
    known = formats.by_name(fmt)
    site.bounds.allow(view, label, writable)
    return Tile(View(view.slot, view.offset, view.shape, view.strides, known), known.name, label)


def _engine(name: str) -> Engine:
    if name not in Engine.__members__:
        raise MicrokernelError(
            f"there is no engine {name!r}", hint=f"engines are {', '.join(Engine.__members__)}"
        )
    return Engine[name]
