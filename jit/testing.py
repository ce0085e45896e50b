"""Measuring and comparing: `do_bench`, `assert_close`, `perf_report`. Times are those of the emulated machine."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from .clock import launches


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Any = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Milliseconds that the kernels which `fn` launches take on the emulated machine.

    They take the same time whenever they are launched, so `fn` is called once. A function that launches no
    kernel is measured on this host, for about `rep` milliseconds.

    Returns:
        A float; a list with one per quantile if quantiles are given, or of all times with return_mode "all".
    """
    with launches() as reports:
        begin = time.perf_counter()
        fn()
        first = (time.perf_counter() - begin) * 1e3
    if reports:
        times = [sum(report.microseconds for report in reports) / 1e3]
    else:
        times = [first]
        end = time.perf_counter() + rep / 1e3
        while time.perf_counter() < end:
            begin = time.perf_counter()
            fn()
            times.append((time.perf_counter() - begin) * 1e3)
        times = times[1:] or times
    if grad_to_none is not None:
        for tensor in grad_to_none:
            tensor.grad = None
    if quantiles is not None:
        found = [float(q) for q in np.quantile(times, list(quantiles))]
        return found[0] if len(found) == 1 else found
    if return_mode == "all":
        return times
    if return_mode not in ("mean", "median", "min", "max"):
        raise ValueError(f"return_mode is mean, median, min, max or all, not {return_mode!r}")
    return float(getattr(np, return_mode)(times))


def do_bench_cudagraph(fn: Callable[[], Any], *args: Any, **kwargs: Any) -> Any:
    """The same as `do_bench`."""
    return do_bench(fn, *args, **kwargs)


def _plain(value: Any) -> np.ndarray[Any, Any]:
    if hasattr(value, "detach"):  # a torch tensor
        value = value.detach().cpu()
        return np.asarray((value.double() if value.is_floating_point() else value).numpy())
    array = np.asarray(value)
    return array.astype(np.float64) if array.dtype.kind in "fV" else array


def assert_close(
    x: Any, y: Any, atol: float | None = None, rtol: float | None = None, err_msg: str = ""
) -> None:
    """Raise AssertionError unless all elements are close; NaN equals NaN."""
    atol, rtol = 1e-2 if atol is None else atol, 0.0 if rtol is None else rtol
    a, b = _plain(x), _plain(y)
    if a.size > 1 or b.size > 1:
        np.testing.assert_allclose(a, b, atol=atol, rtol=rtol, equal_nan=True, err_msg=err_msg)
    elif not np.allclose(a, b, atol=atol, rtol=rtol, equal_nan=True):
        raise AssertionError(f"{err_msg} {x} is not close to {y} (atol={atol}, rtol={rtol})")


class Benchmark:
    """What `perf_report` varies: `x_names` take each of `x_vals`, `line_arg` each of `line_vals`."""

    def __init__(
        self,
        x_names: Sequence[str],
        x_vals: Sequence[Any],
        line_arg: str,
        line_vals: Sequence[Any],
        line_names: Sequence[str],
        plot_name: str,
        args: dict[str, Any],
        xlabel: str = "",
        ylabel: str = "",
        x_log: bool = False,
        y_log: bool = False,
        color: Any = None,
        styles: Sequence[tuple[str, str]] | None = None,
    ) -> None:
        self.x_names, self.x_vals = list(x_names), list(x_vals)
        self.line_arg, self.line_vals, self.line_names = line_arg, list(line_vals), list(line_names)
        self.plot_name, self.args = plot_name, dict(args)
        self.xlabel, self.ylabel, self.x_log, self.y_log = xlabel, ylabel, x_log, y_log
        self.styles = styles


class Mark:
    """A benchmarked function: `run()` calls it for all combinations."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Benchmark | Sequence[Benchmark]) -> None:
        self.fn = fn
        self.benchmarks = benchmarks

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str = "",
        return_df: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Measure; print a table, write CSV files (and plots where matplotlib is installed).

        Returns:
            With `return_df` a pandas DataFrame per benchmark, a dict of columns where pandas is missing.
        """
        single = isinstance(self.benchmarks, Benchmark)
        benchmarks = (
            [self.benchmarks] if isinstance(self.benchmarks, Benchmark) else self.benchmarks
        )
        tables = []
        for benchmark in benchmarks:
            table = self._table(benchmark, kwargs)
            tables.append(table)
            if print_data:
                print(f"{benchmark.plot_name}:\n{_text(table)}")
            if save_path:
                Path(save_path).mkdir(parents=True, exist_ok=True)
                _write_csv(table, Path(save_path) / f"{benchmark.plot_name}.csv")
            if show_plots or save_path:
                _plot(benchmark, table, show_plots, save_path)
        if not return_df:
            return None
        frames = [_frame(table) for table in tables]
        return frames[0] if single else frames

    def _table(self, benchmark: Benchmark, kwargs: dict[str, Any]) -> dict[str, list[Any]]:
        unit = f" ({benchmark.ylabel})" if benchmark.ylabel else ""
        columns = [*benchmark.x_names, *(name + unit for name in benchmark.line_names)]
        table: dict[str, list[Any]] = {name: [] for name in columns}
        for x in benchmark.x_vals:
            points = x if isinstance(x, (list, tuple)) else [x] * len(benchmark.x_names)
            given = dict(zip(benchmark.x_names, points))
            row: list[Any] = list(points)
            for line in benchmark.line_vals:
                result = self.fn(**given, **{benchmark.line_arg: line}, **benchmark.args, **kwargs)
                row.append(result[0] if isinstance(result, (tuple, list)) else result)
            for name, value in zip(columns, row):
                table[name].append(value)
        return table


def perf_report(
    benchmarks: Benchmark | Sequence[Benchmark],
) -> Callable[[Callable[..., Any]], Mark]:
    """Mark a function that measures: it is called with one value per name of its benchmark."""
    return lambda fn: Mark(fn, benchmarks)


def _text(table: dict[str, list[Any]]) -> str:
    rows = [list(table), *([_shown(v) for v in row] for row in zip(*table.values()))]
    widths = [max(len(row[k]) for row in rows) for k in range(len(table))]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(row, widths)) for row in rows)


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _write_csv(table: dict[str, list[Any]], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values()))


def _frame(table: dict[str, list[Any]]) -> Any:
    try:
        pandas = import_module("pandas")
    except ImportError:
        return table
    return pandas.DataFrame(table)


def _plot(benchmark: Benchmark, table: dict[str, list[Any]], show: bool, folder: str) -> None:
    try:
        plt = import_module("matplotlib.pyplot")
    except ImportError:
        return
    figure, axes = plt.subplots()
    names = list(table)
    for name in names[len(benchmark.x_names) :]:
        axes.plot(table[names[0]], table[name], label=name)
    axes.legend()
    axes.set_xlabel(benchmark.xlabel or names[0])
    axes.set_ylabel(benchmark.ylabel)
    axes.set_xscale("log" if benchmark.x_log else "linear")
    axes.set_yscale("log" if benchmark.y_log else "linear")
    if folder:
        figure.savefig(Path(folder) / f"{benchmark.plot_name}.png")
    if show:
        plt.show()
    plt.close(figure)
