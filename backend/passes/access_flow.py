"""Forms across control flow: pointer and index tiles carried around loops and out of conditionals.

A carried tile is given a form whose scalars are carried instead of the tile. It starts from the form of the
initial value with a carried constant part; when the update changes more than that, more scalars are
carried; when it changes the structure, the tile stays a tile of integers (addresses, for pointers).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from xdsl.dialects import scf
from xdsl.ir import Block, SSAValue

from ..dialects.types import shape_of
from .access_analysis import Analysis, is_analysed, is_pointer
from .access_forms import Form, Indexed, Scalar, ScalarMath, lift, same_structure, slots, with_slots
from .simplify_emit import Emitter
from .simplify_regions import add_result, carry_in_for, terminator

Carry = Callable[[SSAValue], SSAValue]
"""Carries one more value, given its initial value; gives what stands for it inside."""


def analyse_block(block: Block, analysis: Analysis, needed: set[SSAValue]) -> None:
    """Find the forms of the needed values of a block, in order."""
    for op in tuple(block.ops):
        if isinstance(op, scf.ForOp):
            _analyse_for(op, analysis, needed)
        elif isinstance(op, scf.WhileOp):
            _analyse_while(op, analysis, needed)
        elif isinstance(op, scf.IfOp):
            _analyse_if(op, analysis, needed)
        else:
            for result in op.results:
                if result in needed:
                    analysis.form(result)


@dataclass
class _Carried:
    """A value carried around a loop: the form of its initial value and which scalars are carried."""

    init: Form
    pointer: bool
    tile: SSAValue
    inside: dict[int, SSAValue] = field(default_factory=dict)
    order: dict[int, int] = field(default_factory=dict)
    opaque: SSAValue | None = None
    opaque_at: int = -1
    gave_up: bool = False


class _LoopState:
    """The carried values of a loop under analysis, by the loop's number for them."""

    def __init__(self, analysis: Analysis, carry: Carry, emit: Emitter) -> None:
        self.analysis = analysis
        self.carry = carry
        self.math = ScalarMath(emit)
        self.values: dict[int, _Carried] = {}
        self.extra: list[tuple[int, int]] = []

    def add(self, number: int, init: SSAValue, argument: SSAValue) -> None:
        """Start with a carried constant part."""
        form = self.analysis.form(init)
        value = _Carried(form, is_pointer(argument.type), argument)
        self.values[number] = value
        self._carry_slot(number, 0)

    def _carry_slot(self, number: int, slot: int) -> None:
        value = self.values[number]
        start = slots(value.init)[slot]
        value.inside[slot] = self.carry(self.math.value(start))
        value.order[slot] = len(self.extra)
        self.extra.append((number, slot))

    def form_inside(self, number: int) -> Form:
        """The form of the carried value in the loop."""
        value = self.values[number]
        if value.gave_up:
            tile = value.tile if value.opaque is None else value.opaque
            form = self.analysis.leaf(tile) if shape_of(tile.type) else Form((), tile)
            return replace(form, arg=value.init.arg)
        return self._with(value, dict(value.inside))

    def _with(self, value: _Carried, changed: dict[int, SSAValue]) -> Form:
        scalars: list[Scalar] = list(slots(value.init))
        for slot, scalar in changed.items():
            scalars[slot] = scalar
        return with_slots(value.init, scalars)

    def form_of_result(self, number: int, extra_results: list[SSAValue]) -> Form:
        """The form of the value after the loop."""
        value = self.values[number]
        if value.gave_up:
            raise AssertionError("a tile that stays carried has no carried scalars")
        return self._with(value, {s: extra_results[k] for s, k in value.order.items()})

    def update(self, number: int, yielded: Form) -> bool:
        """Take in the form of the next value; True when the loop must be analysed again."""
        value = self.values[number]
        if value.gave_up:
            if value.init.arg == yielded.arg:
                return False
            changed = value.init.arg != -1
            value.init = replace(value.init, arg=-1)
            return changed
        lifted = lift(value.init, yielded)
        yielded = lift(yielded, lifted)
        again = False
        if lifted != value.init:
            self._renumber(value, lifted)
            again = True
        if not same_structure(value.init, yielded):
            self._give_up(number)
            return True
        if value.init.arg not in (yielded.arg, -1):
            value.init, again = replace(value.init, arg=-1), True
        pairs = zip(slots(value.init), slots(yielded), strict=True)
        for slot, (before, after) in enumerate(pairs):
            if slot not in value.inside and before != after:
                self._carry_slot(number, slot)
                again = True
        return again

    def _renumber(self, value: _Carried, lifted: Form) -> None:
        """New affine terms move the scalars behind them: carry only the constant part for now."""
        value.init = lifted
        for slot in [s for s in value.inside if s]:
            del value.inside[slot], value.order[slot]

    def _give_up(self, number: int) -> None:
        value = self.values[number]
        value.gave_up = True
        if value.pointer and shape_of(value.tile.type):
            start = self.analysis.tile_of(value.init, self.math)
            value.opaque = self.carry(start)
            value.opaque_at = len(self.extra)
            self.extra.append((number, -1))

    def yields(self, forms: dict[int, Form], math: ScalarMath) -> list[SSAValue]:
        """Next values of everything that has been carried in addition."""
        found: list[SSAValue] = []
        for position, (number, slot) in enumerate(self.extra):
            value = self.values[number]
            form = lift(forms[number], value.init)
            if slot == -1:
                found.append(self.analysis.tile_of(form, math))
            elif value.order.get(slot) == position and not value.gave_up:
                found.append(math.value(slots(form)[slot]))
            else:
                # carried by an attempt that did not hold; dead from here on
                found.append(math.value(0))
        return found


