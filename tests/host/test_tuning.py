"""autotune, heuristics, testing: what is chosen, when, and what is left behind."""

from __future__ import annotations

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang import testing
from dsalang._backend.errors import LaunchError

N = 3000


def kernel(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr = False):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = at < n
    tl.store(out + at, tl.load(x + at, mask=keep) + 1.0 + EVEN, mask=keep)


def accumulate(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0)
    tl.atomic_add(out + tl.arange(0, 1), total)


def skipping(x, out, n, BLOCK: tl.constexpr):
    """How often it loops depends on data."""
    count = tl.load(x).to(tl.int32)
    total = 0.0
    for i in range(count):
        total += tl.load(x + i)
    tl.store(out, total + BLOCK * 0)


CONFIGS = [dsa.Config({"BLOCK": b}) for b in (16, 512, 2048)]


def grid(meta):
    return (tl.cdiv(meta["n"], meta["BLOCK"]),)


def arrays():
    return np.arange(N, dtype=np.float32), np.zeros(N, np.float32)


def test_the_fastest_is_chosen_and_kept():
    tuned = dsa.autotune(CONFIGS, key=["n"])(dsa.jit(kernel))
    x, out = arrays()
    report = tuned[grid](x, out, N)
    np.testing.assert_array_equal(out, x + 1)
    cycles = {b: dsa.jit(kernel)[grid](x, out, n=N, BLOCK=b).cycles for b in (16, 512, 2048)}
    assert {c.kwargs["BLOCK"]: t for c, t in tuned.configs_timings.items()} == cycles
    best = min(cycles, key=cycles.get)
    assert tuned.best_config.kwargs == {"BLOCK": best} and report.cycles == cycles[best]
    tuned.configs_timings = {}
    tuned[grid](x, out, N)
    assert tuned.configs_timings == {} and len(tuned.cache) == 1
    tuned[grid](x, out, 40)
    assert len(tuned.cache) == 2
    tuned[grid](x.astype(np.float16), out, 40)  # another type is another key
    assert len(tuned.cache) == 3


def test_trials_leave_arrays_as_they_were():
    tuned = dsa.autotune(CONFIGS, key=["n"], reset_to_zero=["out"])(dsa.jit(accumulate))
    x, out = np.ones(N, np.float32), np.full(1, 5.0, np.float32)
    tuned[grid](x, out, N)
    assert out[0] == N + 5


def test_what_depends_on_data_is_measured():
    tuned = dsa.autotune([dsa.Config({"BLOCK": b}) for b in (1, 2)], key=["n"])(dsa.jit(skipping))
    x, out = np.full(9, 3.0, np.float32), np.zeros(1, np.float32)
    tuned[(1,)](x, out, 9)
    assert out[0] == 9 and all(0 < t < 1e9 for t in tuned.configs_timings.values())


def test_pruning_and_hooks():
    seen = []

    def early(configs, named_args, **kwargs):
        seen.append(("early", named_args["n"]))
        return configs[1:]

    def model(BLOCK, n, **rest):
        return -BLOCK

    hooked = [
        dsa.Config({"BLOCK": b}, pre_hook=lambda args: seen.append(("config", args["BLOCK"])))
        for b in (16, 512, 2048)
    ]
    tuned = dsa.autotune(
        hooked, key=["n"], prune_configs_by={"early_config_prune": early, "perf_model": model, "top_k": 2},
        pre_hook=lambda args: seen.append(("pre", args["BLOCK"])),
        post_hook=lambda args, exception: seen.append(("post", args["BLOCK"], exception)),
    )(dsa.jit(kernel))  # fmt: skip
    x, out = arrays()
    tuned[grid](x, out, N)
    best = tuned.best_config.kwargs["BLOCK"]
    trials = [(("config", b), ("pre", b), ("post", b, None)) for b in (2048, 512)]
    assert seen == [("early", N), *trials[0], *trials[1], ("config", best)]


def test_configurations_that_do_not_compile_lose():
    tuned = dsa.autotune([dsa.Config({"BLOCK": 1 << 26}), CONFIGS[1]], key=["n"])(dsa.jit(kernel))
    x, out = arrays()
    tuned[grid](x, out, N)
    assert tuned.best_config == CONFIGS[1] and float("inf") in tuned.configs_timings.values()
    hopeless = dsa.autotune([dsa.Config({"BLOCK": 1 << k}) for k in (26, 27)], key=[])(
        dsa.jit(kernel)
    )
    with pytest.raises(dsa.SramOverflowError):
        hopeless[grid](x, out, N)


def test_heuristics():
    @dsa.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
    @dsa.jit
    def even(x, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n) + EVEN, mask=at < n)

    x, out = arrays()
    even[grid](x, out, N, BLOCK=500)
    np.testing.assert_array_equal(out, x + 1)
    even[grid](x, out, N, BLOCK=512)
    np.testing.assert_array_equal(out, x)
    tuned = dsa.autotune(CONFIGS, key=["n"])(
        dsa.heuristics({"EVEN": lambda args: args["BLOCK"] > 0})(dsa.jit(kernel))
    )
    tuned[grid](x, out, N)
    np.testing.assert_array_equal(out, x + 2)


