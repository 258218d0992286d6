"""Amun's epsilons of times, as the paper has them in Table 7: the mean over a log or a release.

Not here: Amun's own estimate of each (`anonymizers.amun`), and the paper's figures
(`amun_paper.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tracecloak.anonymizers.amun.guessing_advantage import epsilon_of_counts
from tracecloak.anonymizers.amun.method import Amun
from tracecloak.anonymizers.amun.params import DAY_US, AmunParams, ticks_of
from tracecloak.anonymizers.amun.release import Released as ReleasedByAmun
from tracecloak.anonymizers.contract.in_memory import decide
from tracecloak.anonymizers.noise.release_key import KEY_BYTES, ReleaseKey
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.durations import DurationTable

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
