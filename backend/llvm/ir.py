"""LLVM IR, written as text while it is built.

The names are those of `llvmlite.ir`, as far as code generators here use them. There, every instruction is an object that
prints itself in the end, which took a sixth of the time that a small kernel takes to compile. Here an instruction
is a line of its block, and a value is its type and its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache


class Type:
    """A type; types with equal text are equal."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Type) and other.text == self.text)

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def truth(self) -> Type:
        """The type of a comparison's result."""
        return I1


class IntType(Type):
    """An integer; calling the type gives a constant."""

    __slots__ = ("width",)

    def __init__(self, width: int) -> None:
        super().__init__(f"i{width}")
        self.width = width

    def __call__(self, number: int) -> Constant:
        """A number of this type."""
        return Constant(self, number)


class VectorType(Type):
    """`count` elements in a register."""

    __slots__ = ("count", "element")

    def __init__(self, element: Type, count: int) -> None:
        super().__init__(f"<{count} x {element.text}>")
        self.element, self.count = element, count

    @property
    def truth(self) -> Type:
        """The type of a comparison's result."""
        return vector(I1, self.count)


class ArrayType(Type):
    """`count` elements in memory."""

    __slots__ = ("element",)

    def __init__(self, element: Type, count: int) -> None:
        super().__init__(f"[{count} x {element.text}]")
        self.element = element


class StructType(Type):
    """A few values of different types."""

    __slots__ = ("elements",)

    def __init__(self, elements: Sequence[Type]) -> None:
        super().__init__("{" + ", ".join(e.text for e in elements) + "}")
        self.elements = tuple(elements)


I1, I8, I16, I32, I64 = (IntType(width) for width in (1, 8, 16, 32, 64))
F16, F32, F64 = Type("half"), Type("float"), Type("double")
PTR, VOID = Type("ptr"), Type("void")


@cache
def vector(element: Type, count: int) -> VectorType:
    """A vector type."""
    return VectorType(element, count)


class Value:
    """What an instruction gives, or a constant: `text` stands for it where it is used."""

    __slots__ = ("text", "type")

    def __init__(self, type_: Type, text: str) -> None:
        self.type, self.text = type_, text

    @property
    def typed(self) -> str:
        """The type and the text."""
        return f"{self.type.text} {self.text}"


class Constant(Value):
    """An integer that is known."""

    __slots__ = ("number",)

    def __init__(self, type_: IntType, number: int) -> None:
        super().__init__(type_, str(number))
        self.number = number


class Phi(Value):
    """A value that depends on where control comes from."""

    __slots__ = ("incoming",)

    def __init__(self, type_: Type, text: str) -> None:
        super().__init__(type_, text)
        self.incoming: list[str] = []

    def add_incoming(self, value: Value, block: Block) -> None:
        """Take `value` when control comes from `block`."""
        self.incoming.append(f"[{value.text}, %{block.name}]")

    def __str__(self) -> str:
        return f"  {self.text} = phi {self.type.text} {', '.join(self.incoming)}"


class Block:
    """A basic block: its instructions, the last of them a terminator."""

    __slots__ = ("lines", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[str | Phi] = []


class Module:
    """Functions, constants and metadata."""

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}
        self.constants: dict[str, Global] = {}
        self.metadata: dict[str, str] = {}

    def note(self, text: str) -> str:
        """The name of a metadata node."""
        return self.metadata.setdefault(text, f"!{len(self.metadata)}")

    def __str__(self) -> str:
        parts = [str(each) for each in (*self.constants.values(), *self.functions.values())]
        parts += [f"{name} = !{{{text}}}" for text, name in self.metadata.items()]
        return "\n".join(parts) + "\n"


class Global(Value):
    """A constant in memory."""

    __slots__ = ("align", "contents")

    def __init__(self, module: Module, contents: Value, name: str, align: int = 8) -> None:
        super().__init__(PTR, f"@{name}")
        self.contents, self.align = contents, align
        module.constants[name] = self

    def __str__(self) -> str:
        return f"{self.text} = internal constant {self.contents.typed}, align {self.align}"


class Function(Value):
    """A function, only declared as long as it has no blocks."""

    __slots__ = (
        "args",
        "attributes",
        "blocks",
        "linkage",
        "module",
        "name",
        "names",
        "result",
        "values",
    )

    def __init__(self, module: Module, result: Type, arguments: Sequence[Type], name: str) -> None:
        super().__init__(PTR, f"@{name}")
        self.module, self.name, self.result = module, name, result
        self.args = [Value(type_, f"%a{k}") for k, type_ in enumerate(arguments)]
        self.attributes: list[str] = []
        self.blocks: list[Block] = []
        self.linkage = ""
        self.values = 0
        self.names: dict[str, int] = {}
        module.functions[name] = self

    def append_basic_block(self, name: str) -> Block:
        """A block with a name of its own that starts with `name`."""
        number = self.names.get(name, 0)
        self.names[name] = number + 1
        block = Block(f"{name}.{number}" if number else name)
        self.blocks.append(block)
        return block

    def __str__(self) -> str:
        attributes = " ".join(self.attributes)
        if not self.blocks:
            types = ", ".join(a.type.text for a in self.args)
            return f"declare {self.result.text} {self.text}({types}) {attributes}"
        arguments = ", ".join(a.typed for a in self.args)
        linkage = f"{self.linkage} " if self.linkage else ""
        lines = [f"define {linkage}{self.result.text} {self.text}({arguments}) {attributes} {{"]
        for block in self.blocks:
            lines.append(f"{block.name}:")
            lines += map(str, block.lines)
        return "\n".join([*lines, "}"])


