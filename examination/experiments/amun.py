"""`tracecloak experiment amun`: the evaluation of the Amun paper, on given logs.

Elkoumy, Pankova and Dumas ("Differentially Private Release of Event Logs for Process Mining"),
section 4: Amun by sampling, filtering and oversampling beside PRIPEL and SaCoFa, which get Amun's
mean epsilon; Tables 6 to 9 and Figure 3. Of a log of the paper each figure stands beside the
printed one, with the reason for which it differs. Beside them, what Amun makes of the number of
cases and of the steps, which are the times between an event and the one before it in its case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tracecloak.anonymizers.amun.guessing_advantage import (
    advantage_of_oversampling,
    epsilon_of_counts,
)
from tracecloak.anonymizers.amun.params import (
    DAY_US,
    PROFILES,
    AmunParams,
)
from tracecloak.examination.comparison.compare import Row
from tracecloak.examination.experiments import amun_epsilons, amun_paper
from tracecloak.examination.experiments.amun_paper import (
    FILTERING,
    OVERSAMPLING,
    PRIPEL,
    SACOFA,
    SAMPLING,
    Described,
    described,
)
from tracecloak.examination.experiments.figures import (
    NOTHING,
    median_of,
    quartiles_shown,
    shown,
    values_of,
)
from tracecloak.examination.experiments.grids import (
    Cell,
    Flag,
    Grid,
    Lines,
    Released,
    Section,
    Table,
    active_cases,
    numbers,
)
from tracecloak.examination.experiments.log import Log
from tracecloak.examination.experiments.statements import Statement, at_least, judged, medians
from tracecloak.examination.measure import measures, utility
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
from tracecloak.schemas.statistics.variants import VariantHistogram

_MODES = {"sampling": SAMPLING, "filtering": FILTERING, "oversampling": OVERSAMPLING}
_OF_COUNTS, _OF_TIMES = "epsilon_d", "epsilon_t"
_PROFILES = tuple(PROFILES)
_HOUR_US = 3_600_000_000
# Times at which active cases are counted.
_N_TIMES = 121
_DEFAULT_PROFILE = "tables"


_WITHIN = "within the releases here"
_NO_LOG = "The paper has no log with as many cases, events and variants, so none of its figures."
_OF_OTHERS = {
    PRIPEL: "one run there; here all steps are perturbed, by the authors' code few are",
    SACOFA: "one run there, of the authors' code; here the profile reference of sacofa",
}
_OF_TABLE_9 = {
    "tasks": "not said there; names are counted here that occur in the file",
    "edges": "not said there; here pairs of activities that follow each other in a case",
}


class AmunGrid(Grid):
    """The experiment; see the module.

    Args:
        flags: Texts by name: `guessing_advantages`, `pruning` and `profile`, each None where it was
            not given.

    Raises:
        UsageError: One is out of range.
    """

    name: ClassVar[str] = "amun"
    title: ClassVar[str] = "Amun beside PRIPEL and SaCoFa"
    methods: ClassVar[tuple[str, ...]] = ("amun", "pripel", "sacofa")
    flags: ClassVar[tuple[Flag, ...]] = (
        Flag("guessing_advantages", "of Amun; the first is that of Figure 3 (default 0.2,0.3,0.4)"),
        Flag("pruning", "thresholds of PRIPEL and SaCoFa in per cent of the cases, of which the "
             "best is shown (default 0.5,1,5)"),
        Flag("profile", "Amun's reading: tables, which repeats what made those of the paper, "
             "reference, or paper (default tables)"),
    )  # fmt: skip

    def __init__(self, flags: Mapping[str, str | None]) -> None:
        self._advantages = numbers(
            "guessing_advantages", flags["guessing_advantages"], ("0.2", "0.3", "0.4"), 0, 0.999
        )
        self._pruning = numbers("pruning", flags["pruning"], ("0.5", "1", "5"), 0, 100)
        self._profile = flags["profile"] or _DEFAULT_PROFILE
        if self._profile not in _PROFILES:
            raise UsageError(
                f"profile must be one of {', '.join(_PROFILES)}, got {self._profile!r}"
            )
        self._epsilons: dict[tuple[str, str], str] = {}

    def _params(self, advantage: str, mode: str) -> AmunParams:
        return AmunParams.model_validate(
            {"guessing_advantage": float(advantage), "mode": mode, "profile": self._profile}
        )

    def epsilon_of_times(self, log: Log, advantage: str) -> str:
        """Returns the mean epsilon of the released times, with two decimals as in the paper."""
        key = log.name, advantage
        if key not in self._epsilons:
            params = self._params(advantage, "sampling")
            self._epsilons[key] = f"{amun_epsilons.of_releases(log.traces, params):.2f}"
        return self._epsilons[key]

    def cells(self, log: Log) -> Iterator[Cell]:
        """Yields Amun's modes, and the others at its mean epsilons with every threshold."""
        for advantage in self._advantages:
            g = float(advantage)
            of_counts, of_times = _epsilon_d(g), self.epsilon_of_times(log, advantage)
            for mode, arm in _MODES.items():
                params = {"guessing_advantage": g, "mode": mode, "profile": self._profile}
                epsilon_shown = f"{self._params(advantage, mode).epsilon_d:.4f}"
                yield Cell(arm, advantage, epsilon_shown, "amun", params, needs_log=True)
            for share in self._pruning:
                for method, kind, epsilon in (
                    (PRIPEL, _OF_COUNTS, of_counts),
                    (PRIPEL, _OF_TIMES, of_times),
                    (SACOFA, _OF_COUNTS, of_counts),
                ):
                    params = {
                        "epsilon": epsilon,
                        "max_prefix_length": _mean_length(log),
                        "p_harmful": max(round(float(share) / 100 * log.traces.n_cases), 1),
                    }
                    yield Cell(
                        _arm(method, kind, share), advantage, epsilon, method.lower(), params,
                        needs_log=kind == _OF_TIMES,
                    )  # fmt: skip

    def figures(self, log: Log, released: Released, cell: Cell) -> Row:
        """Returns the distances of a release; those of its times and graph where it has a log."""
        before, after = map(_distribution, (log.variants, released.variants))
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
            original = log.traces.recode(log.vocabulary)
            row["edge_frequency_emd"] = measures.edge_frequency_emd(
                _edges(original), _edges(released.traces)
            )
            row["edge_time_emd_months"] = measures.edge_time_emd(
                _hours(original), _hours(released.traces)
            )
            row["active_cases"] = active_cases(released.traces, _times(log)).tolist()
            row.update(_of_steps(released.traces))
        return row

    def noted(self) -> Mapping[str, Any]:
        """Returns what the template of the notes prints."""
        settings = [(g, self._params(g, "oversampling")) for g in self._advantages]
        return {
            "pruning": ", ".join(self._pruning),
            "profile": self._profile,
            "is_a6": settings[0][1].choices.oversampling_epsilon == "proposition_a6",
            "epsilons": ", ".join(f"{params.epsilon_d:.4f} at {g}" for g, params in settings),
            "allowed": ", ".join(
                f"{advantage_of_oversampling(params.epsilon_d):.2f} at {g}"
                for g, params in settings
            ),
        }

    def sections(self, log: Log, rows: Sequence[Row], log_row: Row) -> Iterator[Section]:
        """Yields Tables 6 to 8, Figure 3 and the variants that are lost."""
        of_paper = described(log.traces.n_cases, log.traces.n_events, log.variants.n_variants)
        yield self._described(log, of_paper)
        for title, name, table, file in (
            ("Table 6: Jaccard distance of the variants", "jaccard_distance", "", "table-6"),
            (
                "Table 6 as in the authors' code: variants match as far as they begin alike",
                "prefix_jaccard_distance", "jaccard", "table-6-prefix",
            ),
        ):  # fmt: skip
            text = "Oversampling keeps every variant: its distance is 0."
            if not table:
                text += (
                    " The paper's formula; its own figures are not of it, but of the next table."
                )
            arms = (PRIPEL, SACOFA)
            yield Section(
                title, text, [self._compared(log, rows, name, _OF_COUNTS, arms, table)], file
            )
        yield self._epsilons_of_times(log, of_paper)
        for title, name, table in (
            ("Table 7: earth mover's distance of frequencies, in events per edge",
             "edge_frequency_emd", "frequencies"),
            ("Table 7: earth mover's distance of times, in months", "edge_time_emd_months",
             "times"),
        ):  # fmt: skip
            compared = self._compared(log, rows, name, _OF_TIMES, (PRIPEL,), table)
            yield Section(title, "", [compared], f"table-7-{table}")
        timed = [
            {**row, "whole_seconds": row["seconds"] + row["read_seconds"]}
            for row in rows
            if "seconds" in row
        ]
        compared = self._compared(log, timed, "whole_seconds", None, (PRIPEL,), "seconds")
        yield Section("Table 8: run time, in seconds", "", [compared], "table-8")
        yield self._active(log, rows, log_row)
        yield self._cost(rows, log_row)
        compared = self._compared(log, rows, "variants_lost", None, (PRIPEL,), "lost")
        yield Section(
            "Lost variants", f"Of {log.variants.n_variants}.", [compared], "lost-variants"
        )

    def _compared(
        self,
        log: Log,
        rows: Sequence[Row],
        name: str,
        kind: str | None,
        others: Sequence[str],
        table: str,
    ) -> Table:
        """Returns a figure by advantage and arm, beside the paper's and why it differs from it.

        Args:
            log: The log.
            rows: Its rows.
            name: Of the figure.
            kind: Which epsilon the others have, or None: that of the times, and it is not shown.
            others: Methods beside Amun.
            table: The paper's figures, as in `amun_paper.printed`; empty: it prints none.
        """
        of_paper = described(log.traces.n_cases, log.traces.n_events, log.variants.n_variants)
        columns = self._columns(rows, name, kind or _OF_TIMES, others)
        shown_rows = []
        for advantage in self._advantages:
            epsilons = {
                None: [],
                _OF_COUNTS: [_epsilon_d(float(advantage))],
                _OF_TIMES: [self.epsilon_of_times(log, advantage)],
            }
            for arm, cells in columns.items():
                printed = None
                if of_paper is not None and table:
                    printed = amun_paper.printed(table, of_paper.name, advantage, arm)
                median, values = self._values(rows, name, arm, kind or _OF_TIMES, advantage)
                beside = [NOTHING, NOTHING, NOTHING]
                if printed is not None and median is not None:
                    ratio = shown(median / printed) if printed else NOTHING
                    within = min(values) <= printed <= max(values)
                    reason = self._reason(table, arm)
                    beside = [shown(printed), ratio, _WITHIN if within else reason]
                shown_rows.append((advantage, *epsilons[kind], arm, cells[advantage], *beside))
        header = ("g", *([kind] if kind else []), "method", "here", "paper", "here / paper",
                  "why it differs")  # fmt: skip
        return Table(header, shown_rows)

    def _values(
        self, rows: Sequence[Row], name: str, arm: str, kind: str, advantage: str
    ) -> tuple[float | None, list[float]]:
        """Returns the median and the values of an arm, of others those of the best threshold."""
        if arm in (PRIPEL, SACOFA):
            best = self._best(rows, name, arm, kind, advantage)
            arm = arm if best is None else _arm(arm, kind, best)
        values = values_of(rows, name, arm=arm, level=advantage)
        return median_of(values), values

    def _reason(self, table: str, arm: str) -> str:
        """Returns why a figure is not the paper's."""
        if table == "seconds":
            return "another machine, and other code"
        if arm in (PRIPEL, SACOFA):
            return _OF_OTHERS[arm]
        choices = self._params(self._advantages[0], "oversampling").choices
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

    def statements(self, log: Log, rows: Sequence[Row], log_row: Row) -> Iterator[Statement]:
        """Yields what section 4.3 states, by medians at each guessing advantage."""

        def median(name: str, kind: str, arm: str, advantage: str) -> float | None:
            return self._values(rows, name, arm, kind, advantage)[0]

        def pairs(
            name: str, kind: str, farther: Sequence[str], nearer: Sequence[str]
        ) -> list[tuple[str, float | None, float | None]]:
            return [
                (f"{far} and {near} at {advantage}", median(name, kind, far, advantage),
                 median(name, kind, near, advantage))
                for advantage in self._advantages
                for far in farther
                for near in nearer
            ]  # fmt: skip

        table_6, table_7, figure_3 = (
            f"section 4.3, {x}" for x in ("Table 6", "Table 7", "Figure 3")
        )
        jaccard, edges, times = "jaccard_distance", "edge_frequency_emd", "edge_time_emd_months"
        yield at_least(
            table_6, "sampling has the smallest Jaccard distance",
            pairs(jaccard, _OF_COUNTS, (FILTERING, PRIPEL, SACOFA), (SAMPLING,)),
        )  # fmt: skip
        yield at_least(
            table_6, "sampling with filtering has the second smallest",
            pairs(jaccard, _OF_COUNTS, (PRIPEL, SACOFA), (FILTERING,)),
        )  # fmt: skip
        yield at_least(
            table_7,
            "filtering brings the times nearer to the log than sampling alone, on most logs",
            pairs(times, _OF_TIMES, (SAMPLING,), (FILTERING,)),
        )  # fmt: skip
        for name, what in ((edges, "frequencies"), (times, "times")):
            yield at_least(
                table_7, f"oversampling is farthest from the log by the {what} of edges",
                pairs(name, _OF_TIMES, (OVERSAMPLING,), (SAMPLING, FILTERING)),
            )  # fmt: skip
        yield at_least(
            table_7, "Amun is nearer to the log than PRIPEL by the frequencies of edges",
            pairs(edges, _OF_TIMES, (PRIPEL,), tuple(_MODES.values())),
        )  # fmt: skip
        yield at_least(
            figure_3, "sampling loses fewer variants than filtering, and that fewer than PRIPEL",
            [*pairs("variants_lost", _OF_TIMES, (FILTERING,), (SAMPLING,)),
             *pairs("variants_lost", _OF_TIMES, (PRIPEL,), (FILTERING,))],
        )  # fmt: skip
        lost = {
            advantage: max(most, default=None)
            for advantage in self._advantages
            for most in [values_of(rows, "variants_lost", arm=OVERSAMPLING, level=advantage)]
        }
        figures = ", ".join(f"at most {n:.0f} at {at}" for at, n in lost.items() if n is not None)
        holds = [None if n is None else not n for n in lost.values()]
        yield judged(figure_3, "oversampling loses no variant", holds, figures)

    def _described(self, log: Log, of_paper: Described | None) -> Section:
        """Returns Table 9."""
        traces = log.traces
        lengths = traces.lengths
        spans = traces.times[traces.offsets[1:] - 1] - traces.starts
        known = of_paper
        edges = len(DirectlyFollows.from_traces(traces).inner(traces.vocabulary).counts)
        n_activities = len(np.unique(traces.activities))
        printed: Sequence[Any] = [NOTHING] * 10
        if known is not None:
            printed = [
                known.n_cases, known.n_activities, known.n_events, known.n_edges, known.n_variants,
                *known.lengths, *known.durations,
            ]  # fmt: skip
        of_log: Sequence[Any] = [
            traces.n_cases, n_activities, traces.n_events, edges, log.variants.n_variants,
            int(lengths.min()), int(lengths.max()),
            *map(_span, (float(spans.min()), float(spans.max()), float(spans.mean()))),
        ]  # fmt: skip
        names = (
            "traces", "tasks", "events", "edges", "case variants", "shortest trace",
            "longest trace", "shortest case", "longest case", "mean case",
        )  # fmt: skip
        shown_rows = []
        for name, here, there in zip(names, of_log, printed, strict=True):
            reason = NOTHING
            if known is not None and here != there:
                reason = _OF_TABLE_9.get(name, "printed in other units: s, m, h, d, w, months, y")
            shown_rows.append((name, str(here), str(there), reason))
        text = f"The paper calls this log {known.name}." if known else _NO_LOG
        return Section(
            "Table 9: the log", text,
            [Table(("", "here", "paper", "why it differs"), shown_rows)], "table-9",
        )  # fmt: skip

    def _epsilons_of_times(self, log: Log, of_paper: Described | None) -> Section:
        """Returns the mean epsilons of Table 7, and what they are before they are divided."""
        shown_rows = []
        for advantage in self._advantages:
            plain = amun_epsilons.of_log(log.traces, self._params(advantage, "sampling"))
            printed = None if of_paper is None else amun_paper.epsilon_t(of_paper.name, advantage)
            shown_rows.append(
                (advantage, f"{plain:.2f}", self.epsilon_of_times(log, advantage),
                 NOTHING if printed is None else f"{printed:.2f}")
            )  # fmt: skip
        text = (
            "Over the events of the log, and over those of releases by sampling, where the epsilon "
            "of a step is divided by the copies of its case, the original among them. The authors' "
            "code takes the second, of one release; so does the paper. PRIPEL gets it, too."
        )
        if self._params(self._advantages[0], "sampling").choices.moves == "algorithm_1":
            text += (
                " In this profile it is smaller than the paper's, as more cases are copied than by "
                "the authors' code, which leaves variants out that are only copied."
            )
        header = ("g", "of the log", f"of {amun_epsilons.N_RELEASES} releases", "paper")
        return Section("Table 7: mean epsilon_t", text, [Table(header, shown_rows)], "epsilon-t")

    def _columns(
        self, rows: Sequence[Row], name: str, kind: str, others: Sequence[str]
    ) -> dict[str, dict[str, str]]:
        """Returns quartiles by arm and advantage; of the others those of the best threshold."""
        columns: dict[str, dict[str, str]] = {}
        for advantage in self._advantages:
            for arm in _MODES.values():
                columns.setdefault(arm, {})[advantage] = quartiles_shown(
                    values_of(rows, name, arm=arm, level=advantage)
                )
            for method in others:
                best = self._best(rows, name, method, kind, advantage)
                columns.setdefault(method, {})[advantage] = (
                    NOTHING
                    if best is None
                    else quartiles_shown(
                        values_of(rows, name, arm=_arm(method, kind, best), level=advantage)
                    )
                    + f" at {best} %"
                )
        return {arm: cells for arm, cells in columns.items() if set(cells.values()) != {NOTHING}}

    def _best(
        self, rows: Sequence[Row], name: str, method: str, kind: str, advantage: str
    ) -> str | None:
        """Returns the threshold with the smallest median; None without any."""
        arms = ((share, _arm(method, kind, share)) for share in self._pruning)
        median = medians(rows, name, None)
        found = {
            share: value for share, arm in arms if (value := median(arm, advantage)) is not None
        }
        return min(found, key=lambda share: found[share]) if found else None

    def _cost(self, rows: Sequence[Row], log_row: Row) -> Section:
        names = ("relative_cases", "mean_step_hours", "zero_steps")
        shown_rows = [("the log", NOTHING, *(shown(log_row.get(name)) for name in names))]
        for arm in _MODES.values():
            for advantage in self._advantages:
                values = [values_of(rows, name, arm=arm, level=advantage) for name in names]
                shown_rows.append((arm, advantage, *map(quartiles_shown, values)))
        header = ("", "g", "cases, of the log's", "mean step, in hours", "share of steps of 0")
        return Section(
            f"Cost in cases and times of the profile {self._profile}",
            "A step is the time between an event and the one before it in its case. The paper "
            "prints no figure of these.",
            [Table(header, shown_rows)],
            "cost",
        )

    def _active(self, log: Log, rows: Sequence[Row], log_row: Row) -> Section:
        advantage = self._advantages[0]
        best = self._best(rows, "edge_frequency_emd", PRIPEL, _OF_TIMES, advantage)
        arms = {arm: arm for arm in _MODES.values()}
        if best is not None:
            arms[PRIPEL] = _arm(PRIPEL, _OF_TIMES, best)
        lines = {"the log": log_row["active_cases"]}
        for label, arm in arms.items():
            counts = values_of(rows, "active_cases", arm=arm, level=advantage)
            if counts:
                lines[label] = counts[0]
        days = (_times(log) - _times(log)[0]) / DAY_US
        chart = Lines("days since the log's first event", "active cases", days.tolist(), lines)
        return Section(
            f"Figure 3: active cases over time, g = {advantage}",
            f"Of the first release each; over the log's own {shown(float(days[-1]))} days.",
            [chart],
            "figure-3",
        )


