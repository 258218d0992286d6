"""`tracecloak experiment amun`: the evaluation of the Amun paper, on given logs.

Elkoumy, Pankova and Dumas ("Differentially Private Release of Event Logs for Process Mining"),
section 4: Amun by sampling, filtering and oversampling beside PRIPEL and SaCoFa, which get Amun's
mean epsilon; Tables 6 to 9 and Figure 3. Of a log of the paper each figure stands beside the
printed one, which is of one run, with the reason for which it differs. Beside them, what Amun makes
of the number of cases and of the steps, which are the times between an event and the one before it
in its case. What is shown, stated and printed is in `papers/amun.toml`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tracecloak.anonymizers.amun.method import Amun, ticks_of
from tracecloak.anonymizers.amun.method import Released as ReleasedByAmun
from tracecloak.anonymizers.amun.params import (
    DAY_US,
    AmunParams,
    advantage_of_oversampling,
    epsilon_of_counts,
)
from tracecloak.anonymizers.contract.counters import Batch
from tracecloak.anonymizers.contract.in_memory import Known, MethodRun, execute
from tracecloak.anonymizers.noise.randomness import KEY_BYTES, ReleaseKey
from tracecloak.examination.comparison.contenders import Released
from tracecloak.examination.comparison.original import Original, Side, measured
from tracecloak.examination.comparison.rows import Cell, Row
from tracecloak.examination.experiments.paper import Paper
from tracecloak.examination.experiments.table import (
    NOTHING,
    THE_LOG,
    Figures,
    Lines,
    Section,
    format_figure,
    format_quartiles,
)
from tracecloak.examination.measure.behaviour_measures import edges_of
from tracecloak.examination.measure.utility import case_durations_us
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.durations import DurationTable

# --- Amun's epsilons of times, as the paper has them in Table 7: the mean over a log or a release.
# Not here: Amun's own estimate of each (`anonymizers.amun`).


# Releases over which the mean epsilon of the released times is taken.
N_RELEASES = 5


def of_log(traces: TraceBatch, params: AmunParams) -> float:
    """Returns the mean of the epsilons that Amun estimates for the times of a log, starts included.

    Before any is divided by the copies of its case (`released_epsilon`). A time whose group
    has one value only has the epsilon of the least favourable prior, (1 - g) / 2, which is that of
    the counts.

    Args:
        traces: The log; not empty.
        params: Amun's, in the mode sampling.
    """
    _, epsilons, counts = _decided(traces, params, ReleaseKey.generate())
    return float((epsilons * counts).sum() / counts.sum())


def released_epsilon(traces: TraceBatch, params: AmunParams) -> float:
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
        known, epsilons, _ = _decided(traces, params, ReleaseKey(bytes([number]) * KEY_BYTES))
        decisions: Mapping[str, Any] = known.decisions
        released = ReleasedByAmun.of(Batch(traces, decisions, known.randomness), params)
        _, groups, ticks = ticks_of(released.traces, decisions, params)
        event_epsilons = epsilons[decisions["sampling"].times.find(groups, ticks)]
        copies = np.repeat(released.copies, released.traces.lengths)
        if params.choices.divided_epsilons == "steps":
            copies[released.traces.is_first] = 1
        means.append(float((event_epsilons / copies).mean()))
    return float(np.mean(means))


def _decided(
    traces: TraceBatch, params: AmunParams, key: ReleaseKey
) -> tuple[Known, np.ndarray, np.ndarray]:
    """What is decided under a key; float64[n_pairs] and int64[n_pairs], the times' epsilons."""
    known = execute(MethodRun(Amun(), params, key, "experiment", ""), [traces])[2]
    decisions: Mapping[str, Any] = known.decisions
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
    return known, epsilons, table.counts


# --- The evaluation -------------------------------------------------------------------------------

PRIPEL, SACOFA = "PRIPEL", "SaCoFa"
_MODES = {mode: f"Amun, {mode}" for mode in ("sampling", "filtering", "oversampling")}
_OF_COUNTS, _OF_TIMES = "epsilon_d", "epsilon_t"
_HOUR_US = 3_600_000_000
# What is measured of variants, and of logs with times.
_OF_VARIANTS = (
    "jaccard_distance", "prefix_jaccard_distance", "variants_lost", "variants_invented",
)  # fmt: skip
_OF_LOGS = ("edge_frequency_emd", "edge_time_emd_months")
# Times at which active cases are counted.
_N_TIMES = 121