def _analyse_for(op: scf.ForOp, analysis: Analysis, needed: set[SSAValue]) -> None:
    block = op.body.block
    count = len(op.iter_args)
    state = _LoopState(analysis, lambda init: carry_in_for(op, init)[0], Emitter.at(op))
    for number in range(count):
        argument = block.args[number + 1]
        if is_analysed(argument) and (argument in needed or op.results[number] in needed):
            state.add(number, op.iter_args[number], argument)
    forms = _settle(
        state,
        analysis,
        lambda: analyse_block(block, analysis, needed),
        lambda n: (block.args[n + 1], terminator(block).operands[n]),
    )
    end = terminator(block)
    if state.extra:
        math = ScalarMath(Emitter(block, end, op.location))
        end.operands = (*end.operands, *state.yields(forms, math))
    extra: list[SSAValue] = list(op.results[count:])
    for number in state.values:
        _set_result(analysis, state, number, op.results[number], extra)


def _set_result(
    analysis: Analysis, state: _LoopState, number: int, result: SSAValue, extra: list[SSAValue]
) -> None:
    value = state.values[number]
    if not value.gave_up:
        analysis.forms[result] = state.form_of_result(number, extra)
    else:
        tile = result if value.opaque is None else extra[value.opaque_at]
        analysis.forms[result] = replace(analysis.leaf(tile), arg=value.init.arg)


def _settle(
    state: _LoopState,
    analysis: Analysis,
    analyse: Callable[[], None],
    place: Callable[[int], tuple[SSAValue, SSAValue]],
) -> dict[int, Form]:
    """Analyse the loop until the forms of what it carries hold; the forms of the next values."""
    known = len(analysis.forms)
    while True:
        for number in state.values:
            analysis.forms[place(number)[0]] = state.form_inside(number)
        analyse()
        forms = {n: analysis.form(place(n)[1]) for n in state.values}
        again = [state.update(number, form) for number, form in forms.items()]
        if not any(again):
            return forms
        for value in list(analysis.forms)[known:]:
            del analysis.forms[value]


def _analyse_if(op: scf.IfOp, analysis: Analysis, needed: set[SSAValue]) -> None:
    blocks = [region.block for region in op.regions if region.blocks]
    for block in blocks:
        analyse_block(block, analysis, needed)
    for result in tuple(op.results):
        if result in needed and is_analysed(result):
            ends = [terminator(block) for block in blocks]
            values = [end.operands[result.index] for end in ends]
            analysis.forms[result] = _join(op, result, [analysis.form(v) for v in values], analysis)


