"""Random kernels in dsa IR: structured control flow, every glue op, issues with open and static fields."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from glue_machines import signed

WIDTHS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
BINARY = (
    "addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "andi", "ori", "xori", "shli", "shrui",
    "shrsi", "minsi", "maxsi", "minui", "maxui",
)  # fmt: skip
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
NUMBERS = (0, 1, 2, 3, 5, 7, 10, 31, 32, 63, 64, 100, 127, 255, -1, -2, -7)
PROGRAM = "program inputs(int8, int8) scalars(int8, int8, int8) outputs()"
ARGUMENTS = {"p": "i64", "n": "i32", "q": "i64", "b": "i1", "h": "i16"}


class Writer:
    """Writes a kernel of random choices. `scope` has the names of visible values by type."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.rings: list[str] = []
        self.scope: dict[str, list[str]] = {type_: [] for type_ in (*WIDTHS, "slot")}
        self.names = 0
        for name, type_ in ARGUMENTS.items():
            self.scope[type_].append(f"%{name}")

    def emit(self, text: str) -> None:
        self.lines.append("  " + text)

    def new(self, type_: str, text: str) -> str:
        name = self.fresh(type_)
        self.emit(f"{name} = {text}")
        return name

    def fresh(self, type_: str) -> str:
        self.names += 1
        name = f"%v{self.names}"
        self.scope[type_].append(name)
        return name

    @contextmanager
    def nested(self) -> Iterator[None]:
        saved = {type_: list(names) for type_, names in self.scope.items()}
        yield
        self.scope = saved

    def value(self, type_: str) -> str:
        """A visible value of a type, or a new constant."""
        names = self.scope[type_]
        if names and self.rng.randint(0, 3):
            return self.rng.choice(names)
        return self.constant(type_)

    def constant(self, type_: str) -> str:
        bits = WIDTHS[type_]
        number = random_number(self.rng, bits)
        number = (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
        text = ("true" if number else "false") if type_ == "i1" else f"{number} : {type_}"
        return self.new(type_, f"arith.constant {text}")

    def slot(self) -> str:
        names = self.scope["slot"]
        return self.rng.choice(names) if names else self.acquire()

    # statements

    def arith(self) -> None:
        type_ = self.rng.choice(["i8", "i32", "i64"])
        op = self.rng.choice(BINARY)
        self.new(type_, f"arith.{op} {self.value(type_)}, {self.value(type_)} : {type_}")

    def compare(self) -> None:
        type_ = self.rng.choice(["i32", "i64"])
        predicate = self.rng.choice(PREDICATES)
        self.new(
            "i1", f"arith.cmpi {predicate}, {self.value(type_)}, {self.value(type_)} : {type_}"
        )

    def select(self) -> None:
        type_ = self.rng.choice(["i32", "i64"])
        operands = f"{self.value('i1')}, {self.value(type_)}, {self.value(type_)}"
        self.new(type_, f"arith.select {operands} : {type_}")

    def cast(self) -> None:
        source, target = self.rng.sample(list(WIDTHS), 2)
        ops = ["extsi", "extui"] if WIDTHS[source] < WIDTHS[target] else ["trunci"]
        op = self.rng.choice(ops)
        self.new(target, f"arith.{op} {self.value(source)} : {source} to {target}")

    def acquire(self) -> str:
        number = len(self.rings)
        slots = self.rng.randint(1, 3)
        self.rings.append(
            f'  %ring{number} = "dsa.ring"() <{{label = "r{number}", bytes = 100 : i64, slots = {slots} : i64, '
            f"address = {number * 512} : i64, shape = array<i64: 25>, "
            f'fmt = "fp32"}}> : () -> !dsa.ring'
        )
        return self.new("slot", f'"dsa.acquire"(%ring{number}) : (!dsa.ring) -> !dsa.slot')

    def issue(self) -> None:
        size, offset = self.rng.randint(0, 9), self.rng.randint(0, 40)
        op, fields, bound = self.rng.choice(
            [
                ("mma", f"m = {size} : i64, a = {offset} : i64", "a:slot b:slot d:slot n:i32"),
                (
                    "dma.load",
                    f"hbm_stride = array<i64: {-size}, 2>, lo = array<i64: -1, {size}>",
                    "hbm:i64 sram:slot hi.0:i32 hi.1:i32 index.1:slot keep:i1 fill:i64",
                ),
                (
                    "dma.store",
                    f"sram = {offset} : i64",
                    "hbm:i64 sram:slot lo.1:i32 size.0:i32",
                ),
                (
                    "vexec",
                    f"in = array<i64: 0, {offset}>, inputs = 2 : i64, scalars = 3 : i64",
                    "in.1:slot out.0:slot scalar.2:i16",
                ),
            ]
        )
        names, values, types = [], [], []
        for entry in bound.split():
            name, _, type_ = entry.partition(":")
            if op == "dma.load" and self.rng.randrange(2):
                continue
            names.append(f'"{name}"')
            values.append(self.slot() if type_ == "slot" else self.value(type_))
            types.append("!dsa.slot" if type_ == "slot" else type_)
        program = f', program = "{PROGRAM}"' if op == "vexec" else ""
        self.emit(
            f'"dsa.issue"({", ".join(values)}) <{{op = "{op}", bind = [{", ".join(names)}], '
            f"fields = {{{fields}}}{program}}}> : ({', '.join(types)}) -> ()"
        )

    def semaphore(self) -> None:
        op = self.rng.choice(["set", "wait"])
        engine = self.rng.randint(0, 4 if op == "wait" else 3)
        self.emit(
            f'"dsa.{op}"() <{{engine = {engine} : i32, sem = {self.names % 7} : i32}}> : () -> ()'
        )

    def read(self) -> None:
        type_ = self.rng.choice(["i1", "i16", "i32", "i64"])
        slot = self.slot()
        fmt = f"int{WIDTHS[type_]}"
        offset = self.rng.randint(0, 90)
        self.new(
            type_,
            f'"dsa.read"({slot}) <{{offset = {offset} : i64, fmt = "{fmt}"}}> : (!dsa.slot) -> {type_}',
        )

    def report(self) -> None:
        if self.rng.randrange(2):
            self.emit(
                f'"dsa.assert"({self.value("i1")}) <{{message = "m{self.names % 3}"}}> : (i1) -> ()'
            )
            return
        number, slot = self.value("i32"), self.slot()
        self.emit(
            f'"dsa.print"({number}, {slot}) <{{prefix = "p{self.names % 3}", fmts = ["int32", "fp32"], '
            f"shapes = [array<i64>, array<i64: 5, 5>]}}> : (i32, !dsa.slot) -> ()"
        )

    def grid(self) -> None:
        self.new("i32", f'"dsa.grid_dim"() <{{axis = {self.names % 3} : i32}}> : () -> i32')
        self.new("i32", '"dsa.core_id"() : () -> i32')
        self.new("i32", '"dsa.num_cores"() : () -> i32')

    # control flow

    def carried(self) -> list[str]:
        return self.rng.choices(["i32", "i64", "i1"], k=self.rng.randint(0, 2))

    def branch(self, depth: int) -> None:
        condition, types = self.value("i1"), self.carried()
        names = [f"%w{self.names + i}" for i in range(len(types))]
        self.names += len(types)
        head = f"{', '.join(names)} = " if names else ""
        result = f" -> ({', '.join(types)})" if types else ""
        self.emit(f"{head}scf.if {condition}{result} {{")
        for closing in ("} else {", "}"):
            with self.nested():
                self.block(depth)
                self.finish(types)
            self.emit(closing)
        for name, type_ in zip(names, types, strict=True):
            self.scope[type_].append(name)

    def finish(self, types: list[str]) -> None:
        values = [self.value(type_) for type_ in types]
        self.emit(f"scf.yield {', '.join(values)} : {', '.join(types)}" if types else "scf.yield")

    def small(self, type_: str, most: int) -> str:
        """A number from 0 to `most` (a power of two minus one)."""
        mask = self.new(type_, f"arith.constant {most} : {type_}")
        return self.new(type_, f"arith.andi {self.value(type_)}, {mask} : {type_}")

    def counted(self, depth: int) -> None:
        type_ = self.rng.choice(["i32", "i64"])
        low = self.value(type_)
        if self.rng.randrange(2):
            distance = self.small(type_, 3)
            high = self.new(type_, f"arith.addi {low}, {distance} : {type_}")
            number = self.rng.randint(1, 3)
        else:
            # often empty, or at the end of the number range; a huge step keeps it short
            high = self.value(type_)
            number = (1 << (WIDTHS[type_] - 2)) + 5
        step = self.new(type_, f"arith.constant {number} : {type_}")
        types = self.carried()
        initial = [self.value(t) for t in types]
        counter, args, results = self.loop_names(types)
        head = f"{', '.join(results)} = " if types else ""
        carry = ", ".join(f"{a} = {v}" for a, v in zip(args, initial, strict=True))
        carry = f" iter_args({carry}) -> ({', '.join(types)})" if types else ""
        self.emit(f"{head}scf.for {counter} = {low} to {high} step {step}{carry} : {type_} {{")
        with self.nested():
            for name, t in zip((counter, *args), (type_, *types), strict=True):
                self.scope[t].append(name)
            self.block(depth)
            self.finish(types)
        self.emit("}")
        for name, t in zip(results, types, strict=True):
            self.scope[t].append(name)

    def loop_names(self, types: list[str]) -> tuple[str, list[str], list[str]]:
        start = self.names
        self.names += 1 + 2 * len(types)
        args = [f"%a{start + i}" for i in range(len(types))]
        return f"%i{start}", args, [f"%r{start + i}" for i in range(len(types))]

    def conditional_loop(self, depth: int) -> None:
        types = ["i32", *self.carried()]
        start = self.new("i32", "arith.constant 0 : i32")
        most = self.small("i32", 3)
        initial = [start, *(self.value(t) for t in types[1:])]
        _, args, results = self.loop_names(types)
        listed = ", ".join(types)
        carry = ", ".join(f"{a} = {v}" for a, v in zip(args, initial, strict=True))
        self.emit(f"{', '.join(results)} = scf.while ({carry}) : ({listed}) -> ({listed}) {{")
        with self.nested():
            for name, t in zip(args, types, strict=True):
                self.scope[t].append(name)
            for _ in range(self.rng.randint(0, 2)):
                self.simple()
            goes_on = self.new("i1", f"arith.cmpi slt, {args[0]}, {most} : i32")
            passed = [args[0], *(self.value(t) for t in types[1:])]
            self.emit(f"scf.condition({goes_on}) {', '.join(passed)} : {listed}")
        self.emit("} do {")
        inner = [name.replace("%a", "%b") for name in args]
        heads = ", ".join(f"{name} : {t}" for name, t in zip(inner, types, strict=True))
        self.emit(f"^bb0({heads}):")
        with self.nested():
            for name, t in zip(inner, types, strict=True):
                self.scope[t].append(name)
            self.block(depth)
            one = self.new("i32", "arith.constant 1 : i32")
            following = self.new("i32", f"arith.addi {inner[0]}, {one} : i32")
            values = [following, *(self.value(t) for t in types[1:])]
            self.emit(f"scf.yield {', '.join(values)} : {listed}")
        self.emit("}")
        for name, t in zip(results, types, strict=True):
            self.scope[t].append(name)

    def simple(self) -> None:
        simple = (self.arith, self.compare, self.select, self.cast, self.issue, self.semaphore,
                  self.read, self.report, self.grid, self.acquire)  # fmt: skip
        self.rng.choice(simple)()

    def block(self, depth: int) -> None:
        for _ in range(self.rng.randint(2, 6)):
            kind = self.rng.randint(0, 7)
            if depth > 0 and kind < 3:
                (self.branch, self.counted, self.conditional_loop)[kind](depth - 1)
            else:
                self.simple()
        self.issue()

    def text(self) -> str:
        heads = ", ".join(f"%{name}: {type_}" for name, type_ in ARGUMENTS.items())
        names = ", ".join(f'"{name}"' for name in ARGUMENTS)
        fmts = ", ".join(f'"int{WIDTHS[type_]}"' for type_ in ARGUMENTS.values())
        attributes = f"dsa.args = [{names}], dsa.formats = [{fmts}]"
        body = "\n".join([*self.rings, *self.lines])
        return f"func.func @k({heads}) attributes {{{attributes}}} {{\n{body}\n  func.return\n}}\n"


def random_number(rng: random.Random, bits: int) -> int:
    """A number of a width: a small one, an end of the range, or any."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return rng.choice((rng.choice(NUMBERS), rng.choice((low, high)), rng.randint(low, high)))


def random_kernel(rng: random.Random) -> str:
    """The dsa IR text of a random kernel with the arguments ARGUMENTS."""
    writer = Writer(rng)
    writer.block(3)
    return writer.text()


def random_launch(rng: random.Random) -> tuple[list[int], int, int]:
    """Argument values with the grid behind them, core and number of cores."""
    values = [signed(random_number(rng, WIDTHS[t]), WIDTHS[t]) for t in ARGUMENTS.values()]
    cores = rng.randint(1, 8)
    return [*values, *rng.choices(range(1, 9), k=3)], rng.randrange(cores), cores
