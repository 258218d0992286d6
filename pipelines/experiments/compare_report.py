"""The page of a comparison, as Markdown: tables of medians with quartiles, one for each epsilon."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from tracecloak.pipelines.experiments.compare import Comparison, Row, quartiles
from tracecloak.pipelines.experiments.compare_log import LENGTH_SHARE, Original

INTERNAL = (
    "Computed on unprotected logs: every figure is exact about their data. For the operator, not "
    "for publication unless the logs are public anyway."
)
NOTHING = "-"


@dataclass(frozen=True)
class _Measure:
    """A column.

    Attributes:
        name: In the rows.
        title: On the page.
        meaning: In words.
        best: Chooses the best of some medians, or None: there is no better or worse.
    """

    name: str
    title: str
    meaning: str
    best: Callable[[Sequence[float]], float] | None = None


_DISTANCES = (
    _Measure(
        "variant_emd",
        "variant EMD",
        "earth mover's distance of the distributions of cases over variants, where moving costs "
        "the Levenshtein distance divided by the longer length; 0 the same, 1 nothing in common",
        min,
    ),
    _Measure(
        "variant_total_variation",
        "variant TV",
        "total variation of the same distributions: the share of cases with another variant",
        min,
    ),
    _Measure(
        "true_variant_mass",
        "true variants",
        "share of the released cases whose variant is in the log; the others were invented",
        max,
    ),
    _Measure(
        "edge_total_variation",
        "DFG TV",
        "total variation of the directly-follows pairs, start and end included",
        min,
    ),
    _Measure(
        "edge_relative_error",
        "DFG error",
        "sum of the absolute errors of the pairs' counts, over the sum of the counts; publishing "
        "nothing gives 1",
        min,
    ),
    _Measure(
        "relative_size", "size", "released cases over the log's; not all methods mean to keep it"
    ),
)
_MINED = (
    _Measure(
        "f_score",
        "F-score",
        "harmonic mean of fitness (token replay) and precision (escaping edges), on the whole log, "
        "of the model that the inductive miner (infrequent, noise 0.2) finds in the released one; "
        "a model of few variants is precise, so more is not always better",
    ),
    _Measure("fitness", "fitness", "its first part"),
)
_SECONDS = _Measure("seconds", "seconds", "of one release, from counts to variants")


def command_line(flags: Mapping[str, Any]) -> str:
    """Returns the command of these flags, its paths without their folders."""
    parts = ["tracecloak", "compare"]
    for name, value in flags.items():
        for one in value if isinstance(value, list) else [value]:
            text = str(one)
            if name in ("input", "output"):
                text = ",".join(PurePath(path.strip()).name for path in text.split(","))
            parts += [f"--{name}", text]
    return shlex.join(parts)


def markdown_lines(comparison: Comparison, rows: Sequence[Row], command: str) -> Iterator[str]:
    """Yields the page, a line at a time.

    Args:
        comparison: What was compared.
        rows: All of its rows.
        command: The command that makes the page, in the folder of the logs.
    """
    yield "# Released variants at the same true epsilon"
    yield ""
    yield f"> {INTERNAL}"
    yield ""
    yield from _introduction(comparison, command)
    yield ""
    yield from _summary(comparison, rows)
    columns = [*_DISTANCES, *(_MINED if comparison.mined else ()), _SECONDS]
    for original in comparison.originals:
        own = [row for row in rows if row["log"] == original.name]
        yield f"## {original.name}"
        yield ""
        yield from _of_log(comparison, original)
        for epsilon in comparison.epsilons:
            yield ""
            yield f"### {original.name}, epsilon {epsilon}"
            yield ""
            yield from _table([row for row in own if row["epsilon"] == epsilon], columns)
        yield ""
    yield "## What is measured"
    yield ""
    for measure in columns:
        sense = {min: " Less is better.", max: " More is better."}.get(measure.best, "")
        yield f"- **{measure.title}**: {measure.meaning}.{sense}"


def _introduction(comparison: Comparison, command: str) -> Iterator[str]:
    yield "Made in the folder of the logs by"
    yield ""
    yield f"    {command}"
    yield ""
    n = comparison.repetitions
    times = "one release" if n == 1 else f"{n} releases, each under a fresh key: the median, and"
    shown = times if n == 1 else f"{times} in brackets the quartiles"
    yield (
        "Each method spends the same epsilon on everything that it releases, per case added or "
        f"removed, and the delta that its row names. A figure is of {shown}. The best median of a "
        "column is bold."
    )
    if comparison.mined and comparison.mined < n:
        yield ""
        yield f"F-score and fitness are of {comparison.mined} of them."
    yield ""
    yield (
        "The activities and the length at which cases are cut count as public. Here they were read "
        "from the logs themselves, for the comparison only: the length that "
        f"{LENGTH_SHARE:.0%} of the cases do not exceed. A real release takes them from elsewhere "
        "or pays for them. Everything is measured against the whole log, uncut."
    )
    yield ""
    yield (
        "`laplace-levels` is the Laplace trace-variant query of Mannhardt et al. (2019) with its "
        "epsilon divided among its levels. As published, it spends its epsilon again on every "
        "level, so the numbers of the literature belong to as many times the epsilon. Published "
        "methods that have no finite epsilon cannot be compared at one."
    )


def _summary(comparison: Comparison, rows: Sequence[Row]) -> Iterator[str]:
    """The nearest method of each log and epsilon, beside the query of the literature."""
    emd = _DISTANCES[0]
    baseline = "laplace-levels"
    others = [name for name in comparison.methods if name != baseline]
    if baseline not in comparison.methods or not others:
        return
    yield "## At a glance"
    yield ""
    yield f"| log | epsilon | nearest by {emd.title} | its {emd.title} | {baseline} |"
    yield "|---|---:|---|---:|---:|"
    for original in comparison.originals:
        for epsilon in comparison.epsilons:
            medians = {}
            for name in comparison.methods:
                found = quartiles(
                    row.get(emd.name)
                    for row in rows
                    if (row["log"], row["method"], row["epsilon"]) == (original.name, name, epsilon)
                )
                if found is not None:
                    medians[name] = found[0]
            if medians:
                nearest = min(medians, key=lambda name: medians[name])
                shown = (_number(medians.get(name)) for name in (nearest, baseline))
                yield f"| {original.name} | {epsilon} | {nearest} | {' | '.join(shown)} |"
    yield ""


def _of_log(comparison: Comparison, original: Original) -> Iterator[str]:
    size = original.identity()
    floor = original.figures(original.cut)
    yield (
        f"{size['cases']:,} cases, {size['events']:,} events, {size['variants']:,} variants, "
        f"{len(original.names)} activities; cut at {original.max_length} events. Cutting alone, "
        "without noise, gives "
        + ", ".join(
            f"{measure.title} {_number(floor[measure.name])}"
            for measure in _DISTANCES
            if measure.name != "relative_size"
        )
        + "."
    )
    if comparison.mined:
        process = original.process
        yield ""
        yield (
            f"F-score of the model of the log itself {process.of_original.f_score:.3f} (fitness "
            f"{process.of_original.fitness:.3f}), of a model that allows everything "
            f"{process.of_flower.f_score:.3f} (fitness {process.of_flower.fitness:.3f})."
        )


def _table(rows: Sequence[Row], columns: Sequence[_Measure]) -> Iterator[str]:
    """The methods in the order of the first column, those that refused last."""
    methods: dict[str, list[Row]] = {}
    for row in rows:
        methods.setdefault(row["method"], []).append(row)
    refused = {name: own[0]["refused"] for name, own in methods.items() if "refused" in own[0]}
    figures = {
        name: [quartiles(row[measure.name] for row in own) for measure in columns]
        for name, own in methods.items()
        if name not in refused
    }
    best: list[str | None] = []
    for i, measure in enumerate(columns):
        medians = [own[i][0] for own in figures.values() if own[i] is not None]  # type: ignore[index]
        chosen = measure.best(medians) if measure.best and len(medians) > 1 else None
        best.append(None if chosen is None else _number(chosen))

    def rank(name: str) -> float:
        first = figures[name][0]
        return float("inf") if first is None else first[0]

    yield f"| method | delta | {' | '.join(measure.title for measure in columns)} |"
    yield f"|---|---:|{'---:|' * len(columns)}"
    for name in sorted(figures, key=rank):
        cells = [_cell(found, chosen) for found, chosen in zip(figures[name], best, strict=True)]
        yield f"| {name} | {methods[name][0]['delta']} | {' | '.join(cells)} |"
    for name, reason in refused.items():
        yield ""
        yield f"{name} refused: {reason}."


def _cell(found: tuple[float, float, float] | None, best: str | None) -> str:
    if found is None:
        return NOTHING
    median, low, high = map(_number, found)
    shown = f"**{median}**" if median == best else median
    return shown if low == high else f"{shown} ({low}-{high})"


def _number(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.3f}" if value < 10 else f"{value:,.0f}"