class AmunPaper(Paper):
    """The evaluation; see the module."""

    name: ClassVar[str] = "amun"

    def __init__(self, texts: Mapping[str, str | None]) -> None:
        super().__init__(texts)
        self._advantages: tuple[str, ...] = self.given["guessing_advantages"]
        self._epsilons: dict[tuple[str, str], str] = {}

    def params(self, advantage: str, mode: str) -> AmunParams:
        """Returns Amun's parameters."""
        return AmunParams.model_validate(self._given(advantage, mode))

    def _given(self, advantage: str, mode: str) -> dict[str, Any]:
        profile = self.given["profile"]
        return {"guessing_advantage": float(advantage), "mode": mode, "profile": profile}

    def _epsilon(self, log: Original, kind: str, advantage: str) -> str:
        """Returns the epsilon that the others get.

        That of the times is the mean of releases, with two decimals as in the paper.
        """
        if kind == _OF_COUNTS:
            return f"{epsilon_of_counts(float(advantage)):.4f}"
        key = log.name, advantage
        if key not in self._epsilons:
            params = self.params(advantage, "sampling")
            self._epsilons[key] = f"{released_epsilon(log.traces, params):.2f}"
        return self._epsilons[key]

    def cells(self, log: Original) -> Iterator[Cell]:
        """Yields Amun's modes, and the others at its mean epsilons with every threshold."""
        length = max(round(log.traces.n_events / log.traces.n_cases), 1)
        others = ((PRIPEL, _OF_COUNTS), (PRIPEL, _OF_TIMES), (SACOFA, _OF_COUNTS))
        for advantage in self._advantages:
            for mode, arm in _MODES.items():
                epsilon = f"{self.params(advantage, mode).epsilon_d:.4f}"
                params = self._given(advantage, mode)
                yield Cell(arm, advantage, epsilon, "amun", params, needs_log=True)
            for share in self.given["pruning"]:
                for method, kind in others:
                    epsilon = self._epsilon(log, kind, advantage)
                    params = {
                        "epsilon": epsilon,
                        "max_prefix_length": length,
                        "p_harmful": max(round(float(share) / 100 * log.traces.n_cases), 1),
                    }
                    arm = f"{method} at {kind}, k = {share} %"
                    needs_log = kind == _OF_TIMES
                    yield Cell(arm, advantage, epsilon, method.lower(), params, needs_log)

    def figures(self, log: Original, released: Released, cell: Cell) -> Row:
        """Returns the distances of a release; those of its times and graph where it has a log.

        Of the log itself what Table 9 has of it, too.
        """
        after = Side(released.variants, log.vocabulary, released.traces)
        row: Row = {
            "released_cases": after.variants.n_cases,
            "released_variants": after.variants.n_variants,
            **measured(log.side, after, _OF_VARIANTS),
            **dict.fromkeys(_OF_LOGS),
            "active_cases": None,
            "relative_cases": after.variants.n_cases / log.variants.n_cases,
            "mean_step_hours": None,
            "zero_steps": None,
        }
        if after.traces is not None:
            row |= measured(log.side, after, _OF_LOGS)
            row["active_cases"] = active_cases(after.traces, _times(log)).tolist()
            steps = after.traces.durations[~after.traces.is_first]
            if len(steps):  # none where no case has two events
                row["mean_step_hours"] = float(steps.mean()) / _HOUR_US
                row["zero_steps"] = float((steps == 0).mean())
        return row if cell.method else {**row, **_described(log.traces)}

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

    def printed(self, log: Original) -> Mapping[str, Any]:
        """Returns the log of Table 9 with the same numbers of cases, events and variants."""
        identity = log.identity()
        sizes = {name: str(identity[name]) for name in ("cases", "events", "variants")}
        row = self._printed("table_9", **sizes)
        return {name: text if name == "name" else float(text) for name, text in row.items()}

    def _printed(self, table: str, **wanted: str) -> Mapping[str, str]:
        """The first row of a table of the paper that has these cells, or nothing."""
        lines = self.spec[table].strip().replace("; ", ";").splitlines()
        rows = csv.DictReader(lines, delimiter=";")
        return next((row for row in rows if row.items() >= wanted.items()), {})

    def table(self, log: Original, rows: Sequence[Row], log_row: Row) -> Figures:
        """Returns the figures of a log, with the seconds from its file to a release."""
        whole = [
            {**row, "whole_seconds": row["seconds"] + row["read_seconds"]}
            if "seconds" in row
            else row
            for row in rows
        ]
        return super().table(log, whole, log_row)

    def compared(self, log: Original, table: Figures, spec: Row) -> Section:
        """Returns a figure by advantage and arm, beside the paper's and why it differs from it.

        Args:
            log: The log.
            table: Its figures.
            spec: `figure`, its name; `others`, methods beside Amun, of which the best threshold is
                shown, and `of_epsilon`, which epsilon they have; `printed`, the paper's table, of
                which `column` is that of an arm, in figures of which `times` are one here; without
                it the paper prints none.
        """
        figure, kind = spec["figure"], spec["of_epsilon"]
        name = self.printed(log).get("name", "")
        rows = []
        for advantage in self._advantages:
            printed: Mapping[str, str] = {}
            if "printed" in spec:
                printed = self._printed(spec["printed"], name=name, g=f"{float(advantage):g}")
            for arm in (*_MODES.values(), *spec["others"]):
                run: str | None = arm
                if arm in spec["others"]:
                    run = table.best(figure, f"{arm} at {kind}, k = *", advantage)
                if run is None or not (values := table.values(figure, run, advantage)):
                    continue
                cell = printed.get(spec.get("column", "{}").format(arm), NOTHING)
                beside = [NOTHING, NOTHING, NOTHING]
                if cell != NOTHING:
                    there = float(cell) * spec.get("times", 1)
                    why = self.reason(spec["file"], arm)
                    if min(values) <= there <= max(values):
                        why = "within the releases here"
                    ratio = format_figure(float(np.median(values)) / there) if there else NOTHING
                    beside = [format_figure(there), ratio, why]
                here = format_quartiles(values)
                here += f" at {run.partition('k = ')[2]}" if run != arm else ""
                rows.append((advantage, self._epsilon(log, kind, advantage), arm, here, *beside))
        header = ("g", kind, "method", "here", "paper", "here / paper", "why it differs")
        text = spec.get("text", "").format(variants=log.variants.n_variants)
        return Section(spec["title"], text, spec["file"], header, rows)

    def reason(self, file: str, arm: str) -> str:
        """Returns why the figure of an arm in a section is not the paper's."""
        here = {"files": file, "arms": arm, "profiles": self.given["profile"]}
        return "; ".join(
            one["text"]
            for one in self.spec["reasons"]
            if all(value in one.get(name, [value]) for name, value in here.items())
        )

    def epsilons_of_times(self, log: Original, table: Figures, spec: Row) -> Section:
        """Returns the mean epsilons of Table 7, and what they are before they are divided."""
        rows = []
        for advantage in self._advantages:
            plain = of_log(log.traces, self.params(advantage, "sampling"))
            name = self.printed(log).get("name", "")
            printed = self._printed("table_7", name=name, g=f"{float(advantage):g}")
            released = self._epsilon(log, _OF_TIMES, advantage)
            rows.append((advantage, f"{plain:.2f}", released, printed.get("epsilon_t", NOTHING)))
        header = ("g", "of the log", f"of {N_RELEASES} releases", "paper")
        return Section(spec["title"], spec["text"], spec["file"], header, rows)

    def active(self, log: Original, table: Figures, spec: Row) -> Section:
        """Returns Figure 3."""
        advantage = self._advantages[0]
        best = table.best("edge_frequency_emd", f"{PRIPEL} at {_OF_TIMES}, k = *", advantage)
        arms = {"the log": THE_LOG, **{arm: arm for arm in _MODES.values()}, PRIPEL: best or ""}
        known = {label: table.values("active_cases", arm, advantage) for label, arm in arms.items()}
        lines: dict[str, Any] = {label: counts[0] for label, counts in known.items() if counts}
        days = ((_times(log) - _times(log)[0]) / DAY_US).tolist()
        chart = Lines("days since the log's first event", "active cases", days, lines)
        title, text = spec["title"].format(advantage), spec["text"].format(format_figure(days[-1]))
        return Section(title, text, spec["file"], chart=chart)


def _described(traces: TraceBatch) -> Row:
    """What Table 9 has of a log beside its sizes."""
    spans = case_durations_us(traces) / DAY_US
    return {
        "tasks": len(np.unique(traces.activities)),
        "edges": len(edges_of(traces).counts),
        "shortest_trace": int(traces.lengths.min()),
        "longest_trace": int(traces.lengths.max()),
        "shortest_days": float(spans.min()),
        "longest_days": float(spans.max()),
        "mean_days": float(spans.mean()),
    }


def _times(log: Original) -> np.ndarray:
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
