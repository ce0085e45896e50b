"""Launches: binding, grids, specialisation, targets, and the message of every mistake."""

from __future__ import annotations

import copy
import pickle
import traceback

import numpy as np
import pytest

import dsalang as dsa
from dsalang._backend.errors import LaunchError, TargetError, UserError
from dsalang._jit.arguments import bind, classify, number_type
from dsalang._jit.launch import grid_of, scalar_bits
from dsalang._jit.machine import resolve
from dsalang._jit.source import KernelSource
from dsalang._jit.specialize import from_signature, specialize


@dsa.jit(interpret=True)
def kernel(x, out, n, BLOCK: dsa.constexpr, scale=2.0):
    i = dsa.arange(0, BLOCK)
    dsa.store(out + i, dsa.load(x + i, mask=i < n) * scale, mask=i < n)


X = np.ones(8, np.float32)


def out():
    return np.zeros(8, np.float32)


@pytest.mark.parametrize(
    ("args", "kwargs", "message", "hint"),
    [
        ((X, X, 8), {}, "kernel kernel misses constexpr argument 'BLOCK'", "pass e.g. BLOCK=128"),
        (
            (X,),
            {"BLOCK": 8},
            "misses arguments 'out', 'n'",
            "(x, out, n, BLOCK: constexpr, scale=2.0)",
        ),
        ((X, X, 8, 8, 1.0, 5), {}, "takes 5 arguments, got 6 positional ones", "its parameters"),
        ((X, X, 8), {"BLOCK": 8, "foo": 1}, "has no parameter 'foo'", "its parameters"),
        ((X, X, 8, 8), {"n": 8}, "got two values for parameter 'n'", ""),
        ((X, X, "8"), {"BLOCK": 8}, "argument 'n' has type str", "constexpr"),
        ((X, X, [8]), {"BLOCK": 8}, "argument 'n' has type list", "constexpr"),
        ((X, X, 2**70), {"BLOCK": 8}, "does not fit 64 bits", ""),
        ((X, X, 8), {"BLOCK": X}, "argument 'BLOCK' is an array", "drop the annotation"),
        ((X, X, 8), {"BLOCK": object()}, "constexpr argument 'BLOCK' has type object", "numbers"),
        (
            (X.astype(np.complex64), X, 8),
            {"BLOCK": 8},
            "argument 'x' has elements of type complex64",
            "two float32 arrays",
        ),
        ((X, X, 8), {"BLOCK": 8, "num_stage": 2}, "no parameter", "did you mean 'num_stages'?"),
        ((X, X, 8), {"BLK": 8}, "no parameter 'BLK'", "did you mean 'BLOCK'?"),
        ((X, X, 8), {"BLOCK": 8, "num_stages": 0}, "num_stages=0 is not allowed", "from 1"),
    ],
)
def test_wrong_arguments(args, kwargs, message, hint):
    with pytest.raises(LaunchError) as error:
        kernel[1](*args, **kwargs)
    assert message in error.value.message
    assert hint in error.value.hint


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (-1, "negative size -1"),
        ((2, -3), "negative size -3"),
        ((1, 2, 3, 4), "one to three sizes, not 4"),
        ((), "one to three sizes, not 0"),
        (1.5, "sizes are integers"),
        ("4", "sizes are integers"),
        (True, "sizes are integers"),
        (2**31, "more than 2147483647"),
        ((2**16, 2**16), "4294967296 programs"),
        (lambda meta: (meta["n"], None), "holds None"),
        (lambda meta: (meta["BLOK"],), "the grid asks for 'BLOK'"),
    ],
)
def test_wrong_grids(grid, message):
    with pytest.raises(LaunchError, match=message):
        kernel[grid](X, out(), 8, BLOCK=8)