def _of_steps(traces: TraceBatch) -> Row:
    """Returns the mean step in hours and the share of steps of 0; None where no case has two."""
    steps = traces.durations[~traces.is_first]
    if not len(steps):
        return {"mean_step_hours": None, "zero_steps": None}
    return {
        "mean_step_hours": float(steps.mean()) / _HOUR_US,
        "zero_steps": float((steps == 0).mean()),
    }


# Beside minutes and months, which the paper has as m both.
_UNITS = (
    (31_557_600, "y"), (2_629_800, "months"), (604_800, "w"), (86_400, "d"), (3_600, "h"),
    (60, "m"), (1, "s"),
)  # fmt: skip


def _span(us: float) -> str:
    """Returns a duration in the largest unit that it has one of, such as 4.03 w."""
    for seconds, unit in _UNITS:
        if us >= seconds * 1_000_000:
            return f"{us / seconds / 1e6:.3g} {unit}"
    return "inst." if us == 0 else f"{us / 1000:.3g} ms"


def _epsilon_d(g: float) -> str:
    return f"{epsilon_of_counts(g):.4f}"


def _arm(method: str, kind: str, share: str) -> str:
    return f"{method} at {kind}, k = {share} %"


def _mean_length(log: Log) -> int:
    return max(round(log.traces.n_events / log.traces.n_cases), 1)


def _times(log: Log) -> np.ndarray:
    """int64[n]: times at equal distances over the log."""
    times = log.traces.times
    return np.linspace(int(times.min()), int(times.max()), _N_TIMES).astype(np.int64)


def _distribution(variants: VariantHistogram) -> measures.VariantDistribution:
    return measures.VariantDistribution(variants.offsets, variants.codes, variants.counts)


def _edges(traces: TraceBatch) -> measures.EdgeWeights:
    graph = DirectlyFollows.from_traces(traces).inner(traces.vocabulary)
    return measures.EdgeWeights(graph.sources, graph.targets, graph.counts)


def _hours(traces: TraceBatch) -> measures.EdgeWeights:
    later = np.flatnonzero(~traces.is_first)
    codes = traces.activities
    return measures.edge_hours(codes[later - 1], codes[later], traces.durations[later])
