"""The page of a comparison, as Markdown: tables of medians with quartiles, one for each epsilon.

What variants, logs with times and graphs get stands in tables of their own, each with the lines.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from tracecloak.examination.comparison.compare import LINES, Comparison, Row, quartiles
from tracecloak.examination.comparison.contenders import KINDS, Kind
from tracecloak.examination.comparison.original import (
    LENGTH_SHARE,
    MAX_EMD_CELLS,
    Original,
)
from tracecloak.examination.measure.registry import MEASURES, Figures, Measure, legend_lines

INTERNAL = (
    "Computed on unprotected logs: every figure is exact about their data. For the operator, not "
    "for publication unless the logs are public anyway."
)
NOTHING = "-"


_COLUMNS: Mapping[Kind, tuple[str, ...]] = {
    "variants": (
        "variant_emd", "variant_total_variation", "true_variant_mass", "edge_total_variation",
        "edge_relative_error", "next_activity_accuracy", "relative_size",
    ),
    "log": (
        "variant_emd", "edge_relative_error", "case_duration_distance",
        "top_variant_duration_error", "duration_eta_squared", "big_pair_wait_error", "drift",
        "next_activity_accuracy", "relative_size",
    ),
    "graph": (
        "edge_relative_error", "edge_total_variation", "edge_precision", "edge_recall",
        "interval_coverage", "interval_width",
    ),
}  # fmt: skip
_MINED = ("mined_f_score", "mined_fitness")
_TITLES: Mapping[Kind, str] = {
    "variants": "variants",
    "log": "logs with times",
    "graph": "directly-follows graphs",
}
_OF_LOG = "the log itself"


def command_line(flags: Mapping[str, Any]) -> str:
    """Returns the command of these flags, its paths without their folders."""
    parts = ["tracecloak", "compare"]
    for name, value in flags.items():
        for one in value if isinstance(value, list) else [value]:
            text = str(one)
            if name in ("log", "output"):
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
    yield "# Releases at the same true epsilon"
    yield ""
    yield f"> {INTERNAL}"
    yield ""
    yield from _introduction(comparison, command)
    yield ""
    yield from _summary(comparison, rows)
    kinds = [kind for kind in KINDS if kind in {m.kind for m in comparison.methods.values()}]
    for original in comparison.originals:
        own = [row for row in rows if row["log"] == original.name]
        lines = [row for row in own if row["method"] in LINES]
        of_log = _of_itself(original)
        yield f"## {original.name}"
        yield ""
        yield from _of_log(comparison, original)
        for epsilon in comparison.epsilons:
            at = [row for row in own if row["epsilon"] == epsilon]
            for kind in kinds:
                yield ""
                yield f"### {original.name}, epsilon {epsilon}: {_TITLES[kind]}"
                yield ""
                columns = _columns(comparison, kind)
                yield from _table([row for row in at if row["kind"] == kind], lines, columns,
                                  of_log)  # fmt: skip
        yield ""
    yield "## What is measured"
    yield ""
    yield from legend_lines(
        measure.name for kind in kinds for measure in _columns(comparison, kind)
    )


def _columns(comparison: Comparison, kind: Kind) -> list[Measure]:
    mined = _MINED if comparison.mined and kind != "graph" else ()
    return [MEASURES[name] for name in (*_COLUMNS[kind], *mined, "seconds")]


def _of_itself(original: Original) -> Figures:
    """What the log itself gets, of the measures for which that is neither 0 nor 1."""
    times = original.figures_of_times(original.traces.recode(original.vocabulary))
    taught = original.next_activity(original.variants)
    return {**times, "relative_size": 1.0, "next_activity_accuracy": taught}


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
        "column is bold, where all are known. A distance of variants that needs a table of more "
        f"than {MAX_EMD_CELLS:,} pairs of them is not computed ({NOTHING})."
    )
    if comparison.mined and comparison.mined < n:
        yield ""
        yield f"The mined models are of {comparison.mined} of them."
    yield ""
    yield (
        "The activities, the length at which cases are cut and, where times are released, the "
        "first and the last date count as public. Here they were read from the logs themselves, "
        f"for the comparison only: the length that {LENGTH_SHARE:.0%} of the cases do not exceed. "
        "A real release takes them from elsewhere or pays for them. Everything is measured against "
        "the whole log, uncut."
    )
    yield ""
    yield (
        "Lines spend nothing and protect nobody. The bootstrap has as many cases of the log, drawn "
        "with replacement: another log of the same process would differ as much, so no release "
        "need be nearer. A chain has the exact counts of the log, and is the limit of methods that "
        "draw cases from such a chain."
    )
    yield ""
    yield (
        "`laplace-levels` is the Laplace trace-variant query of Mannhardt et al. (2019) with its "
        "epsilon divided among its levels. As published, it spends its epsilon again on every "
        "level, so the numbers of the literature belong to as many times the epsilon. `travas` is "
        "the variant selection of Rafiei et al. (2022), and `private-pgm` Private-PGM (McKenna et "
        "al., 2019) on the marginals of neighbouring positions of a case, whose noise is accounted "
        "jointly. Published methods that have no finite epsilon cannot be compared at one."
    )


def _summary(comparison: Comparison, rows: Sequence[Row]) -> Iterator[str]:
    """The nearest method of each log and epsilon, beside the query of the literature."""
    emd = MEASURES["variant_emd"]
    baseline = "laplace-levels"
    of_variants = [name for name, own in comparison.methods.items() if own.kind == "variants"]
    if baseline not in of_variants or len(of_variants) == 1:
        return
    yield "## At a glance"
    yield ""
    yield f"| log | epsilon | nearest by {emd.title} | its {emd.title} | {baseline} | {LINES[0]} |"
    yield "|---|---:|---|---:|---:|---:|"
    for original in comparison.originals:
        own = [row for row in rows if row["log"] == original.name]
        line = _median(own, LINES[0], None, emd)
        for epsilon in comparison.epsilons:
            released = {
                row["method"] for row in own if row["epsilon"] == epsilon and "refused" not in row
            }.intersection(of_variants)
            medians = {
                name: found
                for name in of_variants
                if (found := _median(own, name, epsilon, emd)) is not None
            }
            if medians and len(medians) == len(released):
                nearest = min(medians, key=lambda name: medians[name])
                shown = (_number(one) for one in (medians[nearest], medians.get(baseline), line))
                yield f"| {original.name} | {epsilon} | {nearest} | {' | '.join(shown)} |"
            elif released:
                yield f"| {original.name} | {epsilon} | not computed for all | - | - | - |"
    yield ""


def _median(
    rows: Sequence[Row], method: str, epsilon: str | None, measure: Measure
) -> float | None:
    """The median of what a method got at an epsilon, or a line."""
    found = quartiles(
        row.get(measure.name)
        for row in rows
        if row["method"] == method and epsilon in (None, row["epsilon"])
    )
    return None if found is None else found[0]


def _of_log(comparison: Comparison, original: Original) -> Iterator[str]:
    size = original.identity()
    floor = original.figures(original.cut)
    named = (MEASURES[name] for name in _COLUMNS["variants"] if name != "relative_size")
    yield (
        f"{size['cases']:,} cases, {size['events']:,} events, {size['variants']:,} variants, "
        f"{len(original.names)} activities; cut at {original.max_length} events. Cutting alone, "
        "without noise, gives "
        + ", ".join(f"{measure.title} {_number(floor[measure.name])}" for measure in named)
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


def _table(
    rows: Sequence[Row], lines: Sequence[Row], columns: Sequence[Measure], of_log: Figures
) -> Iterator[str]:
    """The methods in the order of the first column, then the lines; those that refused last."""
    methods = _by_method(rows)
    refused = {name: own[0]["refused"] for name, own in methods.items() if "refused" in own[0]}
    figures = {
        name: _quartiles_of(own, columns) for name, own in methods.items() if name not in refused
    }
    best = [
        _best([own[i] for own in figures.values()], measure, of_log)
        for i, measure in enumerate(columns)
    ]

    def rank(name: str) -> float:
        first = figures[name][0]
        return float("inf") if first is None else first[0]

    yield f"| method | delta | {' | '.join(measure.title for measure in columns)} |"
    yield f"|---|---:|{'---:|' * len(columns)}"
    for name in sorted(figures, key=rank):
        cells = [_cell(found, chosen) for found, chosen in zip(figures[name], best, strict=True)]
        yield f"| {name} | {methods[name][0]['delta']} | {' | '.join(cells)} |"
    for name, own in _by_method(lines).items():
        of_line = _quartiles_of(own, columns)
        if any(found is not None for found in of_line):
            yield f"| *{name}* | | {' | '.join(_cell(found, None) for found in of_line)} |"
    near = [of_log.get(m.name) if m.better in ("log", "more") else None for m in columns]
    if any(value is not None for value in near):
        yield f"| *{_OF_LOG}* | | {' | '.join(map(_number, near))} |"
    for name, reason in refused.items():
        yield ""
        yield f"{name} refused: {reason}."


def _by_method(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["method"], []).append(row)
    return found


_Quartiles = tuple[float, float, float] | None


def _quartiles_of(rows: Sequence[Row], columns: Sequence[Measure]) -> list[_Quartiles]:
    return [quartiles(row.get(measure.name) for row in rows) for measure in columns]


def _best(found: Sequence[_Quartiles], measure: Measure, of_log: Figures) -> str | None:
    """The best median as it is shown, or None: none is better than others, or one is not known."""
    target = of_log.get(measure.name)
    medians = [one[0] for one in found if one is not None]
    if measure.better == "none" or not 1 < len(medians) == len(found):
        return None
    if measure.better == "log" and target is None:
        return None
    return _number(min(medians, key=lambda median: measure.distance(median, target)))


def _cell(found: _Quartiles, best: str | None) -> str:
    if found is None:
        return NOTHING
    median, low, high = map(_number, found)
    shown = f"**{median}**" if median == best else median
    return shown if low == high else f"{shown} ({low}-{high})"


def _number(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.3f}" if value < 10 else f"{value:,.0f}"