def test_mistakes():
    with pytest.raises(dsa.LaunchError, match="takes a kernel"):
        dsa.autotune(CONFIGS, key=[])(kernel)
    with pytest.raises(dsa.LaunchError, match=r"takes configurations, not dict \{'BLOCK': 16\}"):
        dsa.autotune([{"BLOCK": 16}], key=[])(dsa.jit(kernel))
    x, out = arrays()
    with pytest.raises(dsa.LaunchError, match="BLOCK of kernel is given"):
        dsa.autotune(CONFIGS, key=[])(dsa.jit(kernel))[grid](x, out, N, BLOCK=16)


def test_do_bench_gives_emulated_time():
    x, out = arrays()
    launch = lambda: dsa.jit(kernel)[grid](x, out, n=N, BLOCK=512)  # noqa: E731
    report = launch()
    assert testing.do_bench(launch) == pytest.approx(report.microseconds / 1e3)
    assert testing.do_bench(lambda: (launch(), launch())) == pytest.approx(
        report.microseconds / 500
    )
    assert testing.do_bench(launch, quantiles=[0.5, 0.2, 0.8]) == [report.microseconds / 1e3] * 3
    assert testing.do_bench(lambda: None, rep=1) > 0  # on the host


def test_assert_close():
    testing.assert_close(np.float32([1, np.nan]), np.float32([1.005, np.nan]))
    with pytest.raises(AssertionError):
        testing.assert_close(np.float32([1, 2]), np.float32([1, 2.5]))
    with pytest.raises(AssertionError):
        testing.assert_close(1.0, 2.0)


def test_perf_report(tmp_path, capsys):
    @testing.perf_report(
        testing.Benchmark(
            ["n"], [1, 2], "way", ["a", "b"], ["A", "B"], "plot", {"factor": 10}, ylabel="ms"
        )
    )
    def measure(n, way, factor):
        return n * factor if way == "a" else (n, 0, 0)

    measure.run(print_data=True, save_path=str(tmp_path))
    assert (tmp_path / "plot.csv").read_text().splitlines() == [
        "n,A (ms),B (ms)",
        "1,10,1",
        "2,20,2",
    ]
    assert "plot:" in capsys.readouterr().out
    assert list(measure.run(return_df=True)["A (ms)"]) == [10, 20]


def test_measured_trials_leave_arrays_as_they_were():
    @dsa.jit
    def counting(x, out, n, BLOCK: tl.constexpr):
        for _i in range(tl.load(x).to(tl.int32)):
            tl.atomic_add(out, 1.0)

    tuned = dsa.autotune([dsa.Config({"BLOCK": b}) for b in (1, 2)], key=["n"])(counting)
    x, out = np.full(1, 3.0, np.float32), np.zeros(1, np.float32)
    tuned[(1,)](x, out, 9)
    assert out[0] == 3


def test_do_bench_counts_bound_launches_and_those_on_streams():
    """A launch on a stream was an AttributeError, a bound one was measured as time of the host."""

    @dsa.jit
    def clear(x):
        dsa.store(x, 0.0)

    x = np.zeros(4, np.float32)
    expected = clear[(3,)](x).microseconds / 1e3
    bound = clear[(3,)].bind(x)
    assert dsa.testing.do_bench(bound) == expected
    with dsa.Device() as device:
        stream = dsa.Stream(device)
        assert dsa.testing.do_bench(lambda: clear[(3,)](x, stream=stream)) == expected


def test_a_tuner_without_configurations_launches_the_kernel_as_it_is():
    tuned = dsa.autotune([], key=["n"])(dsa.jit(kernel))
    x, out = np.ones(N, np.float32), np.zeros(N, np.float32)
    tuned[grid](x, out, N, BLOCK=64)
    with pytest.raises(dsa.LaunchError, match="misses constexpr argument 'BLOCK'"):
        tuned[(1,)](x, out, N)


def test_keys_that_are_no_parameters_are_ignored():
    tuned = dsa.autotune(CONFIGS, key=["n", "HEADS"])(dsa.jit(kernel))
    x, out = np.ones(N, np.float32), np.zeros(N, np.float32)
    tuned[grid](x, out, N)
    assert tuned.best_config in CONFIGS


@pytest.mark.parametrize("option", ["reset_to_zero", "restore_value"])
def test_names_that_are_no_parameters_are_refused(option):
    with pytest.raises(
        dsa.LaunchError, match=f"{option} of autotune names 'm'.*\n.*x, out, n, BLOCK"
    ):
        dsa.autotune(CONFIGS, **{"key": ["n"], option: ["m"]})(dsa.jit(kernel))


