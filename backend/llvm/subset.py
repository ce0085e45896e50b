"""Compile plain Python functions over integers to host code.

For inner loops that must be fast and are still worth reading (the exact SRAM allocator). The subset:
every value is a 64-bit integer; parameters are annotated `int` or with one *state* class whose fields are
annotated `int` or `list[int]`; statements are assignments, `if`, `while`, `for … in range(…)`, `break`,
`continue`, `return`; expressions are arithmetic (`+ - * // % & | ^ << >>`, division of non-negative numbers),
comparisons, `and`/`or`/`not`, conditional expressions, `min`, `max`, fields and elements of the state, and calls
of the other functions compiled with it. The same functions run under the Python interpreter.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

WORD = ir.IntType(64)
WORDS = WORD.as_pointer()
ZERO = ir.Constant(WORD, 0)

_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "sdiv", ast.Mod: "srem",
    ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "ashr",
}  # fmt: skip
_COMPARE = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


class NativeModule:
    """Compiled functions that share one state class.

    Args:
        state: a class whose annotations are `int` (a slot) and `list[int]` (an int64 array).
        functions: the functions; the first one is the entry, its first parameter the state.
    """

    def __init__(self, state: type, functions: Sequence[Callable[..., int]]) -> None:
        self._fields = _fields(state)
        self._engine = _jit(module_text(state, functions))
        address = self._engine.get_function_address(functions[0].__name__)
        arity = len(inspect.signature(functions[0]).parameters)
        self._entry = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arity)(address)

    def __call__(self, state: Any, *args: int) -> int:
        """Run the entry on a state object; its int fields and lists are updated in place."""
        slots = np.zeros(len(self._fields), np.int64)
        arrays: dict[str, np.ndarray[Any, np.dtype[np.int64]]] = {}
        for k, (name, kind) in enumerate(self._fields.items()):
            value = getattr(state, name)
            if kind == "int":
                slots[k] = value
            else:
                arrays[name] = np.array(value, np.int64)
                slots[k] = arrays[name].ctypes.data
        result: int = self._entry(slots.ctypes.data, *args)
        for k, (name, kind) in enumerate(self._fields.items()):
            setattr(state, name, int(slots[k]) if kind == "int" else arrays[name].tolist())
        return result


def _fields(state: type) -> dict[str, str]:
    return {name: str(kind) for name, kind in state.__annotations__.items()}


def module_text(
    state: type,
    functions: Sequence[Callable[..., int]],
    inlined: Sequence[Callable[..., int]] = (),
) -> str:
    """LLVM IR of the functions, `i64 entry(ptr state, i64 ...)` visible and the others internal.

    `inlined` are put into their callers whatever their size: a call costs loading the addresses of arrays again.
    The state is one i64 per field in order: the int, or the address of the array.
    """
    module = ir.Module("subset")
    table = {f.__name__: _declare(module, f) for f in functions}
    for function in functions:
        _Compiler(table, list(_fields(state)), table[function.__name__], _tree(function))
    for function in functions[1:]:
        table[function.__name__].linkage = "internal"
    for function in inlined:
        table[function.__name__].attributes.add("alwaysinline")
    return str(module)


def _tag(module: ir.Module, name: str) -> Any:
    root = module.add_metadata(["dsalang state"])
    kind = module.add_metadata([name, root, ir.Constant(WORD, 0)])
    return module.add_metadata([kind, kind, ir.Constant(WORD, 0)])


def _tree(function: Callable[..., int]) -> ast.FunctionDef:
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


def _declare(module: ir.Module, function: Callable[..., int]) -> ir.Function:
    hints = get_type_hints(function)
    hints.pop("return", None)
    types = [WORD if hint is int else WORDS for hint in hints.values()]
    declared = ir.Function(module, ir.FunctionType(WORD, types), function.__name__)
    declared.attributes.add("nounwind")
    return declared


def _jit(text: str) -> llvm.ExecutionEngine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    parsed = llvm.parse_assembly(text)
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), opt=2
    )
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(parsed, builder)
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    return engine


class _Compiler:
    """Builds the body of one function."""

    def __init__(
        self,
        table: dict[str, ir.Function],
        fields: list[str],
        function: ir.Function,
        node: ast.FunctionDef,
    ) -> None:
        self.table, self.fields, self.function = table, fields, function
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.locals: dict[str, ir.AllocaInstr] = {}
        self.state: dict[str, ir.Argument] = {}
        self.loops: list[tuple[ir.Block, ir.Block]] = []
        names = {
            n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        for parameter, argument in zip(node.args.args, function.args):
            if argument.type == WORDS:
                self.state[parameter.arg] = argument
            else:
                names.add(parameter.arg)
        for name in sorted(names):
            self.locals[name] = self.builder.alloca(WORD, name=name)
        for parameter, argument in zip(node.args.args, function.args):
            if argument.type == WORD:
                self.builder.store(argument, self.locals[parameter.arg])
        self.arrays = self.load_arrays(node)
        self.block(node.body)
        if not self.builder.block.is_terminated:
            self.builder.ret(ZERO)

    def load_arrays(self, node: ast.FunctionDef) -> dict[str, ir.Value]:
        """Addresses of the arrays that the function uses, loaded once: they never change."""
        used = {
            n.value.attr
            for n in ast.walk(node)
            if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Attribute)
        }
        (state,) = self.state.values()
        return {
            name: self.builder.inttoptr(self.address_of(state, name), WORDS)
            for name in sorted(used)
        }

    def address_of(self, state: ir.Value, name: str) -> ir.Value:
        """The address of an array of the state."""
        load = self.builder.load(self.field(state, name))
        load.set_metadata("tbaa", _tag(self.function.module, f"&{name}"))
        return load

    def field(self, state: ir.Value, name: str) -> ir.Value:
        """The address of a field of the state."""
        return self.builder.gep(state, [ir.Constant(WORD, self.fields.index(name))])

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self.builder.block.is_terminated:
                return
            getattr(self, f"do_{type(statement).__name__.lower()}")(statement)

    # Statements.

    def do_expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    def do_assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], ast.Tuple):
            assert isinstance(node.value, ast.Tuple)
            values = [self.value(v) for v in node.value.elts]
            for target, value in zip(node.targets[0].elts, values, strict=True):
                self.assign(target, value)
            return
        value = self.value(node.value)
        for target in node.targets:
            self.assign(target, value)

    def do_augassign(self, node: ast.AugAssign) -> None:
        value = self.value(node.value)
        operation = getattr(self.builder, _BINARY[type(node.op)])
        self.assign(node.target, operation(self.read(node.target), value))

    def do_return(self, node: ast.Return) -> None:
        self.builder.ret(self.value(node.value) if node.value else ZERO)

    def do_break(self, node: ast.Break) -> None:
        self.builder.branch(self.loops[-1][1])

    def do_continue(self, node: ast.Continue) -> None:
        self.builder.branch(self.loops[-1][0])

    def do_if(self, node: ast.If) -> None:
        then, other, done = self.blocks("then", "else", "endif")
        self.builder.cbranch(self.truth(node.test), then, other)
        for start, body in ((then, node.body), (other, node.orelse)):
            self.builder.position_at_end(start)
            self.block(body)
            if not self.builder.block.is_terminated:
                self.builder.branch(done)
        self.builder.position_at_end(done)

    def do_while(self, node: ast.While) -> None:
        head, body, done = self.blocks("while", "body", "endwhile")
        self.builder.branch(head)
        self.builder.position_at_end(head)
        self.builder.cbranch(self.truth(node.test), body, done)
        self.loop(body, head, done, node.body)

    def do_for(self, node: ast.For) -> None:
        assert isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)
        bounds = [self.value(a) for a in node.iter.args]
        start, stop = bounds if len(bounds) == 2 else (ZERO, bounds[0])
        counter = self.builder.alloca(WORD)
        self.builder.store(start, counter)
        head, body, step, done = self.blocks("for", "body", "step", "endfor")
        self.builder.branch(head)
        self.builder.position_at_end(head)
        at = self.builder.load(counter)
        self.builder.cbranch(self.builder.icmp_signed("<", at, stop), body, done)
        self.builder.position_at_end(body)
        self.builder.store(at, self.locals[node.target.id])
        self.loop(body, step, done, node.body)
        self.builder.position_at_end(step)
        next_ = self.builder.add(self.builder.load(counter), ir.Constant(WORD, 1))
        self.builder.store(next_, counter)
        self.builder.branch(head)
        self.builder.position_at_end(done)

    def loop(
        self, body: ir.Block, again: ir.Block, done: ir.Block, statements: list[ast.stmt]
    ) -> None:
        self.builder.position_at_end(body)
        self.loops.append((again, done))
        self.block(statements)
        self.loops.pop()
        if not self.builder.block.is_terminated:
            self.builder.branch(again)
        self.builder.position_at_end(done)

    def blocks(self, *names: str) -> list[ir.Block]:
        return [self.function.append_basic_block(name) for name in names]

    # Places and expressions.

    def place(self, node: ast.expr) -> ir.Value:
        """The address of a variable, a field of the state or an element of one."""
        if isinstance(node, ast.Name):
            return self.locals[node.id]
        if isinstance(node, ast.Attribute):
            assert isinstance(node.value, ast.Name)
            return self.field(self.state[node.value.id], node.attr)
        assert isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute)
        return self.builder.gep(self.arrays[node.value.attr], [self.value(node.slice)])

    def read(self, node: ast.expr) -> ir.Value:
        """The value of a place."""
        return self.tagged(self.builder.load(self.place(node)), node)

    def assign(self, node: ast.expr, value: ir.Value) -> None:
        """Store into a place."""
        self.tagged(self.builder.store(value, self.place(node)), node)

    def tagged(self, access: Any, node: ast.expr) -> Any:
        """An access with what it cannot alias with: fields and arrays of the state are all apart."""
        if isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Attribute):
            access.set_metadata("tbaa", _tag(self.function.module, node.attr))
        return access

    def truth(self, node: ast.expr) -> ir.Value:
        """An i1."""
        if isinstance(node, ast.Compare):
            left, right = self.value(node.left), self.value(node.comparators[0])
            return self.builder.icmp_signed(_COMPARE[type(node.ops[0])], left, right)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.builder.not_(self.truth(node.operand))
        if isinstance(node, ast.BoolOp):
            return self.short_circuit(node)
        return self.builder.icmp_signed("!=", self.value(node), ZERO)

    def short_circuit(self, node: ast.BoolOp) -> ir.Value:
        is_and = isinstance(node.op, ast.And)
        done = self.function.append_basic_block("bool")
        incoming = []
        for operand in node.values[:-1]:
            value = self.truth(operand)
            incoming.append((ir.Constant(ir.IntType(1), int(not is_and)), self.builder.block))
            after = self.function.append_basic_block("next")
            self.builder.cbranch(value, *((after, done) if is_and else (done, after)))
            self.builder.position_at_end(after)
        incoming.append((self.truth(node.values[-1]), self.builder.block))
        self.builder.branch(done)
        self.builder.position_at_end(done)
        result = self.builder.phi(ir.IntType(1))
        for value, block in incoming:
            result.add_incoming(value, block)
        return result

    def value(self, node: ast.expr) -> ir.Value:
        """An i64."""
        if isinstance(node, ast.Constant):
            return ir.Constant(WORD, int(node.value))  # type: ignore[arg-type]
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            return self.read(node)
        if isinstance(node, ast.BinOp):
            operation = getattr(self.builder, _BINARY[type(node.op)])
            return operation(self.value(node.left), self.value(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self.builder.neg(self.value(node.operand))
        if isinstance(node, ast.IfExp):
            return self.builder.select(
                self.truth(node.test), self.value(node.body), self.value(node.orelse)
            )
        if isinstance(node, ast.Call):
            return self.call(node)
        return self.builder.zext(self.truth(node), WORD)

    def call(self, node: ast.Call) -> ir.Value:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name in ("min", "max"):
            left, right = (self.value(a) for a in node.args)
            first = self.builder.icmp_signed("<" if name == "min" else ">", left, right)
            return self.builder.select(first, left, right)
        is_state = [isinstance(a, ast.Name) and a.id in self.state for a in node.args]
        args = [
            self.state[a.id] if is_ and isinstance(a, ast.Name) else self.value(a)
            for a, is_ in zip(node.args, is_state)
        ]
        return self.builder.call(self.table[name], args)
