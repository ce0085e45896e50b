"""Pass 3, fuse: elementwise operations become vector programs, as large as the vector engine takes.

Members of clusters are the `tile.map` ops that are worth computing once, and whatever has to be made in
memory: broadcasts, splats and coordinates that something other than an elementwise operation uses. Members
of one block and one iteration space (dims of size 1 aside) that feed each other share a cluster, as long
as no path between them runs through another op. A cluster that exceeds the limits of `vexec` is cut along
the program's order. `fmul` and `fadd` stay separate operations: contraction would change the bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import tile
from ..dialects.definition import operands_of
from ..dialects.types import shape_of
from .fuse_build import build_fused
from .fuse_graph import BlockGraph, Grouping
from .fuse_limits import cut
from .fuse_unfold import unfold_wide_walks
from .fuse_walks import (
    CheapTiles,
    Leaf,
    Reading,
    is_scalar_float_map,
    is_view,
    own_place,
    reading,
    space_of,
)
from .simplify_dead import remove_dead
from .simplify_motion import alias_groups


def fuse(module: ModuleOp) -> None:
    """Fuse every function of a module in place."""
    for op in module.ops:
        if isinstance(op, func.FuncOp):
            _Fusion(op).run()
            remove_dead(op)


class _Fusion:
    """What is known about a function: its members and what they read."""

    def __init__(self, function: func.FuncOp) -> None:
        self.function = function
        self.groups = alias_groups(function)
        self.cheap = CheapTiles()
        self.in_memory: set[SSAValue] = set()
        self.reads: dict[Operation, Reading] = {}
        self.readers: dict[SSAValue, list[Operation]] = {}
        self.cluster: dict[Operation, int] = {}

    def run(self) -> None:
        """Find members, form clusters block by block, then build them from the outside in."""
        unfold_wide_walks(self.function, self.cheap)
        ops = tile.operations(self.function.body.block)
        for op in ops:
            self.cheap.is_cheap(op)
        forced = self._find_in_memory(ops)
        for op in ops:
            elementwise = isinstance(op, tile.MapOp) and shape_of(op.result.type)
            if (
                op in forced
                or (elementwise and not self.cheap.is_cheap(op))
                or is_scalar_float_map(op)
            ):
                self._read(op)
        clusters: list[list[Operation]] = []
        for block in _blocks(self.function):
            for members in self._form_clusters(block):
                self.cluster.update(dict.fromkeys(members, len(clusters)))
                clusters.append(members)
        built: dict[SSAValue, SSAValue] = {}
        for number, members in enumerate(clusters):
            outputs = [
                op.results[0]
                for op in members
                if op.results[0] in self.in_memory
                or any(self.cluster[r] != number for r in self.readers.get(op.results[0], ()))
            ]
            if outputs:
                build_fused(members, outputs, self.cheap, built)
        for op in self.reads:
            op.operands = ()
        for old, new in built.items():
            old.replace_all_uses_with(new)

    def _find_in_memory(self, ops: Sequence[Operation]) -> set[Operation]:
        """Mark values that other ops than members use, and find the ops that make such tiles from nothing."""
        forced: set[Operation] = set()
        work: list[SSAValue] = []
        for op in ops:
            if not isinstance(op, (tile.MapOp, tile.SplatOp)):
                if not is_view(op):
                    work += operands_of(op)
            elif not is_scalar_float_map(op):
                work += [v for v in operands_of(op) if not shape_of(v.type)]
        while work:
            value = work.pop()
            if value in self.in_memory:
                continue
            self.in_memory.add(value)
            source = value.owner
            if isinstance(source, (tile.BroadcastOp, tile.SplatOp, tile.IotaOp)):
                forced.add(source)
            elif is_view(source):
                assert isinstance(source, tile.VIEWS)
                work.append(source.operands[0])
            elif isinstance(source, tile.MapOp):
                self.cheap.kept.add(source)
        return forced

    def _read(self, op: Operation) -> None:
        """Take in a member."""
        found = self.reads[op] = reading(op, self.cheap)
        for leaf in found.leaves:
            self.readers.setdefault(leaf.value, []).append(op)

    def _form_clusters(self, block: Block) -> list[list[Operation]]:
        """The clusters of a block, whose members have been brought together in it."""
        graph = BlockGraph(block, self._read_values, self.groups)
        grouping = Grouping(graph)
        for k, op in enumerate(graph.ops):
            read = self.reads.get(op)
            for leaf in () if read is None else read.leaves:
                if self._same_space(op, leaf):
                    number = graph.number.get(leaf.value.owner)
                    if number is not None:
                        grouping.try_merge(grouping.group[number], grouping.group[k])
        clusters = [sorted(m) for m in grouping.members.values() if graph.ops[m[0]] in self.reads]
        for members in clusters:
            parts = cut(members, graph.ops, self.reads, self.readers, self.in_memory)
            if len(parts) > 1:
                grouping.split(grouping.group[members[0]], parts)
        order = grouping.order()
        _reorder(block, [graph.ops[k] for group in order for k in group])
        groups = [[graph.ops[k] for k in group] for group in order]
        return [group for group in groups if group[0] in self.reads]

    def _read_values(self, op: Operation) -> Iterable[SSAValue] | None:
        read = self.reads.get(op)
        return None if read is None else [leaf.value for leaf in read.leaves]

    def _same_space(self, op: Operation, leaf: Leaf) -> bool:
        """True when a member reads another one point by point."""
        source = leaf.value.owner
        if source not in self.reads or not isinstance(source, tile.MapOp):
            return False
        if bool(shape_of(leaf.value.type)) != bool(shape_of(op.results[0].type)):
            return False
        same = space_of(leaf.value) == space_of(op.results[0])
        return same and leaf.place == own_place(leaf.value)


def _blocks(function: func.FuncOp) -> Iterable[Block]:
    """Every block, outer ones first."""
    work = list(function.body.blocks)
    while work:
        block = work.pop(0)
        yield block
        for op in block.ops:
            if not isinstance(op, tile.FusedOp):
                work += [inner for region in op.regions for inner in region.blocks]


def _reorder(block: Block, ops: Sequence[Operation]) -> None:
    """Put the ops of a block, its terminator aside, into a given order."""
    end = block.last_op
    assert end is not None
    if all(a is b for a, b in zip(ops, block.ops)):
        return
    for op in ops:
        block.detach_op(op)
        block.insert_op_before(op, end)