def _join(op: scf.IfOp, result: SSAValue, forms: list[Form], analysis: Analysis) -> Form:
    yes, no = lift(forms[0], forms[1]), lift(forms[1], forms[0])
    ends = [terminator(region.block) for region in op.regions]
    maths = [ScalarMath(Emitter.at(end)) for end in ends]
    arg = yes.arg if yes.arg == no.arg else -1

    def merge(values: list[SSAValue]) -> SSAValue:
        for end, value in zip(ends, values, strict=True):
            end.operands = (*end.operands, value)
        return add_result(op, values[0].type)

    if same_structure(yes, no):
        pairs = zip(slots(yes), slots(no), strict=True)
        scalars: list[Scalar] = [
            a if a == b else merge([maths[0].value(a), maths[1].value(b)]) for a, b in pairs
        ]
        return replace(with_slots(yes, scalars), arg=arg)
    if not is_pointer(result.type):
        return analysis.leaf(result)
    parts = [analysis.tile_of(form, math) for form, math in zip(forms, maths, strict=True)]
    return replace(analysis.leaf(merge(parts)), arg=arg)


def _analyse_while(op: scf.WhileOp, analysis: Analysis, needed: set[SSAValue]) -> None:
    before, after = op.before_region.block, op.after_region.block

    def carry(init: SSAValue) -> SSAValue:
        op.operands = (*op.operands, init)
        return before.insert_arg(init.type, len(before.args))

    state = _LoopState(analysis, carry, Emitter.at(op))
    for number, argument in enumerate(tuple(before.args)):
        if is_analysed(argument) and argument in needed:
            state.add(number, op.arguments[number], argument)
    outward = len(after.args)

    def analyse() -> None:
        analyse_block(before, analysis, needed)
        for number in range(outward):
            _hand_over(op, number, analysis, needed)
        analyse_block(after, analysis, needed)

    forms = _settle(
        state, analysis, analyse, lambda n: (before.args[n], terminator(after).operands[n])
    )
    if state.extra:
        end = terminator(after)
        math = ScalarMath(Emitter(after, end, op.location))
        end.operands = (*end.operands, *state.yields(forms, math))


def _hand_over(op: scf.WhileOp, number: int, analysis: Analysis, needed: set[SSAValue]) -> None:
    """Forms of what the before region gives to the after region and to the results."""
    before, after = op.before_region.block, op.after_region.block
    argument, result = after.args[number], op.results[number]
    if not is_analysed(argument) or not (argument in needed or result in needed):
        return
    end = terminator(before)
    form = analysis.form(end.operands[number + 1])

    def hand(value: SSAValue) -> tuple[SSAValue, SSAValue]:
        end.operands = (*end.operands, value)
        return after.insert_arg(value.type, len(after.args)), add_result(op, value.type)

    tiles = [t for t, _ in form.rest] + [t.value for t in form.terms if isinstance(t, Indexed)]
    if any(_is_inside(tile, before) for tile in tiles):
        if not is_pointer(argument.type):
            analysis.forms[argument] = analysis.leaf(argument)
            analysis.forms[result] = analysis.leaf(result)
            return
        pair = hand(analysis.tile_of(form, ScalarMath(Emitter.at(end))))
        for value, tile in zip((argument, result), pair, strict=True):
            analysis.forms[value] = replace(analysis.leaf(tile), arg=form.arg)
        return
    seen = [
        hand(s) if not isinstance(s, int) and _is_inside(s, before) else (s, s) for s in slots(form)
    ]
    analysis.forms[argument] = with_slots(form, [a for a, _ in seen])
    analysis.forms[result] = with_slots(form, [r for _, r in seen])


def _is_inside(value: SSAValue, block: Block) -> bool:
    owner = value.owner
    return (owner if isinstance(owner, Block) else owner.parent) is block