@pytest.mark.parametrize(
    ("grid", "sizes"),
    [
        (3, (3, 1, 1)),
        ((2,), (2, 1, 1)),
        ([4, 5], (4, 5, 1)),
        ((np.int64(2), 3, 4), (2, 3, 4)),
        (lambda meta: (meta["n"] // 2, 7), (4, 7, 1)),
        (2**31 - 1, (2**31 - 1, 1, 1)),
        ((0, 2**31 - 1), (0, 2**31 - 1, 1)),
    ],
)
def test_grids(grid, sizes):
    assert grid_of(grid, {"n": 8}) == sizes


def test_a_grid_without_programs_runs_nothing():
    result = out()
    kernel[0](X, result, 8, BLOCK=8)
    assert not result.any()


def test_call_without_a_grid():
    with pytest.raises(LaunchError, match="called without a grid") as error:
        kernel(X, out(), 8, BLOCK=8)
    assert "kernel[grid](...)" in error.value.hint


def test_errors_have_few_frames_and_no_chain():
    try:
        kernel[1](X, out(), "8", BLOCK=8)
    except LaunchError as error:
        frames = traceback.extract_tb(error.__traceback__)
        assert len(frames) <= 2, frames
        assert error.__cause__ is None and error.__suppress_context__
    else:
        raise AssertionError


def test_launch_options_are_not_the_kernels():
    result = out()
    kernel[1](X, result, 8, BLOCK=8, num_warps=4, num_ctas=1, num_stages=3, target="center")
    assert result.tolist() == [2.0] * 8


def test_a_parameter_may_have_an_options_name():
    @dsa.jit(interpret=True)
    def named(out, num_warps):
        dsa.store(out, num_warps)

    result = out()
    named[1](result, 5, target="edge")
    assert result[0] == 5
    named[1](result, num_warps=6)
    assert result[0] == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_wraps": 4}, "dsa.jit has no option 'num_wraps'"),
        ({"schedule": "magic"}, "schedule='magic' is not allowed"),
        ({"num_stages": -1}, "num_stages=-1"),
    ],
)
def test_wrong_decorator_options(options, message):
    with pytest.raises(LaunchError, match=message):

        @dsa.jit(**options)
        def nothing(x):
            pass


def test_decorator_forms():
    plain = dsa.jit(kernel.fn)
    called = dsa.jit()(kernel.fn)
    again = dsa.jit(noinline=True, debug=True)(plain)
    assert [k.__name__ for k in (plain, called, again)] == ["kernel"] * 3
    assert plain.fn is called.fn is again.fn


def spec_of(*args, skip=(), **kwargs):
    source = kernel.source
    bound = bind(source, args, kwargs)
    return specialize(classify(source, bound), bound, skip)


def test_specialisation_facts():
    base = np.zeros(64, np.float32)
    start = (-base.ctypes.data // 4) % 4  # element whose address is a multiple of 16
    spec = spec_of(base[start : start + 8], base[start + 9 : start + 17], 48, BLOCK=8)
    assert spec.signature == {"x": "*fp32", "out": "*fp32", "n": "int32", "scale": "fp32"}
    assert spec.constants == {"BLOCK": 8}
    assert spec.facts.divisible == {"x": 16, "out": 4, "n": 16}
    assert spec.facts.alias == {"x": 0, "out": 1}


def test_one_and_none_are_constants():
    spec = spec_of(X, None, 1, BLOCK=8)
    assert spec.constants == {"out": None, "n": 1, "BLOCK": 8}
    assert "n" not in spec.signature


def test_do_not_specialize():
    spec = spec_of(X, out(), 1, BLOCK=8, skip={"n", "x"})
    assert spec.signature["n"] == "int32"
    assert spec.facts.divisible["x"] == 4
    assert spec_of(X, out(), 16, BLOCK=8, skip={"n"}).facts.divisible.get("n") is None


def test_overlap_is_a_fact():
    base = np.zeros(16, np.float32)
    assert spec_of(base[:10], base[5:], 8, BLOCK=8).facts.alias == {"x": 0, "out": 0}


def test_keys_differ_by_type_of_constant():
    keys = {spec_of(X, out(), 7, BLOCK=b).key for b in (1, 1.0, True, "1", (1,), dsa.float16)}
    assert len(keys) == 6


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "int1"), (5, "int32"), (-(2**31), "int32"), (2**31, "int64"), (-(2**63), "int64"),
        (2**63, "uint64"), (2**64 - 1, "uint64"), (1.5, "fp32"),
    ],
)  # fmt: skip
def test_types_of_numbers(value, kind):
    assert number_type("n", value).name == kind


def test_declared_types():
    @dsa.jit
    def typed(x, n: dsa.int64, h: dsa.float16, b: dsa.uint8):
        pass

    def spec(n, h, b):
        bound = bind(typed.source, (X, n, h, b), {})
        return specialize(classify(typed.source, bound), bound)

    assert spec(1, 2, 1).constants == {}
    assert list(spec(5, 2, 255).signature.values()) == ["*fp32", "int64", "fp16", "uint8"]
    with pytest.raises(
        LaunchError, match="argument 'b' = 256 does not fit its declared type uint8"
    ):
        spec(5, 2, 256)
    with pytest.raises(LaunchError, match="argument 'n' is the float"):
        spec(5.5, 2, 0)


