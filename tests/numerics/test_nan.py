from dsalang._backend.isa.vprog import MicroOp, VectorProgram
from dsalang._backend.numerics.nan import canonical_sources


def program(*ops: MicroOp) -> VectorProgram:
    return VectorProgram(("fp32", "fp32"), (), ("fp32",), ops)


def op(name: str, dst: int = 0, *srcs: int, fmt: str = "fp32", src_fmt: str = "fp32") -> MicroOp:
    return MicroOp(name, fmt, src_fmt, dst, srcs)


IN0, IN1 = op("in", 0), op("in", 1)


def last(*ops: MicroOp) -> bool:
    return canonical_sources(program(*ops))[-1]


def test_moved_data_is_left_alone() -> None:
    assert not last(IN0, op("out", 0, 0))
    assert not last(IN0, op("fneg", 1, 0), op("fabs", 1, 1), op("out", 0, 1))
    flag = op("flt", 2, 0, 1, fmt="int1")
    assert not last(IN0, IN1, flag, op("select", 0, 2, 0, 1), op("out", 0, 0))
    assert not last(op("const", 0), op("out", 0, 0))


def test_computed_nan_is_canonical() -> None:
    assert last(IN0, op("fadd", 1, 0, 0), op("out", 0, 1))
    assert last(IN0, op("fexp", 1, 0), op("fneg", 1, 1), op("out", 0, 1))
    assert last(IN0, op("fcvt", 1, 0, fmt="fp16"), op("out", 0, 1, fmt="fp16"))
    select = op("select", 3, 2, 0, 1)
    flag = op("flt", 2, 0, 0, fmt="int1")
    assert last(IN0, op("fadd", 1, 0, 0), flag, select, op("out", 0, 3))


def test_bitcast_rereads() -> None:
    cast = op("bitcast", 1, 0, fmt="int32")
    assert canonical_sources(program(IN0, cast)) == (False, False)
    assert canonical_sources(program(IN0, op("fadd", 0, 0, 0), cast)) == (False, False, True)
    back = op("bitcast", 1, 1, src_fmt="int32")
    add = op("iadd", 1, 1, 1, fmt="int32", src_fmt="int32")
    assert not last(IN0, cast, add, back, op("out", 0, 1))


def test_registers_are_reused() -> None:
    assert canonical_sources(
        program(IN0, op("fadd", 0, 0, 0), op("out", 0, 0), IN0, op("out", 0, 0))
    ) == (False, False, True, False, False)
