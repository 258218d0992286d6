"""The tables of results as Markdown: medians with quartiles, one table for each epsilon and kind.

Variants, logs with times, and graphs stand in tables of their own, each with the lines. All of it
is made of the results as JSON (`examination.comparison.report`): the logs are not needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from tracecloak.examination.comparison.compare import LINES
from tracecloak.examination.comparison.contenders import KINDS, Kind
from tracecloak.examination.comparison.original import COLUMNS
from tracecloak.examination.comparison.report import (
    BASELINE,
    TITLES,
    LogResults,
    Quartiles,
    QuartilesByMeasure,
    RecordedFigures,
    ReleaseFigures,
    Results,
    recordings,
    remark_on,
)
from tracecloak.examination.measure.registry import MEASURES, Figures, Measure

NOTHING = "-"
_OF_LOG = "the log itself"


def recorded_at(
    names: Sequence[str], log: LogResults, epsilon: str, kind: Kind
) -> dict[str, RecordedFigures]:
    """Returns what is recorded of a log at an epsilon, by peer.

    Args:
        names: Of recorded peers.
        log: That was released.
        epsilon: As text; 1 and 1.0 are one.
        kind: Peers that release something else are left out.
    """
    return {
        name: one
        for name in names
        if recordings()[name].kind == kind
        for one in recordings()[name].of_log(log)
        if Decimal(one.epsilon) == Decimal(epsilon)
    }


def measure_lines(results: Results) -> Iterator[str]:
    """Yields what the columns are: formula, range, direction and source of each measure.

    What these results do not have, and the next ones will, stands at the end.
    """
    released = {release.kind for log in results.logs for release in log.releases}
    kinds = {*released, *(recordings()[name].kind for name in results.recorded)}
    of_tables = [kind for kind in KINDS if kind in kinds]
    measured = {name for kind in of_tables for name in results.columns(kind)}
    yield from (one.line for one in MEASURES.values() if one.name in measured)
    lacking = {name for kind in of_tables for name in COLUMNS[kind]} - measured
    others = (one.line for one in MEASURES.values() if one.name in lacking)
    yield from (f"{line} Not measured in this run." for line in others)


def log_lines(results: Results, log: LogResults, heading: str) -> Iterator[str]:
    """Yields the size of a log, what is recorded of it, and a table for each epsilon and kind.

    Args:
        results: The comparison.
        log: One of its logs.
        heading: What stands before the epsilon in the heading of a table, such as "## Epsilon".
    """
    yield from _size_lines(log)
    for name in results.recorded:
        yield ""
        yield remark_on(name, log)
    for epsilon in results.epsilons:
        for kind in KINDS:
            at = [r for r in log.releases if (r.epsilon, r.kind) == (epsilon, kind)]
            recorded = recorded_at(results.recorded, log, epsilon, kind)
            if not at and not recorded:
                continue
            yield ""
            yield f"{heading} {epsilon}: {TITLES[kind]}"
            yield ""
            columns = [MEASURES[name] for name in results.columns(kind)]
            yield from _table(at, log, columns, recorded)
            for release in at:
                if release.refused is None and release.n_releases < results.n_repetitions:
                    yield ""
                    yield f"Of {release.method} the time allowed {release.n_releases} releases."


def summary_lines(results: Results) -> Iterator[str]:
    """Yields a table of the nearest method of each log and epsilon, beside the query of the papers.

    It is empty where that query, or any other method for variants, was not compared.
    """
    emd = MEASURES["variant_emd"]
    of_variants = {r.method for log in results.logs for r in log.releases if r.kind == "variants"}
    if BASELINE not in of_variants or len(of_variants) == 1:
        return
    yield f"| log | epsilon | nearest by {emd.title} | its {emd.title} | {BASELINE} | {LINES[0]} |"
    yield "|---|---:|---|---:|---:|---:|"
    for log in results.logs:
        of_line = [_median(line.figures, emd) for line in log.lines if line.name == LINES[0]]
        for epsilon in results.epsilons:
            medians = {
                release.method: _median(release.figures, emd)
                for release in log.releases
                if release.kind == "variants"
                and release.epsilon == epsilon
                and release.refused is None
            }
            known = {name: median for name, median in medians.items() if median is not None}
            if known and len(known) == len(medians):
                nearest = min(known, key=lambda name: known[name])
                cells = (known[nearest], known.get(BASELINE), *of_line)
                yield f"| {log.name} | {epsilon} | {nearest} | {' | '.join(map(_number, cells))} |"
            elif medians:
                yield f"| {log.name} | {epsilon} | not computed for all | - | - | - |"


def _median(figures: QuartilesByMeasure, measure: Measure) -> float | None:
    """The median of what a method or a line got; None if it was not computed."""
    quartiles = figures.get(measure.name)
    return None if quartiles is None else quartiles[0]


def _size_lines(log: LogResults) -> Iterator[str]:
    named = (
        MEASURES[name]
        for name in COLUMNS["variants"]
        if name != "relative_size" and name in log.of_cut_log
    )
    yield (
        f"{log.n_cases:,} cases, {log.n_events:,} events, {log.n_variants:,} variants, "
        f"{log.n_activities} activities; cut at {log.max_trace_length} events. Cutting alone, "
        "without noise, gives "
        + ", ".join(f"{one.title} {_number(log.of_cut_log.get(one.name))}" for one in named)
        + "."
    )
    if log.models is not None:
        of = log.models
        yield ""
        yield (
            f"F-score of the model of the log itself {of['f_score']:.3f} (fitness "
            f"{of['fitness']:.3f}), of a model that allows everything "
            f"{of['flower_f_score']:.3f} (fitness {of['flower_fitness']:.3f})."
        )


def _table(
    releases: Sequence[ReleaseFigures],
    log: LogResults,
    columns: Sequence[Measure],
    recorded: Mapping[str, RecordedFigures],
) -> Iterator[str]:
    """The methods in the order of the first column, what is recorded, the lines; refusals last.

    What is recorded is never the best: its epsilon is one that others do not have.
    """
    figures = {
        release.method: [release.figures.get(measure.name) for measure in columns]
        for release in releases
        if release.refused is None
    }
    deltas = {release.method: release.delta for release in releases}
    best = [
        _best([row[i] for row in figures.values()], measure, log.of_log)
        for i, measure in enumerate(columns)
    ]

    def rank(name: str) -> float:
        first = figures[name][0]
        return float("inf") if first is None else first[0]

    yield f"| method | delta | {' | '.join(measure.title for measure in columns)} |"
    yield f"|---|---:|{'---:|' * len(columns)}"
    for name in sorted(figures, key=rank):
        cells = [_cell(value, chosen) for value, chosen in zip(figures[name], best, strict=True)]
        yield f"| {name} | {deltas[name]} | {' | '.join(cells)} |"
    for name, one in recorded.items():
        cells = [_cell(one.figures.get(measure.name), None) for measure in columns]
        yield f"| {name} (recorded) | {one.delta} | {' | '.join(cells)} |"
    for line in log.lines:
        of_line = [line.figures.get(measure.name) for measure in columns]
        if any(value is not None for value in of_line):
            yield f"| *{line.name}* | | {' | '.join(_cell(value, None) for value in of_line)} |"
    near = [log.of_log.get(m.name) if m.better in ("log", "more") else None for m in columns]
    if any(value is not None for value in near):
        yield f"| *{_OF_LOG}* | | {' | '.join(map(_number, near))} |"
    for name in recorded:
        yield ""
        yield remark_on(name)
    for release in releases:
        if release.refused is not None:
            yield ""
            yield f"{release.method} refused: {release.refused}."


def _best(values: Sequence[Quartiles | None], measure: Measure, of_log: Figures) -> str | None:
    """The best median as it is shown, or None: none is better than others, or one is not known."""
    target = of_log.get(measure.name)
    medians = [value[0] for value in values if value is not None]
    if measure.better == "none" or not 1 < len(medians) == len(values):
        return None
    if measure.better != "log":
        return _number(min(medians) if measure.better == "less" else max(medians))
    return None if target is None else _number(min(medians, key=lambda one: abs(one - target)))


def _cell(value: Quartiles | None, best: str | None) -> str:
    if value is None:
        return NOTHING
    median, low, high = map(_number, value)
    shown = f"**{median}**" if median == best else median
    return shown if low == high else f"{shown} ({low}-{high})"


def _number(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.3f}" if value < 10 else f"{value:,.0f}"
