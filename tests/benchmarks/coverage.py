"""How often intervals hold what the log has, by grade: `python -m tests.benchmarks.coverage FILE`.

Every log of TRACECLOAK_LOGS is released whole and as samples of 150 and 500 cases, at epsilon 1 and
delta 1e-6, its activities as a public vocabulary. FILE gets a line of JSON for each release, with
how many numbers of each kind and grade it has, and how many of their intervals hold the truth; what
is in it already is not measured again. Then the table is printed, pooled over all logs. Intervals
of one release are not independent, so what is uncertain is told by a bootstrap over keys. For the
operator of these logs, who has them: nothing of it is private.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.keys import release_key
from tests.support.real_logs import LOGS, each_event_once, sample_of
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.evaluation.indicators import judged_rows
from tracecloak.schemas.errors import TracecloakError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import Figure, ReleasedFigures, grades
from tracecloak.schemas.published.variants import LogCounts, count_released
from tracecloak.transforms.publish.products import products_of_log

METHOD_NAMES = ("auto-variants", "private-log", "private-dfg", "private-indicators")
SIZES = (150, 500, None)
GRADED = ("good", "rough")
LEAST = 0.93
_DAY_US = 86_400_000_000
_SECOND_US = 1_000_000
_ALWAYS = (0, 1 << 62)
_BOUNDS_S = tuple(3600 * h for h in (1, 6, 24, 168, 720, 2160, 8760, 87_600, 876_000))
_RESAMPLES = 1000

Judged = tuple[str, str, bool]
"""What a number is of, its grade, and whether its interval holds the truth."""


class Truths:
    """What a log has of all that is released of it."""

    def __init__(self, traces: TraceBatch) -> None:
        """Counts the log once."""
        self.traces = traces
        self.counts = counted(traces)
        labels = traces.vocabulary.labels
        self.numbers: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.numbers["cases", ()], self.numbers["events", ()] = traces.n_cases, traces.n_events
        graph = self.counts.graph
        for source, target, n in zip(graph.sources, graph.targets, graph.counts, strict=True):
            self.numbers["path", (labels[source], labels[target])] = int(n)
        for code in traces.activities.tolist():
            self.numbers["activity", (labels[code],)] += 1
        variants = self.counts.variants
        ends = variants.offsets.tolist()
        for i, n in enumerate(variants.counts.tolist()):
            words = (labels[code] for code in variants.codes[ends[i] : ends[i + 1]])
            self.numbers["variant", (" → ".join(words),)] = n
        self.spans = self.spans_within(*_ALWAYS)
        is_inner = np.ones(traces.n_events, bool)
        is_inner[traces.offsets[:-1]] = False
        later = np.flatnonzero(is_inner)
        steps = (traces.activities[later - 1], traces.activities[later])
        rows: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for a, b, row in zip(*(column.tolist() for column in (*steps, later)), strict=True):
            rows[labels[a], labels[b]].append(row)
        self.steps = {of: np.array(few) for of, few in rows.items()}

    def waits_within(self, of: tuple[str, ...], first_us: int, last_us: int) -> np.ndarray | None:
        """Returns int64[n], ascending: the times of a pair's steps, cut likewise."""
        if of not in self.steps:
            return None
        ends = self.traces.times[self.steps[of] - 1], self.traces.times[self.steps[of]]
        first, last = (np.clip(times, first_us, last_us) for times in ends)
        return np.sort(last - first)

    def spans_within(self, first_us: int, last_us: int) -> np.ndarray:
        """Returns int64[n_cases], ascending: how long cases take, cut at both ends of a range."""
        ends = self.traces.starts, self.traces.times[self.traces.offsets[1:] - 1]
        first, last = (np.clip(of, first_us, last_us) for of in ends)
        return np.sort(last - first)

    def of(self, figure: Figure, all_of: Iterable[Figure]) -> float | None:
        """Returns the log's number of a figure, cut as it says of itself; None: it has none."""
        dates = [[_day(date) for date in one.of] for one in all_of if one.name == "starts"]
        within = (min(dates)[0] * _DAY_US, (max(dates)[1] + 1) * _DAY_US) if dates else _ALWAYS
        match figure.name:
            case "mean_duration_us" | "median_duration_us" | "quantile_duration_us":
                spans = self.spans_within(*within) if dates else self.spans
                if figure.name == "mean_duration_us":
                    return float(spans.mean())
                return _quantile(spans, float(figure.of[0]) if figure.of else 0.5)
            case "median_time_us" | "mean_wait_us":
                gaps = self.waits_within(figure.of, *within)
                if gaps is None:
                    return None
                is_mean = figure.name == "mean_wait_us"
                return float(gaps.mean()) if is_mean else _quantile(gaps, 0.5)
            case "starts":
                first, last = (_day(date) for date in figure.of)
                # The first and the last period have what lies outside, too.
                ends = min(day for day, _ in dates), max(day for _, day in dates)
                days = np.clip(self.traces.starts // _DAY_US, *ends)
                return int(((days >= first) & (days <= last)).sum())
            case "path_not_shown":
                shown = {one.of for one in all_of if one.name == "path"}
                paths = ((of, n) for (name, of), n in self.numbers.items() if name == "path")
                return max((n for of, n in paths if of not in shown), default=0)
        return self.numbers[figure.name, figure.of]


def _day(date: str) -> int:
    return int(np.datetime64(date, "D").astype(int))


def _quantile(values: np.ndarray, quantile: float) -> float:
    """The smallest number that the share of all reaches."""
    return float(values[max(int(np.ceil(quantile * len(values))) - 1, 0)])


def counted(traces: TraceBatch) -> LogCounts:
    """Returns what is counted on a log."""
    return LogCounts(**count_released(traces))


def params_of(method: str, truths: Truths) -> dict[str, Any]:
    """Returns parameters as somebody would set them who knows activities and about how long."""
    names = tuple(truths.traces.vocabulary.names.to_pylist())
    given = {"epsilon": "1", "delta": "1e-6", "vocabulary": names}
    if method == "private-dfg":
        return {**given, "durations": True}
    if method != "private-indicators":
        return given
    longest_s = truths.spans[-1] / _SECOND_US
    at_most = next((b for b in _BOUNDS_S if b >= longest_s), _BOUNDS_S[-1])
    often = max(truths.steps, key=lambda of: len(truths.steps[of]))
    times = {"indicator": "throughput", "at_most": f"{at_most}s"}
    waiting = {**times, "indicator": "waiting", "activity": often[0], "then": often[1]}
    return given | {
        "indicators": [
            "cases",
            {**times, "of": "mean", "name": "mean"},
            {**times, "of": "median", "name": "median"},
            {**times, "of": ["0.25", "0.9"], "name": "quantiles"},
            {"indicator": "throughput", "of": "median", "name": "median, bound chosen"},
            {**times, "of": "histogram", "n_bins": 8, "name": "histogram"},
            {"indicator": "within", "limit": f"{at_most // 10}s", "name": "within"},
            "rework",
            {"indicator": "frequency", "activity": often[0], "name": "frequency"},
            {**waiting, "of": "median", "name": "median wait"},
            {**waiting, "of": "mean", "name": "mean wait"},
        ]
    }


def judged(truths: Truths, method_name: str, key: int) -> Iterator[Judged]:
    """Yields the numbers of a release that have an interval."""
    method = METHODS[method_name]
    params = method.Params(**params_of(method_name, truths))
    made = anonymise([truths.traces], method, params, release_key(key), "coverage", "d" * 8)
    products = dict(made.products.by_name)
    if made.traces:
        products |= products_of_log(products, counted(TraceBatch.concat(made.traces)))
    labels = truths.traces.vocabulary.labels
    shown: list[Figure] = []
    if graph := products.get("dfg"):
        columns = (graph.sources, graph.targets, graph.counts, graph.lows, graph.highs)
        shown = [
            Figure("path", (labels[a], labels[b]), int(n), int(low), int(high), "measured")
            for a, b, n, low, high in zip(*columns, strict=True)
        ]
    figures: ReleasedFigures | None = products.get("figures")
    rows = [*shown, *([] if figures is None else figures.rows())]
    for row in rows:
        truth = truths.of(row, rows)
        if truth is not None:
            yield row.name, row.grade, row.low <= truth <= row.high
    if (variants := products.get("variants")) and variants.lows is not None:
        graded = grades(variants.counts, variants.lows, variants.highs).tolist()
        table = variants.to_table().to_pylist()
        for row, grade in zip(table, graded, strict=True):
            truth = truths.numbers["variant", (" → ".join(row["variant"]),)]
            yield "variant", grade, row["low"] <= truth <= row["high"]
    if indicators := products.get("indicators"):
        for one in judged_rows(params, indicators, truths.traces):
            if one.is_covered is not None:
                yield one.row.indicator, one.row.grade, one.is_covered


def measure(path: Path, n_keys: int) -> None:
    """Appends what is not in the file yet."""
    known = {(r["log"], r["size"], r["method"], r["key"]) for r in records(path)}
    folder = Path(os.environ["TRACECLOAK_LOGS"])
    for file in LOGS:
        for size in SIZES:
            wanted = [
                (name, key)
                for key in range(n_keys)
                for name in METHOD_NAMES
                if (file, size, name, key) not in known
            ]
            if not wanted:
                continue
            whole = each_event_once(folder, file)
            if size is not None and size > 0.9 * whole.n_cases:
                continue
            truths = Truths(whole if size is None else sample_of(whole, size))
            for name, key in wanted:
                cells: Counter[tuple[str, str]] = Counter()
                held: Counter[tuple[str, str]] = Counter()
                try:
                    for what, grade, is_held in judged(truths, name, key):
                        cells[what, grade] += 1
                        held[what, grade] += is_held
                except TracecloakError as error:
                    print(file, size, name, key, type(error).__name__, file=sys.stderr)
                line = {
                    "log": file, "size": size, "method": name, "key": key,
                    "cells": [[*cell, n, held[cell]] for cell, n in cells.items()],
                }  # fmt: skip
                with path.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(line) + "\n")


