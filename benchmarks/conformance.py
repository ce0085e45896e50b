"""Triton's own language tests through dsalang: `python benchmarks/conformance.py CHECKOUT [--every N] [--check]`.

CHECKOUT is a checkout of Triton's repository, whose tests run as they are: test_core, test_standard, test_random, test_tuple
and test_tensor_descriptor, the cases marked for the interpreter, on CPU tensors. They need torch and scipy; with
a triton package beside them (`--packages FOLDER`) its interpreter runs the same cases for comparison.

Three runs, one after the other, with the same number of processes: with an empty cache, with what the first one left in
it, and Triton's interpreter. Outcomes are kept in `--results`; `--report` makes the page of those that are there. `--check` fails when
less than 95 % pass, a failure has no reason in `conformance_reasons.py`, or the interpreter takes less processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from conformance_reasons import reason_of

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "conformance.md"
FILES = ("test_core", "test_standard", "test_random", "test_tuple", "test_tensor_descriptor")
OWN = ("test_block_pointer",)
"""Of a checkout that still has it; Triton has no block pointers since 3.9."""
LEAST = 0.95
RUNS = {
    "first": "dsalang, empty cache",
    "second": "dsalang, second run",
    "peer": "Triton's interpreter",
}


@dataclass(frozen=True)
class Case:
    """What became of a case; `cpu` is the processor time of its call in seconds."""

    file: str
    function: str
    name: str
    outcome: str
    cpu: float


def main() -> int:
    """Run the tests, write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--every", type=int, default=1, help="about one case of so many")
    parser.add_argument("-n", type=int, default=2, help="processes")
    parser.add_argument("--packages", type=Path, help="a folder with torch, scipy and triton")
    parser.add_argument("--results", type=Path, default=Path(tempfile.gettempdir()) / "conformance")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    if not options.report:
        run_all(options)
    found = {name: read(options.results / f"{name}.jsonl") for name in RUNS}
    PAGE.write_text(page(found, options))
    problems = check(found)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems and options.check else 0


def run_all(options: argparse.Namespace) -> None:
    """All runs, each in processes of its own."""
    with tempfile.TemporaryDirectory() as cache:
        for name in RUNS:
            print(f"{RUNS[name]} ...", flush=True)
            run(name, options, cache)


def run(name: str, options: argparse.Namespace, cache: str) -> None:
    """One run; its outcomes go to `--results`."""
    folder = options.checkout.resolve() / "python/test/unit"
    paths = [HERE, HERE.parent, *([options.packages.resolve()] if options.packages else [])]
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "1",  # so that the tests choose what they choose for the interpreter
        "DSA_CACHE_DIR": cache,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }
    files = FILES if name == "peer" else (*FILES, *OWN)
    present = [f"language/{file}.py" for file in files if (folder / f"language/{file}.py").exists()]
    arguments = [
        "-p", "conformance_plugin", "--triton", options.checkout.resolve(), "--every", options.every,
        "--through", "triton" if name == "peer" else "dsalang",
        "--record", (options.results / f"{name}.jsonl").resolve(),
        "-c", options.checkout.resolve() / "pytest.ini", "-p", "no:cacheprovider", "--device=cpu",
        "-m", "interpreter", "-q", "--tb=no", "-n", options.n, *present,
    ]  # fmt: skip
    command = [sys.executable, "-m", "pytest", *map(str, arguments)]
    subprocess.run(command, cwd=folder, env=environment, check=False, stdout=subprocess.DEVNULL)


def read(path: Path) -> list[Case]:
    """The outcomes of a run; none when it was not made. A case with an error in its set-up counts once."""
    if not path.exists():
        return []
    found: dict[str, Case] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        path, _, name = row["case"].partition("::")
        function = name.partition("[")[0]
        file = path.rpartition("/")[2]
        found[row["case"]] = Case(file, function, name, row["outcome"], row["cpu"])
    return list(found.values())