@pytest.mark.parametrize(
    ("name", "value", "bits"),
    [
        ("int32", -1, -1),
        ("uint64", 2**64 - 1, -1),
        ("int1", True, 1),
        ("fp32", 1.0, 0x3F800000),
        ("fp32", -0.0, 0x80000000),
        ("fp16", 1.0, 0x3C00),
        ("fp32", 1e300, 0x7F800000),
    ],
)
def test_scalar_bits(name, value, bits):
    from dsalang._backend.formats import by_name

    assert scalar_bits(by_name(name), value) == bits


class TestSignatures:
    source: KernelSource = kernel.source

    def test_in_order_and_by_name(self):
        text = from_signature(self.source, "*fp16:16, *f16, i32:16, f32", {"BLOCK": 8})
        names = from_signature(
            self.source,
            {"x": "*fp16:16", "out": "*fp16", "n": "i32:16", "scale": "fp32"},
            {"BLOCK": 8},
        )
        assert text.key == names.key
        assert text.facts.divisible == {"x": 16, "out": 2, "n": 16, "scale": 1}
        assert text.facts.alias == {"x": 0, "out": 1}

    def test_constants_take_parameters_out_of_the_signature(self):
        spec = from_signature(self.source, "*fp16, *fp16", {"BLOCK": 8, "n": 100, "scale": 1.0})
        assert spec.constants == {"n": 100, "BLOCK": 8, "scale": 1.0}

    @pytest.mark.parametrize(
        ("signature", "constants", "message"),
        [
            ("*fp16", {"BLOCK": 8}, "has 1 types, the kernel 4"),
            ("*fp16, *fp16, i32, fp32", {}, "no value for constexpr parameter 'BLOCK'"),
            ("*fp16, *fp16, i33, fp32", {"BLOCK": 8}, "'i33' is not a type"),
            ("*fp16, **fp16, i32, fp32", {"BLOCK": 8}, "is not a type"),
            ("*fp16, *fp16, fp128, fp32", {"BLOCK": 8}, "'fp128' is not a type"),
            ("*fp16:x, *fp16, i32, fp32", {"BLOCK": 8}, "is not a type"),
            ({"x": "*fp16"}, {"BLOCK": 8}, "misses 'out'"),
            ({"y": "*fp16"}, {"BLOCK": 8}, "no run-time parameter 'y'"),
            ("", {"B": 8}, "has no parameter 'B'"),
        ],
    )
    def test_mistakes(self, signature, constants, message):
        with pytest.raises(LaunchError) as error:
            from_signature(self.source, signature, constants)
        assert message in error.value.message


class TestTargets:
    def test_order_of_choice(self, monkeypatch):
        assert resolve(None).name == "edge"
        monkeypatch.setenv("DSA_TARGET", "center")
        assert resolve(None).name == "center"
        dsa.set_target("edge-server")
        try:
            assert resolve(None).name == "edge-server"
            with dsa.target("edge") as chosen:
                assert resolve(None) is chosen
                with dsa.target(dsa.Target.by_name("center")):
                    assert resolve(None).name == "center"
                assert resolve(None).name == "edge"
            assert resolve("center").name == "center"
        finally:
            dsa.set_target(None)
        assert resolve(None).name == "center"

    def test_files(self, tmp_path):
        from importlib import resources

        text = (resources.files("dsalang._backend") / "targets" / "edge.toml").read_text()
        path = tmp_path / "mine.toml"
        path.write_text(text.replace('name = "edge"', 'name = "mine"'))
        assert resolve(path).name == resolve(str(path)).name == "mine"

    @pytest.mark.parametrize("target", ["nope", "missing.toml", 3])
    def test_mistakes(self, target):
        with pytest.raises(TargetError):
            kernel.compile("*fp32, *fp32, i32, fp32", {"BLOCK": 8}, target=target)

    def test_unknown_target_in_the_environment(self, monkeypatch):
        monkeypatch.setenv("DSA_TARGET", "nope")
        with pytest.raises(UserError, match="unknown target 'nope'"):
            resolve(None)