def test_lists_of_names():
    with pytest.raises(LaunchError, match="reset_to_zero of autotune is a list of names"):
        dsa.autotune(CONFIGS, ["n"], reset_to_zero="out")(dsa.jit(kernel))
    old = dsa.autotune(CONFIGS[:1], ["n"], None, ["out"], 25, 100)(
        dsa.jit(kernel)
    )  # Triton 2's order
    x, out = arrays()
    old[grid](x, out, N)
    np.testing.assert_array_equal(out, x + 1)


def test_launches_made_before_follow_the_tuners_cache():
    tuned = dsa.autotune(CONFIGS, key=["n"])(dsa.jit(kernel))
    x, out = np.ones(N, np.float32), np.zeros(N, np.float32)
    for _ in range(2):
        tuned[grid](x, out, N)
    (key,) = tuned.cache
    other = next(config for config in CONFIGS if config is not tuned.best_config)
    tuned.cache[key] = other
    for _ in range(2):
        tuned[grid](x, out, N)
        assert tuned.best_config is other
    tuned.cache.clear()
    tuned[grid](x, out, N)
    assert tuned.best_config is not other


def test_a_tuned_kernel_with_a_grid_compiles_and_profiles():
    tuned = dsa.autotune(CONFIGS, key=["n"])(dsa.jit(kernel))
    x, out = arrays()
    profile = tuned[grid].profile(x, out, N, show=False)
    np.testing.assert_array_equal(out, x + 1)
    block = tuned.best_config.kwargs["BLOCK"]
    assert profile.run.cycles == dsa.jit(kernel)[grid](x, out, N, BLOCK=block).cycles
    plain = dsa.jit(kernel)[grid].profile(x, out, N, BLOCK=block, show=False)
    assert plain.text == profile.text
    made = tuned[grid].warmup(x, out, N)
    assert repr(made) == (
        f"<compiled kernel kernel(x: *fp32, out: *fp32, n: int32) for edge, BLOCK={block}, EVEN=False>"
    )


class OwnTuner(dsa.runtime.Autotuner):
    """A tuner as libraries derive one: a search and a cache of its own, with what the base class offers."""

    def run(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args))
        times = {
            config: self._bench(*args, config=config, **kwargs)
            for config in self.prune_configs(kwargs)
        }
        self.best_config = min(times, key=times.get)
        self.configs_timings = times
        whole = {**self.nargs, **kwargs, **self.best_config.all_kwargs()}
        self.pre_hook(whole, reset_only=True)
        self.nargs = None
        return self.fn.run(*args, **kwargs, **self.best_config.all_kwargs())


@dsa.jit
def add_up(x, out, n, BLOCK: dsa.constexpr):
    at = dsa.program_id(0) * BLOCK + dsa.arange(0, BLOCK)
    total = dsa.sum(dsa.load(x + at, mask=at < n), 0)
    dsa.atomic_add(out, total)


def test_a_derived_tuner():
    x, out = np.ones(1024, np.float32), np.full(1, 7, np.float32)
    configs = [dsa.Config({"BLOCK": block}) for block in (16, 256, 1 << 24)]
    tuner = OwnTuner(
        add_up, add_up.arg_names, configs, ["n"], ["out"], None,
        prune_configs_by={"early_config_prune": lambda configs, named, **rest: configs[: named["n"]]},
    )  # fmt: skip
    report = tuner[lambda meta: (dsa.cdiv(1024, meta["BLOCK"]),)](x, out, 1024)
    assert report.cycles > 0 and out[0] == 1024
    assert tuner.best_config.kwargs == {"BLOCK": 256}
    times = list(tuner.configs_timings.values())
    assert times[1][0] < times[0][0] and times[2] == [float("inf")] * 3
    assert tuner.base_fn.__name__ == "add_up"
    plain = dsa.autotune(configs[:2], key=["n"])(add_up)
    plain.run(x, out, 1024, grid=(64,), warmup=False)  # as Triton's launchers call it
    assert plain.run(x, out, 1024, grid=(64,), warmup=True).image.name == "add_up"


@pytest.mark.parametrize("interpret", ["0", "1"])
def test_what_a_launch_gives_can_be_launched_again(interpret, monkeypatch):
    """In Triton it is the compiled kernel, which libraries keep."""
    monkeypatch.setenv("DSA_INTERPRET", interpret)
    x, out = np.ones(64, np.float32), np.zeros(1, np.float32)
    report = add_up[(4,)](x, out, 64, BLOCK=16)
    report[(2,)](x, out, 64, 16)
    assert out[0] == 64 + 32
    if interpret == "0":
        assert report.kernel.image is report.image
        assert report.shared == report.image.sram_bytes
        assert report.metadata["constants"]["BLOCK"] == 16 and "riscv" in report.asm
        with pytest.raises(AttributeError, match="a run has no 'nope'"):
            _ = report.nope
