"""How often the intervals of released graphs hold, over many keys, and how wide they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.keys import randomness
from tracecloak.anonymizers.graphs.private_dfg import PrivateDfg, PrivateDfgParams, clip_of
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.graph import ReleasedDurations, ReleasedGraph
from tracecloak.schemas.statistics.clipped_flows import ClippedFlows

_NO_CLIP = 1 << 40
_OF_NOISE = 3.92
METHOD = PrivateDfg()


@dataclass
class Found:
    """What was seen of intervals.

    Attributes:
        n: Intervals.
        holding: Those with the count of the log in them.
        of_noise_alone: Released counts that the quantiles of noise alone would hold for.
        width: Of all together, in those of noise alone.
    """

    n: int = 0
    holding: int = 0
    of_noise_alone: int = 0
    width: float = 0.0

    def add(self, released: ReleasedGraph | ReleasedDurations, true: Any, width: float) -> None:
        """Notes those of a release, given the log's counts and the deviation of the noise."""
        held = (released.lows <= true) & (true <= released.highs)
        self.n += len(held)
        self.holding += int(held.sum())
        self.of_noise_alone += int((np.abs(released.counts - true) <= _OF_NOISE / 2 * width).sum())
        self.width += float((released.highs - released.lows).sum() / (_OF_NOISE * width))

    @property
    def coverage(self) -> float:
        """The share that holds."""
        return self.holding / self.n

    @property
    def mean_width(self) -> float:
        """In those of noise alone."""
        return self.width / self.n


def counts_of(traces: TraceBatch, borders_us: np.ndarray | None) -> dict[int, int]:
    """The log's own counts by cell."""
    flows = ClippedFlows.from_traces(traces, _NO_CLIP, 1, borders_us)
    return dict(zip(flows.keys.tolist(), flows.values.tolist(), strict=True))


def intervals_of(traces: TraceBatch, params: PrivateDfgParams, n_keys: int) -> dict[str, Found]:
    """Returns what was seen of arcs, and of their durations, over releases under so many keys.

    The clips that keys choose are few, and what is counted at them is counted once.

    Args:
        traces: A log, in the public vocabulary.
        params: With a public vocabulary.
        n_keys: Releases.
    """
    true, timed = counts_of(traces, None), {}
    if params.durations:
        timed = counts_of(traces, params.borders_us)
    found = {"edges": Found(), "durations": Found()}
    counted: dict[str, Any] = {}
    means = params.spending.means
    norms = {
        name: counter.count(traces, {}, randomness())
        for name, counter in METHOD.requires("clip", params).items()
    }
    for number in range(n_keys):
        keyed, decisions = randomness(number), {}
        if params.buys_clip:
            decisions["clip"] = METHOD.decide("clip", norms, {}, params, keyed)
            if decisions["clip"].released is not None:
                continue  # test_graph_figures.py has these
        clips = str(decisions)
        if clips not in counted:
            counters = METHOD.requires("edges", params).items()
            counted[clips] = {name: c.count(traces, decisions, keyed) for name, c in counters}
        made = METHOD.decide("edges", counted[clips], decisions, params, keyed)
        side = made.graph.end + 1
        for name, released, exact in (
            ("edges", made.graph, true),
            ("durations", made.durations, timed),
        ):
            if released is None:
                continue
            cells = released.sources.astype(np.int64) * side + released.targets
            if name == "durations":
                cells = cells * params.n_duration_bins + released.bins
            clip = clip_of(decisions, params, name)
            noise = means[name].noise(params.sensitivity(clip), UNITS)
            if params.buys_clip and decisions["clip"].most_lost is not None:
                noise = means["pairs"].noise(params.sensitivity_beyond(clip), UNITS)
            of_log = np.array([exact.get(cell, 0) for cell in cells.tolist()])
            found[name].add(released, of_log, noise.deviation)
    return found
