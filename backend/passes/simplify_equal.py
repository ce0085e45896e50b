"""Finding equal pure operations that dominate each other, for common subexpressions."""

from __future__ import annotations

from xdsl.ir import Attribute, Operation

from ..dialects.definition import operands_of


class Known:
    """The pure ops of a block, and of the blocks around it, by what they compute."""

    def __init__(self, around: Known | None = None) -> None:
        self.tables: list[dict[tuple[object, ...], Operation]] = [{}]
        self.numbers = _Numbers()
        if around is not None:
            self.tables += around.tables
            self.numbers = around.numbers

    def inside(self) -> Known:
        """What is known in a block that is nested in this one."""
        return Known(self)

    def equal(self, op: Operation) -> Operation | None:
        """A known op that computes the same; remembers the op when there is none."""
        number = self.numbers.of
        key = (
            type(op),
            operands_of(op),
            *[number(result.type) for result in op.results],
            *[(name, number(op.properties[name])) for name in sorted(op.properties)],
        )
        for table in self.tables:
            found = table.get(key)
            if found is not None:
                return found
        self.tables[0][key] = op
        return None


class _Numbers:
    """Equal attributes have equal numbers. Each object is hashed once, which takes longer than all the rest."""

    def __init__(self) -> None:
        self._by_value: dict[Attribute, int] = {}
        self._by_id: dict[
            int, tuple[int, Attribute]
        ] = {}  # with the object, so that its id stays its own

    def of(self, attribute: Attribute) -> int:
        known = self._by_id.get(id(attribute))
        if known is None:
            number = self._by_value.setdefault(attribute, len(self._by_value))
            known = self._by_id[id(attribute)] = (number, attribute)
        return known[0]