def test_an_error_of_the_definition_has_few_frames_and_says_how_source_is_found():
    space: dict[str, object] = {"dsa": dsa}
    try:
        exec("@dsa.jit\ndef kernel(x):\n    pass\n", space)  # a text that no variable holds
    except dsa.CompileError as error:
        assert len(traceback.extract_tb(error.__traceback__)) <= 4
        assert "variable" in error.hint and "prompt" in error.hint
    else:
        raise AssertionError


@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_a_report_at_the_prompt_is_one_line(engine, monkeypatch):
    monkeypatch.setenv("DSA_EMULATOR", engine)
    text = repr(dsa.jit(kernel.fn)[1](X, out(), 8, BLOCK=8))
    assert text.startswith("<run of kernel on edge: ") and len(text) < 100


def test_interpreting_a_huge_grid_starts_at_once(monkeypatch):
    """The ids of all programs were listed first, which filled the memory and could not be interrupted."""

    class StopError(Exception):
        pass

    def stop(x):
        raise StopError

    with pytest.raises(StopError):
        dsa.jit(stop, interpret=True)[(2**31 - 1,)](X)


def test_a_script_with_a_report_can_be_interpreted():
    """`run.summary()` of an interpreted run was an AttributeError of None."""
    run = kernel[1](X, out(), 8, BLOCK=8)
    assert "kernel was interpreted" in run.summary() and len(repr(run)) < 80
    for name in ("cycles", "timeline", "image"):
        with pytest.raises(LaunchError, match=f"interpreted, which has no {name}") as caught:
            getattr(run, name)
        assert "DSA_INTERPRET" in caught.value.hint
    assert not hasattr(run, "nonsense")


@dsa.jit
def plain(x):
    pass


@dsa.autotune([dsa.Config({})], key=[])
@dsa.jit
def tuned(x):
    pass


@pytest.mark.parametrize("each", [plain, tuned], ids=["jit", "autotune"])
def test_kernels_are_pickled_and_copied_as_functions_are(each):
    assert pickle.loads(pickle.dumps(each)) is each
    assert copy.deepcopy(each) is each


def test_small_slips_around_a_launch():
    twice = dsa.jit(kernel.fn)
    with pytest.raises(LaunchError, match="signature=5 is not a signature"):
        twice.compile(5, {"BLOCK": 8})
    with pytest.raises(LaunchError, match="no engine 'XX'") as caught:
        twice[1](X, out(), 8, BLOCK=8).utilisation("XX")
    assert "LD, ST, MM, VE, CORE" in caught.value.hint
    with pytest.raises(LaunchError, match="no traffic of an array 'nope'") as caught:
        _ = twice[1](X, out(), 8, BLOCK=8).hbm["nope"]
    assert "arrays are x" in caught.value.hint
    tuned = dsa.autotune([dsa.Config({})], key=[])(twice)
    for start in (twice.run, twice.warmup, twice.profile, tuned.run, tuned.warmup, tuned.profile):
        with pytest.raises(LaunchError, match="needs a grid"):
            start(X, out(), 8, BLOCK=8)
    array = dsa.to_device(np.zeros((2, 3), np.float32))
    assert (array.size, array.ndim) == (6, 2)


@pytest.mark.parametrize("interpret", [False, True])
def test_a_grid_that_asks_for_an_unknown_name_is_shown(interpret):
    """It was a KeyError."""
    each = dsa.jit(kernel.fn, interpret=interpret)
    with pytest.raises(LaunchError) as caught:
        each[lambda meta: (meta["BLOK"],)](X, out(), 8, BLOCK=8)
    assert "did you mean 'BLOCK'? its arguments are x" in caught.value.hint
    assert str(caught.value).startswith(f"{__file__}:") and "^" in str(caught.value)


def test_a_grid_may_handle_its_own_key_errors():
    def grid(meta):
        try:
            return meta["NONE"]
        except KeyError:
            return meta.get("NONE", 3)

    assert grid_of(grid, {"n": 1}) == (3, 1, 1)
    with pytest.raises(KeyError):
        grid_of(lambda meta: {}["own"], {"n": 1})


@pytest.mark.parametrize("options", [{}, {"interpret": True}])
@pytest.mark.parametrize(
    ("what", "named"), [(dict, "the class dict"), (lambda x: x, "a lambda"), (3, "int 3")]
)
def test_what_jit_does_not_take(what, named, options):
    with pytest.raises(UserError, match=f"a function made with def, not {named}") as caught:
        dsa.jit(**options)(what)
    assert "with @dsa.jit above it" in caught.value.hint
