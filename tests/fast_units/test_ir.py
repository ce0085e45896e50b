"""The writer of LLVM IR: what it writes is LLVM IR, with names that are told apart."""

from __future__ import annotations

import llvmlite.binding as llvm

from dsalang._backend.llvm import ir


def test_a_function_with_all_kinds_of_control_flow_is_valid() -> None:
    module = ir.Module()
    outside = ir.Function(module, ir.VOID, [ir.I64], "outside")
    function = ir.Function(module, ir.I64, [ir.PTR, ir.I64], "f")
    b = ir.IRBuilder(function, function.append_basic_block("entry"))
    pointer, number = function.args
    small = b.icmp_signed("<", number, ir.I64(10))
    with b.if_then(small, likely=False):
        b.store(number, pointer)
    with b.if_else(small) as (then, other):
        with then:
            b.call(outside, [number])
        with other:
            b.call(outside, [ir.I64(-1)])
    before, turn, done = b.block, b.append_basic_block("turn"), b.append_basic_block("done")
    b.branch(turn)
    b.position_at_end(turn)
    index = b.phi(ir.I64)
    index.add_incoming(ir.I64(0), before)
    following = b.add(index, ir.I64(1))
    index.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("<", following, number), turn, done)
    b.position_at_end(done)
    b.ret(b.load(b.gep(pointer, [following], ir.I64), ir.I64))
    llvm.parse_assembly(str(module)).verify()
    names = [block.name for block in function.blocks]
    assert len(set(names)) == len(names)


def test_vectors_compare_to_vectors_and_casts_to_the_same_type_are_none() -> None:
    module = ir.Module()
    function = ir.Function(module, ir.VOID, [ir.vector(ir.I32, 8)], "f")
    b = ir.IRBuilder(function, function.append_basic_block("entry"))
    (x,) = function.args
    assert b.icmp_signed(">", x, x).type == ir.vector(ir.I1, 8)
    assert b.bitcast(x, ir.vector(ir.I32, 8)) is x
    assert b.bitcast(x, ir.vector(ir.F32, 8)).type == ir.vector(ir.F32, 8)
    b.not_(x)
    b.ret_void()
    llvm.parse_assembly(str(module)).verify()
