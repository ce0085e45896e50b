"""dsa IR as plain Python: what the glue must ask of the machine. Shares no code with the lowering."""

from __future__ import annotations

from typing import Any

from glue_machines import MASK, Event, read_answer, signed
from xdsl.dialects.builtin import IndexType, IntegerType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from dsalang._backend import formats
from dsalang._backend.image.model import Image

PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def width(value: SSAValue) -> int:
    return value.type.width.data if isinstance(value.type, IntegerType) else 64


def divide(op: str, x: int, y: int) -> int:
    """C division; y = 0 gives 0, and x as the remainder."""
    if y == 0:
        return x if "rem" in op else 0
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return x - quotient * y if "rem" in op else quotient


class Oracle:
    """Interprets a kernel. Issue events name the field values in full instead of template numbers."""

    def __init__(self, image: Image, args: list[int], core: int, cores: int) -> None:
        self.image, self.args, self.core, self.cores = image, args, core, cores
        self.values: dict[SSAValue, int] = {}
        self.rings: dict[SSAValue, Operation] = {}
        self.turns: dict[SSAValue, int] = {}
        self.events: list[Event] = []
        self.reads = 0

    def run(self, module: ModuleOp) -> list[Event]:
        (kernel,) = module.body.block.ops
        block = kernel.regions[0].blocks[0]
        self.count = len(block.args)
        for argument, value in zip(block.args, self.args):
            self.define(argument, value)
        self.block(block)
        return self.events

    def define(self, value: SSAValue, number: int) -> None:
        self.values[value] = signed(number, width(value))

    def block(self, block: Block) -> list[int]:
        for op in block.ops:
            if op.name in ("scf.yield", "scf.condition", "func.return"):
                return [self.values[v] for v in op.operands]
            handler = getattr(self, op.name.replace(".", "_"), self.arith)
            handler(op)
        return []

    def arith(self, op: Operation) -> None:
        bits = width(op.operands[0])
        xs = [self.values[v] for v in op.operands]
        us = [x & ((1 << bits) - 1) for x in xs]
        name = op.name.removeprefix("arith.")
        if name == "cmpi":
            predicate = PREDICATES[op.properties["predicate"].value.data]
            pair = us if predicate[0] == "u" else xs
            result = {
                "eq": pair[0] == pair[1],
                "ne": pair[0] != pair[1],
                "lt": pair[0] < pair[1],
                "le": pair[0] <= pair[1],
                "gt": pair[0] > pair[1],
                "ge": pair[0] >= pair[1],
            }[predicate if predicate in ("eq", "ne") else predicate[1:]]
        elif name in ("divsi", "remsi"):
            result = divide(name, *xs)
        elif name in ("divui", "remui"):
            result = divide(name, *us)
        elif name == "select":
            result = xs[1] if xs[0] else xs[2]
        elif name == "extui":
            result = us[0]
        elif name in ("extsi", "trunci", "index_cast"):
            result = xs[0]
        elif name in ("shli", "shrui"):
            amount = min(us[1], bits)
            result = us[0] << amount if name == "shli" else us[0] >> amount
        else:
            result = {
                "addi": lambda: xs[0] + xs[1],
                "subi": lambda: xs[0] - xs[1],
                "muli": lambda: xs[0] * xs[1],
                "andi": lambda: xs[0] & xs[1],
                "ori": lambda: xs[0] | xs[1],
                "xori": lambda: xs[0] ^ xs[1],
                "shrsi": lambda: xs[0] >> min(us[1], bits - 1),
                "minsi": lambda: min(xs),
                "maxsi": lambda: max(xs),
                "minui": lambda: min(us),
                "maxui": lambda: max(us),
            }[name]()
        self.define(op.results[0], int(result))

    def arith_constant(self, op: Operation) -> None:
        self.define(op.results[0], op.properties["value"].value.data)

    # control flow

    def scf_if(self, op: Operation) -> None:
        region = op.regions[0] if self.values[op.operands[0]] else op.regions[1]
        results = self.block(region.blocks[0]) if region.blocks else []
        self.pass_on(op.results, results)

    def scf_for(self, op: Operation) -> None:
        low, high, step, *carried = (self.values[v] for v in op.operands)
        block = op.regions[0].blocks[0]
        for counter in range(low, high, step):
            self.pass_on(block.args, [counter, *carried])
            carried = self.block(block)
        self.pass_on(op.results, carried)

    def scf_while(self, op: Operation) -> None:
        before, after = (region.blocks[0] for region in op.regions)
        carried = [self.values[v] for v in op.operands]
        while True:
            self.pass_on(before.args, carried)
            condition, *passed = self.block(before)
            if not condition:
                break
            self.pass_on(after.args, passed)
            carried = self.block(after)
        self.pass_on(op.results, passed)

    def pass_on(self, targets: Any, numbers: list[int]) -> None:
        for target, number in zip(targets, numbers, strict=True):
            self.define(target, number)

    # the dsa dialect

    def dsa_ring(self, op: Operation) -> None:
        self.rings[op.results[0]] = op
        self.turns[op.results[0]] = 0

    def dsa_acquire(self, op: Operation) -> None:
        ring = self.rings[op.operands[0]]
        turn = self.turns[op.operands[0]]
        self.turns[op.operands[0]] += 1
        sizes = {k: ring.properties[k].value.data for k in ("bytes", "slots", "address")}
        stride = (sizes["bytes"] + 63) // 64 * 64
        self.values[op.results[0]] = sizes["address"] + turn % sizes["slots"] * stride

    def dsa_core_id(self, op: Operation) -> None:
        self.define(op.results[0], self.core)

    def dsa_num_cores(self, op: Operation) -> None:
        self.define(op.results[0], self.cores)

    def dsa_grid_dim(self, op: Operation) -> None:
        self.define(op.results[0], self.args[self.count + op.properties["axis"].value.data])

    def dsa_set(self, op: Operation) -> None:
        engine, sem = (op.properties[k].value.data for k in ("engine", "sem"))
        self.events.append(("issue", op.name[4:], engine, (("sem", sem),)))

    def dsa_wait(self, op: Operation) -> None:
        if op.properties["engine"].value.data == 4:
            self.events.append(("wait", op.properties["sem"].value.data))
        else:
            self.dsa_set(op)

    def dsa_issue(self, op: Operation) -> None:
        fields: dict[str, int] = {}
        for name, attribute in op.properties["fields"].data.items():
            if hasattr(attribute, "get_values"):
                for d, number in enumerate(attribute.get_values()):
                    fields[f"{name}.{d}"] = number
            else:
                fields[name] = attribute.value.data
        for name, value in zip(op.properties["bind"], op.operands, strict=True):
            number = self.values[value]
            if value.type.name == "dsa.slot":
                number += fields.get(name.data, 0)
            elif width(value) == 1:
                number &= 1
            fields[name.data] = number
        shown = tuple(sorted((k, v & MASK) for k, v in fields.items() if v))
        self.events.append(("issue", op.properties["op"].data, None, shown))

    def dsa_read(self, op: Operation) -> None:
        address = self.values[op.operands[0]] + op.properties["offset"].value.data
        self.reads += 1
        code = formats.by_name(op.properties["fmt"].data).code
        self.events.append(("read", address, code))
        self.define(op.results[0], read_answer(address, self.reads))

    def dsa_print(self, op: Operation) -> None:
        values = [
            self.values[v] & 1 if not slot_like(v) and width(v) == 1 else self.values[v]
            for v in op.operands
        ]
        self.events.append(("print", op.properties["prefix"].data, *values))

    def dsa_assert(self, op: Operation) -> None:
        value = self.values[op.operands[0]] & 1
        self.events.append(("assert", op.properties["message"].data, value))