def records(path: Path) -> list[dict[str, Any]]:
    """Returns what was measured."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yields the coverage by kind and grade of all logs."""
    cells: dict[tuple[str, ...], dict[tuple[str, Any], list[tuple[int, int]]]] = {}
    for row in rows:
        for what, grade, n, held in row["cells"]:
            if grade in GRADED:
                of = cells.setdefault((row["method"], what, grade), {})
                of.setdefault((row["log"], row["size"]), []).append((n, held))
    draw = np.random.default_rng(57)
    shown = defaultdict[tuple[str, str], dict[str, str]](dict)
    for (method, what, grade), of in sorted(cells.items()):
        by_log = [np.array(pairs) for pairs in of.values()]
        # Numbers and those that hold, of keys that are drawn again.
        drawn = sum(
            by_key[draw.integers(0, len(by_key), (_RESAMPLES, len(by_key)))].sum(axis=1)
            for by_key in by_log
        )
        n, held = np.concatenate(by_log).sum(axis=0)
        low, high = np.percentile(drawn[:, 1] / drawn[:, 0], [2.5, 97.5])  # type: ignore[index]
        is_bad = " **low**" if held < LEAST * n else ""
        shown[method, what][grade] = f"{held / n:.3f}{is_bad} ({low:.3f}-{high:.3f}) of {n:,}"
    yield "| Method | Kind | Good | Rough |"
    yield "|---|---|---|---|"
    for (method, what), by_grade in shown.items():
        yield f"| `{method}` | {what} | {' | '.join(by_grade.get(g, '') for g in GRADED)} |"


def main() -> None:
    """Measures what is missing, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--keys", type=int, default=5)
    given = parser.parse_args()
    measure(given.file, given.keys)
    print("\n".join(table(records(given.file))))


if __name__ == "__main__":
    main()
