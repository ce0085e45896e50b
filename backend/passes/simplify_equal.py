"""Finding equal pure operations that dominate each other, for common subexpressions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects.definition import operands_of

Table = dict[tuple[object, ...], tuple[Operation, Sequence[SSAValue]]]
"""Ops with the operands whose ids stand in the key: while they are held here, no other value gets their ids."""


class Known:
    """The pure ops of a block, and of the blocks around it, by what they compute."""

    def __init__(self, around: Known | None = None) -> None:
        self.tables: list[Table] = [{}]
        self.numbers = _Numbers()
        if around is not None:
            self.tables += around.tables
            self.numbers = around.numbers

    def inside(self) -> Known:
        """What is known in a block that is nested in this one."""
        return Known(self)

    def equal(self, op: Operation) -> Operation | None:
        """A known op that computes the same; remembers the op when there is none."""
        number, operands = self.numbers.of, operands_of(op)
        key = (
            type(op),
            *map(id, operands),
            *[number(result.type) for result in op.results],
            *[(name, number(attribute)) for name, attribute in sorted(op.properties.items())],
        )
        for table in self.tables:
            found = table.get(key)
            if found is not None:
                return found[0]
        self.tables[0][key] = (op, operands)
        return None


class _Numbers:
    """Equal attributes have equal numbers. Each object is hashed once, which takes longer than all the rest."""

    def __init__(self) -> None:
        self._by_value: dict[Attribute, int] = {}
        self._by_id: dict[int, tuple[int, Attribute]] = {}  # with the object that has the id

    def of(self, attribute: Attribute) -> int:
        known = self._by_id.get(id(attribute))
        if known is None:
            number = self._by_value.setdefault(attribute, len(self._by_value))
            known = self._by_id[id(attribute)] = (number, attribute)
        return known[0]