def slot_like(value: SSAValue) -> bool:
    return not isinstance(value.type, IntegerType | IndexType)


def spelled_out(image: Image, events: list[Event]) -> list[Event]:
    """Recorded events with templates, prints and assertions spelled out as the oracle does."""
    result: list[Event] = []
    for kind, *rest in events:
        if kind == "issue":
            result.append(_spelled_issue(image, *rest))
        elif kind == "print":
            result.append((kind, image.prints[rest[0]].prefix, *rest[1:]))
        elif kind == "assert":
            result.append((kind, image.asserts[rest[0]].message, *rest[1:]))
        else:
            result.append((kind, *rest))
    return result


def _spelled_issue(image: Image, number: int, *operands: int) -> Event:
    template = image.templates[number]
    instruction = template.instruction
    if instruction.op in ("set", "wait"):
        engine, sem = int(instruction.engine), instruction.fields["sem"]
        return ("issue", instruction.op, engine, (("sem", sem),))
    fields: dict[str, int] = {}
    for name, value in instruction.fields.items():
        if isinstance(value, int):
            fields[name] = value
        else:
            fields.update({f"{name}.{d}": entry for d, entry in enumerate(value)})
    fields.update(zip(template.open, operands, strict=True))
    none = 0xFFFFFFFF  # absent operands; the random glue uses no such address
    shown = tuple(sorted((k, v & MASK) for k, v in fields.items() if v not in (0, none)))
    return ("issue", instruction.op, None, shown)
