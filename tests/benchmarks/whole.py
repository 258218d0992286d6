"""Whole releases by the command, in memory and on Beam, beside the bare counting of the same file.

The log is the synthetic hospital of 250,000 cases in Parquet, case after case and in order of time;
polars and DuckDB count the same of it. A small one goes from XES to XES.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.benchmarks.harness import Work, in_turn, ratio
from tests.benchmarks.logs import N_EVENTS, in_order_of_time, sample, vocabulary

N_CASES = 250_000
DRIVERS = {"InMemory": "in memory", "FnApiRunner": "on Beam"}
# What a release should take, as a multiple of the bare counting, in memory.
GOALS = {"private-dfg": 2, "process-tree": 3, "amun": 4, "private-log": 4}
_BEAM = Work("import apache_beam", ("-c", "import apache_beam"))


def counted(name: str, log: Path, n_cases: int) -> Work:
    """Returns a way of counting, see `work`."""
    arguments = ("-m", "tests.benchmarks.work", name, str(log))
    return Work(name, arguments, N_EVENTS[n_cases], says_seconds=True)


def release(
    name: str, method: str, runner: str, log: Path, n_cases: int, *flags: str, form: str = "parquet"
) -> Work:
    """Returns a release by the command, from a file to a folder."""
    return Work(
        name,
        (
            "-m", "tracecloak", "release", "--log", str(log), "--output", "{fresh}/out",
            "--key_store", "{fresh}/keys", "--new_ledger", "--formats", form,
            "--release_id", "bench", "--runner", runner, "--method", method, *flags,
        ),
        N_EVENTS[n_cases],
    )  # fmt: skip


def flags_of(method: str, activities: Path) -> tuple[str, ...]:
    """Returns the flags of a method in these benchmarks."""
    if method == "amun":
        return "--guessing_advantage", "0.2"
    rigorous = ("--epsilon", "1", "--vocabulary", str(activities))
    return (*rigorous, "--max_trace_length", "30") if method == "private-log" else rigorous


def main() -> None:
    """Prints the measurements and their ratios."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        activities = vocabulary(folder)
        _large(folder, activities)
        _ordered(folder, activities)
        _small(folder, activities)


def _large(folder: Path, activities: Path) -> None:
    log = sample(folder, N_CASES)
    bare = counted("bare kernels", log, N_CASES)
    others = [counted(name, log, N_CASES) for name in ("polars", "DuckDB")]
    releases = {
        (method, runner): release(
            f"{method} {words}", method, runner, log, N_CASES, *flags_of(method, activities)
        )
        for method in GOALS
        for runner, words in DRIVERS.items()
    }
    runs = in_turn([bare, *others, *releases.values()])
    for other in others:
        for what in ("cases", "variants", "pair_occurrences"):
            if runs[other.name].counts[what] != runs[bare.name].counts[what]:
                raise SystemExit(f"{other.name} counted other {what} than the bare kernels")
        ratio(f"bare kernels / {other.name}", runs[bare.name].over(runs[other.name]))
    for (method, runner), work in releases.items():
        goal = GOALS[method] if runner == "InMemory" else None
        ratio(f"{work.name} / bare kernels", runs[work.name].over(runs[bare.name]), goal)


def _ordered(folder: Path, activities: Path) -> None:
    """By case and by time, and a tenth of the cases."""
    by_case = sample(folder, N_CASES)
    logs = {
        "by case": (by_case, N_CASES),
        "by time": (in_order_of_time(by_case), N_CASES),
        "a tenth": (sample(folder, N_CASES // 10), N_CASES // 10),
    }
    for method in ("private-dfg", "amun"):
        works = {
            what: release(
                f"{method} in memory, {what}", method, "InMemory", log, n_cases,
                *flags_of(method, activities),
            )
            for what, (log, n_cases) in logs.items()
        }  # fmt: skip
        runs = in_turn(list(works.values()))
        whole = runs[works["by case"].name]
        by_time = runs[works["by time"].name]
        ratio(f"{method} in memory, events by time / by case", by_time.over(whole), 2)
        ratio(f"{method} in memory, 10 x the cases", whole.over(runs[works["a tenth"].name]), 10)


def _small(folder: Path, activities: Path) -> None:
    n_cases = 1_000
    log = sample(folder, n_cases, "xes")
    works = {
        (method, runner): release(
            f"{method} of {n_cases:,} cases, XES to XES, {words}", method, runner, log, n_cases,
            *flags_of(method, activities), form="xes",
        )
        for method in ("amun", "private-log")
        for runner, words in DRIVERS.items()
    }  # fmt: skip
    runs = in_turn([_BEAM, *works.values()])
    for work in works.values():
        ratio(f"{work.name} / import apache_beam", runs[work.name].over(runs[_BEAM.name]))


if __name__ == "__main__":
    main()
