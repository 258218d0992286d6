"""`tracecloak experiment amun`: the evaluation of the Amun paper, on given logs.

Elkoumy, Pankova and Dumas ("Differentially Private Release of Event Logs for Process Mining"),
section 4: Amun by sampling, filtering and oversampling beside PRIPEL and SaCoFa, which get Amun's
mean epsilon; Tables 6 to 8 and Figure 3. Beside them, what Amun makes of the number of cases and of
the steps, which are the times between an event and the one before it in its case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tracecloak.anonymizers.amun.guessing_advantage import (
    advantage_of_oversampling,
    epsilon_of_counts,
)
from tracecloak.anonymizers.amun.method import Amun
from tracecloak.anonymizers.amun.params import (
    DAY_US,
    PROFILES,
    AmunParams,
    ticks_of,
)
from tracecloak.anonymizers.contract.in_memory import decide
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.pipelines.experiments.compare import Row
from tracecloak.pipelines.experiments.grids import (
    NOTHING,
    Cell,
    Flag,
    Grid,
    Lines,
    Log,
    Released,
    Section,
    Table,
    active_cases,
    median_of,
    numbers,
    quartiles_shown,
    shown,
    values_of,
)
from tracecloak.pipelines.measure import measures, utility
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
from tracecloak.schemas.statistics.durations import DurationTable
from tracecloak.schemas.statistics.variants import VariantHistogram

_MODES = {"sampling": "Amun, sampling", "filtering": "Amun, filtering",
          "oversampling": "Amun, oversampling"}  # fmt: skip
_PRIPEL, _SACOFA = "PRIPEL", "SaCoFa"
_OF_COUNTS, _OF_TIMES = "epsilon_d", "epsilon_t"
_PROFILES = tuple(PROFILES)
_HOUR_US = 3_600_000_000
# Times at which active cases are counted.
_N_TIMES = 121


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
        Flag("profile", "Amun's reading: reference, the authors' code, or paper (default "
             "reference)"),
    )  # fmt: skip

    def __init__(self, flags: Mapping[str, str | None]) -> None:
        self._advantages = numbers(
            "guessing_advantages", flags["guessing_advantages"], ("0.2", "0.3", "0.4"), 0, 0.999
        )
        self._pruning = numbers("pruning", flags["pruning"], ("0.5", "1", "5"), 0, 100)
        self._profile = flags["profile"] or "reference"
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
        """Returns the mean epsilon of the times, with two decimals as in the paper."""
        key = log.name, advantage
        if key not in self._epsilons:
            params = self._params(advantage, "sampling")
            self._epsilons[key] = f"{mean_epsilon_of_times(log.traces, params):.2f}"
        return self._epsilons[key]

    def cells(self, log: Log) -> Iterator[Cell]:
        """Yields Amun's modes, and the others at its mean epsilons with every threshold."""
        for advantage in self._advantages:
            g = float(advantage)
            of_counts, of_times = _epsilon_d(g), self.epsilon_of_times(log, advantage)
            for mode, arm in _MODES.items():
                params = {"guessing_advantage": g, "mode": mode, "profile": self._profile}
                own = f"{self._params(advantage, mode).epsilon_d:.4f}"
                yield Cell(arm, advantage, own, "amun", params, needs_log=True)
            for share in self._pruning:
                for method, kind, epsilon in (
                    (_PRIPEL, _OF_COUNTS, of_counts),
                    (_PRIPEL, _OF_TIMES, of_times),
                    (_SACOFA, _OF_COUNTS, of_counts),
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
        found: Row = {
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
            own = log.traces.recode(log.vocabulary)
            found["edge_frequency_emd"] = measures.edge_frequency_emd(
                _edges(own), _edges(released.traces)
            )
            found["edge_time_emd_months"] = measures.edge_time_emd(
                _hours(own), _hours(released.traces)
            )
            found["active_cases"] = active_cases(released.traces, _times(log)).tolist()
            found.update(_of_steps(released.traces))
        return found

    def notes(self) -> Sequence[str]:
        """Returns what differs from the paper."""
        return (
            "After Elkoumy, Pankova and Dumas, Differentially Private Release of Event Logs for "
            "Process Mining. Amun's one parameter is the guessing advantage; PRIPEL and SaCoFa get "
            "the epsilon that Amun estimates from it, epsilon_d for the control flow or the mean "
            "epsilon_t of the times, prefixes up to the mean length of the cases, and as pruning "
            f"threshold {', '.join(self._pruning)} % of the cases, of which the best median is "
            "shown. All are published methods that have no finite epsilon as a whole, so a small "
            "distance is no merit by itself.",
            self._columns_of_the_paper(),
            f"Amun runs in its profile {self._profile}. Its counts follow Algorithm 1; the "
            "authors' code leaves out variants that were only copied or only deleted, which makes "
            "the Jaccard distances of the paper's Table 6 smaller than those here. It also rounds "
            "the noise of each count up, where here it is rounded to the nearest integer, so "
            "oversampling copies more cases there, and turns noise around that would make a step "
            "negative, where here the step becomes 0, so its times are farther from the log's.",
            "SaCoFa releases no times and is in Table 6 alone. Run times are from reading the file "
            "to the released cases in memory, in one process.",
        )

    def _columns_of_the_paper(self) -> str:
        """Returns what oversampling is in this profile and in the paper's tables."""
        own = [(g, self._params(g, "oversampling")) for g in self._advantages]
        epsilons = ", ".join(f"{params.epsilon_d:.4f} at {g}" for g, params in own)
        if own[0][1].choices.oversampling_epsilon == "proposition_a6":
            return (
                f"In the profile {self._profile} oversampling takes the epsilon of Proposition A.6 "
                f"({epsilons}). It is not the epsilon_d of the tables, which sampling and "
                "filtering take, and copies about five times as many cases as that one would. The "
                "authors' code made the paper's columns of oversampling with epsilon_d, so the "
                "figures here are several times those; the profile reference repeats them."
            )
        allowed = ", ".join(
            f"{advantage_of_oversampling(params.epsilon_d):.2f} at {g}" for g, params in own
        )
        return (
            f"In the profile {self._profile} oversampling takes epsilon_d ({epsilons}), as "
            "sampling and filtering do. So does the authors' code, which made the paper's columns "
            "of oversampling. It is not the epsilon that the paper proves for oversampling: by "
            f"Proposition A.6 it allows guessing advantages of {allowed}."
        )

    def sections(self, log: Log, rows: Sequence[Row], own: Row) -> Iterator[Section]:
        """Yields Tables 6 to 8, Figure 3 and the variants that are lost."""
        for title, name, file in (
            ("Table 6: Jaccard distance of the variants", "jaccard_distance", "table-6"),
            (
                "Table 6 as in the authors' code: variants match as far as they begin alike",
                "prefix_jaccard_distance",
                "table-6-prefix",
            ),
        ):
            columns = self._columns(rows, name, _OF_COUNTS, (_PRIPEL, _SACOFA))
            text = "Oversampling keeps every variant: its distance is 0."
            yield Section(title, text, [self._table(log, columns, _OF_COUNTS)], file)
        for title, name, file in (
            ("Table 7: earth mover's distance of frequencies, in events per edge",
             "edge_frequency_emd", "table-7-frequencies"),
            ("Table 7: earth mover's distance of times, in months", "edge_time_emd_months",
             "table-7-times"),
        ):  # fmt: skip
            columns = self._columns(rows, name, _OF_TIMES, (_PRIPEL,))
            yield Section(title, "", [self._table(log, columns, _OF_TIMES)], file)
        timed = [
            {**row, "whole_seconds": row["seconds"] + row["read_seconds"]}
            for row in rows
            if "seconds" in row
        ]
        columns = self._columns(timed, "whole_seconds", _OF_TIMES, (_PRIPEL,))
        yield Section("Table 8: run time, in seconds", "", [self._table(log, columns, None)],
                      "table-8")  # fmt: skip
        yield self._active(log, rows, own)
        yield self._cost(rows, own)
        columns = self._columns(rows, "variants_lost", _OF_TIMES, (_PRIPEL,))
        yield Section(
            "Lost variants", f"Of {log.variants.n_variants}.", [self._table(log, columns, None)],
            "lost-variants",
        )  # fmt: skip

    def _columns(
        self, rows: Sequence[Row], name: str, kind: str, others: Sequence[str]
    ) -> dict[str, dict[str, str]]:
        """Returns quartiles by arm and advantage; of the others those of the best threshold."""
        found: dict[str, dict[str, str]] = {}
        for advantage in self._advantages:
            for arm in _MODES.values():
                found.setdefault(arm, {})[advantage] = quartiles_shown(
                    values_of(rows, name, arm=arm, level=advantage)
                )
            for method in others:
                best = self._best(rows, name, method, kind, advantage)
                found.setdefault(method, {})[advantage] = (
                    NOTHING
                    if best is None
                    else quartiles_shown(
                        values_of(rows, name, arm=_arm(method, kind, best), level=advantage)
                    )
                    + f" at {best} %"
                )
        return {arm: own for arm, own in found.items() if set(own.values()) != {NOTHING}}

    def _best(
        self, rows: Sequence[Row], name: str, method: str, kind: str, advantage: str
    ) -> str | None:
        """Returns the threshold with the smallest median; None without any."""
        medians = {
            share: median
            for share in self._pruning
            if (
                median := median_of(
                    values_of(rows, name, arm=_arm(method, kind, share), level=advantage)
                )
            )
            is not None
        }
        return min(medians, key=lambda share: medians[share]) if medians else None

    def _table(self, log: Log, columns: Mapping[str, Mapping[str, str]], kind: str | None) -> Table:
        rows = []
        for advantage in self._advantages:
            epsilons = {
                None: [],
                _OF_COUNTS: [_epsilon_d(float(advantage))],
                _OF_TIMES: [self.epsilon_of_times(log, advantage)],
            }
            rows.append((advantage, *epsilons[kind], *(own[advantage] for own in columns.values())))
        return Table(("g", *([kind] if kind else []), *columns), rows)

    def _cost(self, rows: Sequence[Row], own: Row) -> Section:
        names = ("relative_cases", "mean_step_hours", "zero_steps")
        shown_rows = [("the log", NOTHING, *(shown(own.get(name)) for name in names))]
        for arm in _MODES.values():
            for advantage in self._advantages:
                found = [values_of(rows, name, arm=arm, level=advantage) for name in names]
                shown_rows.append((arm, advantage, *map(quartiles_shown, found)))
        header = ("", "g", "cases, of the log's", "mean step, in hours", "share of steps of 0")
        return Section(
            f"Cost in cases and times of the profile {self._profile}",
            "A step is the time between an event and the one before it in its case.",
            [Table(header, shown_rows)],
            "cost",
        )

    def _active(self, log: Log, rows: Sequence[Row], own: Row) -> Section:
        advantage = self._advantages[0]
        best = self._best(rows, "edge_frequency_emd", _PRIPEL, _OF_TIMES, advantage)
        arms = {arm: arm for arm in _MODES.values()}
        if best is not None:
            arms[_PRIPEL] = _arm(_PRIPEL, _OF_TIMES, best)
        lines = {"the log": own["active_cases"]}
        for label, arm in arms.items():
            found = values_of(rows, "active_cases", arm=arm, level=advantage)
            if found:
                lines[label] = found[0]
        days = (_times(log) - _times(log)[0]) / DAY_US
        chart = Lines("days since the log's first event", "active cases", days.tolist(), lines)
        return Section(
            f"Figure 3: active cases over time, g = {advantage}",
            f"Of the first release each; over the log's own {shown(float(days[-1]))} days.",
            [chart],
            "figure-3",
        )


def mean_epsilon_of_times(traces: TraceBatch, params: AmunParams) -> float:
    """Returns the mean of the epsilons that Amun estimates for the times of a log, starts included.

    What the paper calls epsilon_t. A time whose group has one value only has the epsilon of the
    least favourable prior, (1 - g) / 2, which is that of the counts.

    Args:
        traces: The log; not empty.
        params: Amun's, in the mode sampling.
    """
    method = Amun()
    key = ReleaseKey.generate()
    decisions: Mapping[str, Any] = decide([traces], method, params, key, "experiment", "")[1]
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
    return float((epsilons * table.counts).sum() / table.counts.sum())


def _of_steps(traces: TraceBatch) -> Row:
    """Returns the mean step in hours and the share of steps of 0; None where no case has two."""
    steps = traces.durations[~traces.is_first]
    if not len(steps):
        return {"mean_step_hours": None, "zero_steps": None}
    return {
        "mean_step_hours": float(steps.mean()) / _HOUR_US,
        "zero_steps": float((steps == 0).mean()),
    }


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