_TESTS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def _binary(op: str) -> Callable[[IRBuilder, Value, Value], Value]:
    def method(builder: IRBuilder, x: Value, y: Value) -> Value:
        return builder.emit(x.type, f"{op} {x.type.text} {x.text}, {y.text}")

    return method


def _cast(op: str) -> Callable[[IRBuilder, Value, Type], Value]:
    def method(builder: IRBuilder, x: Value, type_: Type) -> Value:
        if type_ == x.type:
            return x
        return builder.emit(type_, f"{op} {x.type.text} {x.text} to {type_.text}")

    return method


class IRBuilder:
    """Adds instructions to the end of a block."""

    def __init__(self, function: Function, block: Block) -> None:
        self.function, self.block = function, block

    def position_at_end(self, block: Block) -> None:
        """Go on in `block`."""
        self.block = block

    def append_basic_block(self, name: str) -> Block:
        """A new block of the function."""
        return self.function.append_basic_block(name)

    def name(self) -> str:
        """A name for a value."""
        function = self.function
        function.values += 1
        return f"%v{function.values}"

    def emit(self, type_: Type, text: str) -> Value:
        """An instruction that gives a value."""
        function = self.function
        function.values = number = function.values + 1
        name = f"%v{number}"
        self.block.lines.append(f"  {name} = {text}")
        return Value(type_, name)

    def line(self, text: str) -> None:
        """An instruction that gives none."""
        self.block.lines.append("  " + text)

    # Numbers

    add, sub, mul = _binary("add"), _binary("sub"), _binary("mul")
    sdiv, udiv, srem, urem = (_binary(op) for op in ("sdiv", "udiv", "srem", "urem"))
    shl, lshr, ashr = _binary("shl"), _binary("lshr"), _binary("ashr")
    and_, or_, xor = _binary("and"), _binary("or"), _binary("xor")
    fadd, fsub, fmul = _binary("fadd"), _binary("fsub"), _binary("fmul")
    fdiv, frem = _binary("fdiv"), _binary("frem")
    trunc, zext, sext, fptrunc = (_cast(op) for op in ("trunc", "zext", "sext", "fptrunc"))
    fpext, sitofp, uitofp, fptosi = (_cast(op) for op in ("fpext", "sitofp", "uitofp", "fptosi"))
    bitcast, inttoptr, ptrtoint = _cast("bitcast"), _cast("inttoptr"), _cast("ptrtoint")

    def not_(self, x: Value) -> Value:
        """All bits turned over."""
        ones = f"splat ({x.type.element.text} -1)" if isinstance(x.type, VectorType) else "-1"
        return self.emit(x.type, f"xor {x.type.text} {x.text}, {ones}")

    def neg(self, x: Value) -> Value:
        """0 - x."""
        return self.emit(x.type, f"sub {x.type.text} 0, {x.text}")

    def fneg(self, x: Value) -> Value:
        """The other sign."""
        return self.emit(x.type, f"fneg {x.type.text} {x.text}")

    def icmp_signed(self, test: str, x: Value, y: Value) -> Value:
        """Compare integers with signs."""
        sign = "" if test in ("==", "!=") else "s"
        return self.emit(
            x.type.truth, f"icmp {sign}{_TESTS[test]} {x.type.text} {x.text}, {y.text}"
        )

    def icmp_unsigned(self, test: str, x: Value, y: Value) -> Value:
        """Compare integers without signs, or pointers."""
        sign = "" if test in ("==", "!=") else "u"
        return self.emit(
            x.type.truth, f"icmp {sign}{_TESTS[test]} {x.type.text} {x.text}, {y.text}"
        )

    def fcmp_ordered(self, test: str, x: Value, y: Value) -> Value:
        """Compare floats; false where one is a NaN."""
        name = f"o{_TESTS[test]}" if test in _TESTS else test
        return self.emit(x.type.truth, f"fcmp {name} {x.type.text} {x.text}, {y.text}")

    def fcmp_unordered(self, test: str, x: Value, y: Value) -> Value:
        """Compare floats; true where one is a NaN."""
        name = f"u{_TESTS[test]}" if test in _TESTS else test
        return self.emit(x.type.truth, f"fcmp {name} {x.type.text} {x.text}, {y.text}")

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """x where the condition holds, else y."""
        return self.emit(x.type, f"select {condition.typed}, {x.typed}, {y.typed}")

    # Parts of vectors and structures

    def extract_element(self, x: Value, index: Value) -> Value:
        """A lane."""
        assert isinstance(x.type, VectorType)
        return self.emit(x.type.element, f"extractelement {x.typed}, {index.typed}")

    def insert_element(self, x: Value, value: Value, index: Value) -> Value:
        """The vector with another value in a lane."""
        return self.emit(x.type, f"insertelement {x.typed}, {value.typed}, {index.typed}")

    def shuffle_vector(self, x: Value, y: Value, mask: Value) -> Value:
        """Lanes of x and y."""
        assert isinstance(x.type, VectorType) and isinstance(mask.type, VectorType)
        type_ = vector(x.type.element, mask.type.count)
        return self.emit(type_, f"shufflevector {x.typed}, {y.typed}, {mask.typed}")

    def extract_value(self, x: Value, index: int) -> Value:
        """An element of a structure."""
        assert isinstance(x.type, StructType)
        return self.emit(x.type.elements[index], f"extractvalue {x.typed}, {index}")

    def insert_value(self, x: Value, value: Value, index: int) -> Value:
        """The structure with another element."""
        return self.emit(x.type, f"insertvalue {x.typed}, {value.typed}, {index}")

    # Memory

    def alloca(self, type_: Type, align: int = 8) -> Value:
        """Memory of this call."""
        return self.emit(PTR, f"alloca {type_.text}, align {align}")

    def load(self, pointer: Value, typ: Type, align: int = 8) -> Value:
        """A value in memory."""
        return self.emit(typ, f"load {typ.text}, ptr {pointer.text}, align {align}")

    def store(self, value: Value, pointer: Value, align: int = 8, note: str = "") -> None:
        """Put a value into memory; `note` is metadata."""
        tail = f", {note}" if note else ""
        self.line(f"store {value.typed}, ptr {pointer.text}, align {align}{tail}")

    def gep(self, pointer: Value, indices: Sequence[Value], source_etype: Type) -> Value:
        """An address that elements of a type are counted from."""
        places = ", ".join(index.typed for index in indices)
        return self.emit(PTR, f"getelementptr {source_etype.text}, ptr {pointer.text}, {places}")

    def cmpxchg(self, pointer: Value, expected: Value, value: Value, order: str) -> Value:
        """Put a value into memory where the expected one stands: what stood there, and whether it was that."""
        return self.emit(
            StructType([value.type, I1]),
            f"cmpxchg ptr {pointer.text}, {expected.typed}, {value.typed} {order} {order}",
        )

    # Control flow

    def call(self, function: Function, arguments: Sequence[Value]) -> Value:
        """Call a function."""
        given = ", ".join(argument.typed for argument in arguments)
        text = f"call {function.result.text} {function.text}({given})"
        if function.result is VOID:
            self.line(text)
            return Value(VOID, "")
        return self.emit(function.result, text)

    def phi(self, type_: Type) -> Phi:
        """A value that depends on where control comes from; to be filled by `add_incoming`."""
        phi = Phi(type_, self.name())
        self.block.lines.append(phi)
        return phi

    def branch(self, block: Block) -> None:
        """Go to a block."""
        self.line(f"br label %{block.name}")

    def cbranch(self, condition: Value, then: Block, other: Block, note: str = "") -> None:
        """Go to one of two blocks; `note` is metadata."""
        tail = f", {note}" if note else ""
        self.line(f"br i1 {condition.text}, label %{then.name}, label %{other.name}{tail}")

    def ret(self, value: Value) -> None:
        """Leave the function with a value."""
        self.line(f"ret {value.typed}")

    def ret_void(self) -> None:
        """Leave the function."""
        self.line("ret void")

    @contextmanager
    def if_then(self, condition: Value, likely: bool = True) -> Iterator[None]:
        """What is emitted inside runs if the condition holds; it must not leave the function."""
        then, done = self.append_basic_block("if"), self.append_basic_block("endif")
        self.cbranch(condition, then, done, self._note(likely))
        self.position_at_end(then)
        yield
        self.branch(done)
        self.position_at_end(done)

    @contextmanager
    def if_else(
        self, condition: Value, likely: bool = True
    ) -> Iterator[tuple[AbstractContextManager[None], AbstractContextManager[None]]]:
        """Two contexts: what is emitted in the first runs if the condition holds, in the second if it does not."""
        then, other, done = (self.append_basic_block(n) for n in ("then", "else", "endif"))
        self.cbranch(condition, then, other, self._note(likely))
        yield self._into(then, done), self._into(other, done)
        self.position_at_end(done)

    def _note(self, likely: bool) -> str:
        return "" if likely else f"!prof {self.function.module.note(_UNLIKELY)}"

    @contextmanager
    def _into(self, block: Block, done: Block) -> Iterator[None]:
        self.position_at_end(block)
        yield
        self.branch(done)


_UNLIKELY = '!"branch_weights", i32 1, i32 99'
