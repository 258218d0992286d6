"""The evaluation of the paper on Amun, and the epsilons of its published method."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tracecloak.anonymizers.amun.method import Amun
from tracecloak.anonymizers.amun.params import (
    DAY_US,
    AmunParams,
    advantage_of_oversampling,
    epsilon_of_counts,
    ticks_of,
)
from tracecloak.anonymizers.amun.params import Released as ReleasedByAmun
from tracecloak.anonymizers.contract.in_memory import decide
from tracecloak.anonymizers.noise.randomness import KEY_BYTES, ReleaseKey
from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.experiments.paper import Cell, Log, Paper, Released
from tracecloak.examination.experiments.table import (
    NOTHING,
    THE_LOG,
    Figures,
    Lines,
    Section,
    Table,
    format_figure,
    format_quartiles,
    median_of,
)
from tracecloak.examination.measure import measures, utility
from tracecloak.examination.measure.behaviour_measures import edges_of, hours_of_edges
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.durations import DurationTable
from tracecloak.schemas.statistics.variants import DirectlyFollows

# --- Amun's epsilons of times, as the paper has them in Table 7: the mean over a log or a release.
# Not here: Amun's own estimate of each (`anonymizers.amun`).
#
# Beside them is what the Amun paper prints of its 14 logs, to stand beside what comes out here.
#
# Elkoumy, Pankova and Dumas, "Differentially Private Release of Event Logs for Process Mining",
# Tables 6 to 9 and Figure 3, in `papers/amun.toml`. Each figure of Tables 6 to 8 is of one run;
# `-` is the paper's own for a run that ended without one.


# Releases over which the mean epsilon of the released times is taken.
N_RELEASES = 5


def of_log(traces: TraceBatch, params: AmunParams) -> float:
    """Returns the mean of the epsilons that Amun estimates for the times of a log, starts included.

    Before any is divided by the copies of its case, which `of_releases` does. A time whose group
    has one value only has the epsilon of the least favourable prior, (1 - g) / 2, which is that of
    the counts.

    Args:
        traces: The log; not empty.
        params: Amun's, in the mode sampling.
    """
    key = ReleaseKey.generate()
    decisions: Mapping[str, Any] = decide([traces], Amun(), params, key, "experiment", "")[1]
    epsilons, counts = _epsilons_of(traces, decisions, params)
    return float((epsilons * counts).sum() / counts.sum())


def of_releases(traces: TraceBatch, params: AmunParams) -> float:
    """Returns the mean epsilon of the times of a released log, starts included.

    What the paper prints as epsilon_t: its authors' code takes the mean after it has divided the
    epsilon of each step by the copies of its case. The mean of some releases under keys of their
    own, so that a run that is taken up again finds the same.

    Args:
        traces: The log; not empty.
        params: Amun's, in the mode sampling.
    """
    means = []
    for number in range(N_RELEASES):
        key = ReleaseKey(bytes([number]) * KEY_BYTES)
        randomness, decided = decide([traces], Amun(), params, key, "experiment", "")
        decisions: Mapping[str, Any] = decided
        epsilons = _epsilons_of(traces, decisions, params)[0]
        released = ReleasedByAmun.of(traces, decisions, params, randomness)
        _, groups, ticks = ticks_of(released.traces, decisions, params)
        of_events = epsilons[decisions["sampling"].times.find(groups, ticks)]
        copies = np.repeat(released.copies, released.traces.lengths)
        if params.choices.divided_epsilons == "steps":
            copies[released.traces.is_first] = 1
        means.append(float((of_events / copies).mean()))
    return float(np.mean(means))


def _epsilons_of(
    traces: TraceBatch, decisions: Mapping[str, Any], params: AmunParams
) -> tuple[np.ndarray, np.ndarray]:
    """(float64[n_pairs], int64[n_pairs]): epsilons of the times that were decided, and how many."""
    n_groups = decisions["dafsa"].dafsa.n_transitions + 1
    _, groups, ticks = ticks_of(traces, decisions, params)
    table = DurationTable.from_events(groups, ticks)
    smallest, largest = table.extremes(n_groups)
    tick_us = np.where(table.groups == n_groups - 1, DAY_US, params.choices.time_unit_us).astype(
        np.float64
    )
    widths = (largest - smallest)[table.groups] * tick_us
    scales = decisions["sampling"].scales.astype(np.float64)
    epsilons = np.full(len(scales), epsilon_of_counts(params.guessing_advantage))
    spread = scales > 0
    epsilons[spread] = widths[spread] / scales[spread]
    return epsilons, table.counts


_PRINTED = tomllib.loads(
    (resources.files(__package__) / "papers" / "amun.toml").read_text(encoding="utf-8")
)
SAMPLING, FILTERING, OVERSAMPLING = "Amun, sampling", "Amun, filtering", "Amun, oversampling"
PRIPEL, SACOFA = "PRIPEL", "SaCoFa"
_OF_AMUN = (SAMPLING, FILTERING, OVERSAMPLING, PRIPEL)
# The columns of each table behind the log and, but for the last two, the advantage.
_COLUMNS = {
    "table_6": [("jaccard", one) for one in (SAMPLING, FILTERING, PRIPEL, SACOFA)],
    "table_7": [("epsilon_t", ""), *(("frequencies", one) for one in _OF_AMUN),
                *(("times", one) for one in _OF_AMUN)],
    "table_8": [("seconds", one) for one in _OF_AMUN],
    "figure_3": [("lost", one) for one in (SAMPLING, FILTERING, PRIPEL)],
}  # fmt: skip


class Described(NamedTuple):
    """A row of Table 9: a log, its numbers, and the lengths of its shortest and its longest trace.

    `durations` is how long its shortest and its longest case take, and their mean, as printed.
    """

    name: str
    n_cases: int
    n_activities: int
    n_events: int
    n_edges: int
    n_variants: int
    shortest: int
    longest: int
    durations: tuple[str, ...]


def described(n_cases: int, n_events: int, n_variants: int) -> Described | None:
    """Returns the log of the paper that has these numbers, or None: it has none that does."""
    sizes = n_cases, n_events, n_variants
    return next((x for x in TABLE_9 if (x.n_cases, x.n_events, x.n_variants) == sizes), None)


def printed_epsilon(table: str, log: str, g: str, method: str = "") -> float | None:
    """Returns a figure of the paper, or None where it has none.

    Args:
        table: `jaccard`, `frequencies`, `times` (months), `seconds` or `lost`; `epsilon_t`: the
            mean epsilon of the times of Table 7, which is of no method.
        log: A name of Table 9.
        g: The guessing advantage, as text.
        method: One of those above.
    """
    return FIGURES.get((table, log, f"{float(g):g}", method))


def _rows(name: str) -> Iterator[list[str]]:
    for line in _PRINTED[name].strip().splitlines():
        yield [cell.strip() for cell in line.split(";")]


def _figures() -> Iterator[tuple[tuple[str, str, str, str], float]]:
    for name, columns in _COLUMNS.items():
        for log, *cells in _rows(name):
            g = "0.2" if len(cells) == len(columns) else cells.pop(0)
            for (table, method), cell in zip(columns, cells, strict=True):
                if cell != "-":
                    factor = 60 if table == "seconds" else 1
                    yield (table, log, g, method), float(cell) * factor


def _described(name: str, *cells: str) -> Described:
    cases, tasks, events, edges, variants, shortest, longest = map(int, cells[:7])
    return Described(name, cases, tasks, events, edges, variants, shortest, longest, cells[7:])


TABLE_9 = tuple(_described(*cells) for cells in _rows("table_9"))
FIGURES = dict(_figures())


# --- `tracecloak experiment amun`: the evaluation of the Amun paper, on given logs. ---------------
# Elkoumy, Pankova and Dumas ("Differentially Private Release of Event Logs for Process Mining"),
# section 4: Amun by sampling, filtering and oversampling beside PRIPEL and SaCoFa, which get
# Amun's mean epsilon; Tables 6 to 9 and Figure 3. Of a log of the paper each figure stands beside
# the printed one, with the reason for which it differs. Beside them, what Amun makes of the
# number of cases and of the steps, which are the times between an event and the one before it in
# its case. What is shown and stated is in `papers/amun.toml`.


_MODES = {"sampling": SAMPLING, "filtering": FILTERING, "oversampling": OVERSAMPLING}
_OF_COUNTS, _OF_TIMES = "epsilon_d", "epsilon_t"
_HOUR_US = 3_600_000_000
# Times at which active cases are counted.
_N_TIMES = 121

_NO_LOG = "The paper has no log with as many cases, events and variants, so none of its figures."
_OF_OTHERS = {
    PRIPEL: "one run there; here all steps are perturbed, by the authors' code few are",
    SACOFA: "one run there, of the authors' code; here the profile reference of sacofa",
}
_OF_TABLE_9 = {
    "tasks": "not said there; names are counted here that occur in the file",
    "edges": "not said there; here pairs of activities that follow each other in a case",
}


class AmunPaper(Paper):
    """The evaluation; see the module."""

    name: ClassVar[str] = "amun"

    def __init__(self, texts: Mapping[str, str | None]) -> None:
        super().__init__(texts)
        self._advantages: tuple[str, ...] = self.given["guessing_advantages"]
        self._epsilons: dict[tuple[str, str], str] = {}

    def params(self, advantage: str, mode: str) -> AmunParams:
        """Returns Amun's parameters."""
        return AmunParams.model_validate(
            {"guessing_advantage": advantage, "mode": mode, "profile": self.given["profile"]}
        )

    def epsilon_of_times(self, log: Log, advantage: str) -> str:
        """Returns the mean epsilon of the released times, with two decimals as in the paper."""
        key = log.name, advantage
        if key not in self._epsilons:
            params = self.params(advantage, "sampling")
            self._epsilons[key] = f"{of_releases(log.traces, params):.2f}"
        return self._epsilons[key]

    def _epsilon(self, log: Log, kind: str, advantage: str) -> str:
        """Returns the epsilon that the others get."""
        if kind == _OF_TIMES:
            return self.epsilon_of_times(log, advantage)
        return f"{epsilon_of_counts(float(advantage)):.4f}"

    def cells(self, log: Log) -> Iterator[Cell]:
        """Yields Amun's modes, and the others at its mean epsilons with every threshold."""
        length = max(round(log.traces.n_events / log.traces.n_cases), 1)
        for advantage in self._advantages:
            for mode, arm in _MODES.items():
                params = {
                    "guessing_advantage": float(advantage), "mode": mode,
                    "profile": self.given["profile"],
                }  # fmt: skip
                epsilon = f"{self.params(advantage, mode).epsilon_d:.4f}"
                yield Cell(arm, advantage, epsilon, "amun", params, needs_log=True)
            for share in self.given["pruning"]:
                for method, kind in (
                    (PRIPEL, _OF_COUNTS), (PRIPEL, _OF_TIMES), (SACOFA, _OF_COUNTS)
                ):  # fmt: skip
                    epsilon = self._epsilon(log, kind, advantage)
                    params = {
                        "epsilon": epsilon,
                        "max_prefix_length": length,
                        "p_harmful": max(round(float(share) / 100 * log.traces.n_cases), 1),
                    }
                    yield Cell(
                        f"{method} at {kind}, k = {share} %", advantage, epsilon, method.lower(),
                        params, needs_log=kind == _OF_TIMES,
                    )  # fmt: skip

    def figures(self, log: Log, released: Released, cell: Cell) -> Row:
        """Returns the distances of a release; those of its times and graph where it has a log."""
        before, after = log.variants, released.variants
        counts, released_counts, _ = utility.aligned_variants(log.variants, released.variants)
        row: Row = {
            "released_cases": released.variants.n_cases,
            "released_variants": released.variants.n_variants,
            "jaccard_distance": measures.jaccard_distance(before, after),
            "prefix_jaccard_distance": measures.prefix_jaccard_distance(before, after),
            "variants_lost": int(((counts > 0) & (released_counts == 0)).sum()),
            "variants_invented": int(((counts == 0) & (released_counts > 0)).sum()),
            "edge_frequency_emd": None,
            "edge_time_emd_months": None,
            "active_cases": None,
            "relative_cases": released.variants.n_cases / log.variants.n_cases,
            "mean_step_hours": None,
            "zero_steps": None,
        }
        if released.traces is not None:
            sides = log.traces.recode(log.vocabulary), released.traces
            row["edge_frequency_emd"] = measures.edge_frequency_emd(*map(edges_of, sides))
            row["edge_time_emd_months"] = measures.edge_time_emd(*map(hours_of_edges, sides))
            row["active_cases"] = active_cases(released.traces, _times(log)).tolist()
            steps = released.traces.durations[~released.traces.is_first]
            if len(steps):  # none where no case has two events
                row["mean_step_hours"] = float(steps.mean()) / _HOUR_US
                row["zero_steps"] = float((steps == 0).mean())
        return row

    def words(self) -> Mapping[str, Any]:
        """Returns what the flags say, and the epsilons of oversampling for the notes."""
        settings = [(g, self.params(g, "oversampling")) for g in self._advantages]
        return {
            **self.given,
            "thresholds": ", ".join(self.given["pruning"]),
            "is_a6": settings[0][1].choices.oversampling_epsilon == "proposition_a6",
            "epsilons": ", ".join(f"{params.epsilon_d:.4f} at {g}" for g, params in settings),
            "allowed": ", ".join(
                f"{advantage_of_oversampling(params.epsilon_d):.2f} at {g}"
                for g, params in settings
            ),
        }

    def table(self, log: Log, rows: Sequence[Row], log_row: Row) -> Figures:
        """Returns the figures of a log, with the seconds from its file to a release."""
        whole = [
            {**row, "whole_seconds": row["seconds"] + row["read_seconds"]}
            if "seconds" in row
            else row
            for row in rows
        ]
        return super().table(log, whole, log_row)

    def compared(self, log: Log, table: Figures, spec: Row) -> Iterator[Section]:
        """Yields a figure by advantage and arm, beside the paper's and why it differs from it.

        Args:
            log: The log.
            table: Its figures.
            spec: `figure`, its name; `others`, methods beside Amun, of which the best threshold is
                shown, and `of_epsilon`, which epsilon they have; `printed`, the paper's figures, as
                in `amun_epsilons.printed`; without it the paper prints none.
        """
        of_paper, figure, kind = _amun_described(log), spec["figure"], spec["of_epsilon"]
        printed_name = spec.get("printed", "")
        rows = []
        for advantage in self._advantages:
            for arm in (*_MODES.values(), *spec["others"]):
                run: str | None = arm
                if arm in _OF_OTHERS:
                    run = table.best(figure, f"{arm} at {kind}, k = *", advantage)
                values = table.values(figure, run, advantage) if run else []
                median = median_of(values)
                if run is None or median is None:
                    continue
                printed = None
                if of_paper is not None and printed_name:
                    printed = printed_epsilon(printed_name, of_paper.name, advantage, arm)
                beside = [NOTHING, NOTHING, NOTHING]
                if printed is not None:
                    is_within = min(values) <= printed <= max(values)
                    why = "within the releases here"
                    beside = [
                        format_figure(printed),
                        format_figure(median / printed) if printed else NOTHING,
                        why if is_within else self.reason(printed_name, arm),
                    ]
                here = format_quartiles(values)
                here += f" at {run.partition('k = ')[2]}" if arm in _OF_OTHERS else ""
                rows.append(
                    (advantage, self._epsilon(log, kind, advantage), arm, here, *beside)
                )  # fmt: skip
        header = ("g", kind, "method", "here", "paper", "here / paper", "why it differs")
        text = spec.get("text", "").format(variants=log.variants.n_variants)
        yield Section(spec["title"], text, [Table(header, rows)] if rows else [], spec["file"])

    def reason(self, table: str, arm: str) -> str:
        """Returns why a figure is not the paper's."""
        if table == "seconds":
            return "another machine, and other code"
        if arm in (PRIPEL, SACOFA):
            return _OF_OTHERS[arm]
        choices = self.params(self._advantages[0], "oversampling").choices
        reasons = []
        if table == "times":
            if choices.negative_steps == "zero":
                reasons.append("steps below 0 become 0, there they are turned around")
            if choices.compression not in ("shifts", "none"):
                reasons.append("the compression is by the range of the noised starts")
            if choices.divided_epsilons == "all":
                reasons.append("epsilons of copied starts are divided, which compresses more")
        if arm == OVERSAMPLING and choices.oversampling_epsilon != "epsilon_d":
            reasons.append("epsilon of Proposition A.6, about five times as many copies")
        elif choices.moves == "algorithm_1":
            reasons.append(
                "noise of counts is rounded, there up"
                if arm == OVERSAMPLING
                else "there variants that are only copied or only deleted are left out"
            )
        if arm == FILTERING and choices.prior != "clamped":
            reasons.append("the filter is that of the text, within 10 s")
        if not reasons and table == "times":
            reasons.append("its noise is biased by the shortest times")
        return "; ".join(["one run there", *reasons])

    def described(self, log: Log, table: Figures, spec: Row) -> Iterator[Section]:
        """Yields Table 9."""
        traces, known = log.traces, _amun_described(log)
        lengths = traces.lengths
        spans = traces.times[traces.offsets[1:] - 1] - traces.starts
        edges = len(DirectlyFollows.from_traces(traces).inner(traces.vocabulary).counts)
        of_log = (
            traces.n_cases, len(np.unique(traces.activities)), traces.n_events, edges,
            log.variants.n_variants, int(lengths.min()), int(lengths.max()),
            *map(span, (float(spans.min()), float(spans.max()), float(spans.mean()))),
        )  # fmt: skip
        printed = (NOTHING,) * 10 if known is None else (*known[1:-1], *known.durations)
        names = (
            "traces", "tasks", "events", "edges", "case variants", "shortest trace",
            "longest trace", "shortest case", "longest case", "mean case",
        )  # fmt: skip
        rows = []
        for name, here, there in zip(names, of_log, printed, strict=True):
            reason = NOTHING
            if known is not None and here != there:
                reason = _OF_TABLE_9.get(name, "printed in other units: s, m, h, d, w, months, y")
            rows.append((name, str(here), str(there), reason))
        text = f"The paper calls this log {known.name}." if known else _NO_LOG
        header = ("", "here", "paper", "why it differs")
        yield Section("Table 9: the log", text, [Table(header, rows)], "table-9")

    def epsilons_of_times(self, log: Log, table: Figures, spec: Row) -> Iterator[Section]:
        """Yields the mean epsilons of Table 7, and what they are before they are divided."""
        rows, of_paper = [], _amun_described(log)
        for advantage in self._advantages:
            plain = of_log(log.traces, self.params(advantage, "sampling"))
            name = "" if of_paper is None else of_paper.name
            printed = printed_epsilon("epsilon_t", name, advantage)
            rows.append(
                (advantage, f"{plain:.2f}", self.epsilon_of_times(log, advantage),
                 NOTHING if printed is None else f"{printed:.2f}")
            )  # fmt: skip
        text = (
            "Over the events of the log, and over those of releases by sampling, where the epsilon "
            "of a step is divided by the copies of its case, the original among them. The authors' "
            "code takes the second, of one release; so does the paper. PRIPEL gets it, too."
        )
        if self.params(self._advantages[0], "sampling").choices.moves == "algorithm_1":
            text += (
                " In this profile it is smaller than the paper's, as more cases are copied than by "
                "the authors' code, which leaves variants out that are only copied."
            )
        header = ("g", "of the log", f"of {N_RELEASES} releases", "paper")
        yield Section("Table 7: mean epsilon_t", text, [Table(header, rows)], "epsilon-t")

    def active(self, log: Log, table: Figures, spec: Row) -> Iterator[Section]:
        """Yields Figure 3."""
        advantage = self._advantages[0]
        lines: dict[str, Any] = {}
        best = table.best("edge_frequency_emd", f"{PRIPEL} at {_OF_TIMES}, k = *", advantage)
        arms = {"the log": THE_LOG, **{arm: arm for arm in _MODES.values()}, PRIPEL: best}
        for label, arm in arms.items():
            for counts in table.values("active_cases", arm or "", advantage)[:1]:
                lines[label] = counts
        days = (_times(log) - _times(log)[0]) / DAY_US
        chart = Lines("days since the log's first event", "active cases", days.tolist(), lines)
        yield Section(
            f"Figure 3: active cases over time, g = {advantage}",
            f"Of the first release each; over the log's own {format_figure(float(days[-1]))} days.",
            [chart],
            "figure-3",
        )