def check(found: dict[str, list[Case]]) -> list[str]:
    """What does not hold of what has to."""
    cases = found["first"]
    ran = [case for case in cases if case.outcome != "skipped"]
    passed = sum(case.outcome == "passed" for case in ran)
    problems = [
        f"{case.name}: no reason in conformance_reasons.py"
        for case in ran
        if case.outcome == "failed" and not reason_of(case.name)
    ]
    if passed < LEAST * len(ran):
        problems.append(f"{passed} of {len(ran)} cases pass, less than {LEAST:.0%}")
    theirs = {(case.file, case.name): case.cpu for case in found["peer"]}
    common = [case for case in cases if (case.file, case.name) in theirs]
    if seconds(common) > sum(theirs[case.file, case.name] for case in common):
        problems.append("Triton's interpreter takes less processor time")
    return problems


def seconds(cases: Iterable[Case]) -> float:
    """Processor time of all cases."""
    return sum(case.cpu for case in cases)


def page(found: dict[str, list[Case]], options: argparse.Namespace) -> str:
    """The text of docs/conformance.md."""
    cases = found["first"]
    counts = Counter(case.outcome for case in cases)
    ran = counts["passed"] + counts["failed"]
    sample = "" if options.every == 1 else f" (every function, about one case of {options.every})"
    return "\n".join(
        [
            "# Triton's own language tests through dsalang",
            "",
            "Made by `python benchmarks/conformance.py CHECKOUT --packages FOLDER"
            f"{f' --every {options.every}' if options.every > 1 else ''} -n {options.n}`; do not edit.",
            "",
            f"Tests: {commit_of(options.checkout)}, unmodified,",
            f"the cases marked for the interpreter{sample}. What they skip under `TRITON_INTERPRET=1` on CPU tensors is",
            "skipped here, too. `compat.install()` stands in for triton; of Triton's own helpers for tests",
            "`_internal_testing` and `tools.mxfp` are loaded from the same checkout.",
            "",
            f"**{counts['passed']} of {ran} cases pass ({counts['passed'] / max(ran, 1):.1%}); {counts['skipped']} are skipped.**",
            "",
            *times(found),
            "",
            "## Failures",
            "",
            *failures(cases),
            "",
            "## By family",
            "",
            *families(cases),
            "",
        ]
    )


def commit_of(checkout: Path) -> str:
    """The commit of a checkout, also of one that was unpacked beside a file `COMMIT`."""
    note = checkout / "COMMIT"
    if note.exists():
        return note.read_text().strip()
    command = ["git", "-C", str(checkout), "log", "-1", "--format=triton-lang/triton %H of %as"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def times(found: dict[str, list[Case]]) -> list[str]:
    """The table of processor times, each beside the interpreter's for the same cases; missing runs are left out."""
    peer = {(case.file, case.name): case.cpu for case in found["peer"]}
    rows = []
    for name, label in RUNS.items():
        common = [case for case in found[name] if (case.file, case.name) in peer]
        if common and name != "peer":
            theirs = sum(peer[case.file, case.name] for case in common)
            rows.append(
                f"| {label} | {len(common)} | {seconds(common):.1f} s | {theirs:.1f} s "
                f"| {seconds(common) / theirs:.2f} |"
            )
    return [
        "Processor time of the cases (Triton's interpreter passes "
        f"{sum(case.outcome == 'passed' for case in found['peer'])} of the same selection):",
        "",
        "| run | cases | dsalang | Triton's interpreter | ratio |",
        "| --- | --- | --- | --- | --- |",
        *rows,
    ]


def failures(cases: list[Case]) -> list[str]:
    """The table of failing families with their reasons."""
    rows: dict[tuple[str, str], int] = Counter(
        (f"`{case.file}::{case.function}`", reason_of(case.name) or "**no reason known**")
        for case in cases
        if case.outcome == "failed"
    )
    return [
        "| family | cases | why |",
        "| --- | --- | --- |",
        *(f"| {family} | {count} | {reason} |" for (family, reason), count in sorted(rows.items())),
    ]


def families(cases: list[Case]) -> list[str]:
    """The table of all families."""
    groups: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.file, case.function].append(case)

    def count(group: list[Case], what: str) -> int:
        return sum(case.outcome == what for case in group)

    rows = [
        f"| {file} | {function} | {count(group, 'passed')} | {count(group, 'failed')} | {count(group, 'skipped')} |"
        for (file, function), group in sorted(groups.items())
    ]
    return [
        "| file | function | passed | failed | skipped |",
        "| --- | --- | --- | --- | --- |",
        *rows,
    ]


if __name__ == "__main__":
    sys.exit(main())