# Beside minutes and months, which the paper has as m both.
_UNITS = (
    (31_557_600, "y"), (2_629_800, "months"), (604_800, "w"), (86_400, "d"), (3_600, "h"),
    (60, "m"), (1, "s"),
)  # fmt: skip


def span(us: float) -> str:
    """Returns a duration in the largest unit that it has one of, such as 4.03 w."""
    for seconds, unit in _UNITS:
        if us >= seconds * 1_000_000:
            return f"{us / seconds / 1e6:.3g} {unit}"
    return "inst." if us == 0 else f"{us / 1000:.3g} ms"


def _amun_described(log: Log) -> Described | None:
    return described(log.traces.n_cases, log.traces.n_events, log.variants.n_variants)


def _times(log: Log) -> np.ndarray:
    """int64[n]: times at equal distances over the log."""
    times = log.traces.times
    return np.linspace(int(times.min()), int(times.max()), _N_TIMES).astype(np.int64)


def active_cases(traces: TraceBatch, times: np.ndarray) -> np.ndarray:
    """Returns int64[n_times], how many cases have begun and not ended at each time.

    Args:
        traces: The cases.
        times: int64[n_times], microseconds since 1970-01-01 UTC.
    """
    ends = traces.times[traces.offsets[1:] - 1]
    begun = np.searchsorted(np.sort(traces.starts), times, side="right")
    return begun - np.searchsorted(np.sort(ends), times, side="left")
