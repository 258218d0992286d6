"""What the numbers of a released log say of the original one: intervals from what was measured.

A log is drawn so that it agrees with many noisy sums. Each of its numbers is one of three kinds:

* measured: there is a noisy sum of the same thing, such as the cases that take an arc. The interval
  is that of the noise around the sum, corrected by what clipping took.
* derived: there are sums that it follows from, such as the mean duration from cases by duration.
* modelled: there is none. It is no figure, and has no interval.

The value of a figure is what the released log says, and the interval is what the sums say: where
the log was drawn off a sum, the interval reaches from one to the other. Only what was released is
read, so whoever has the release computes the same; no key, and no other source of noise.
"""

from __future__ import annotations

from typing import Protocol

from tracecloak.anonymizers.logs.flow_figures import flow_figures
from tracecloak.anonymizers.logs.time_figures import time_figures, wait_figures
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.figures import ReleasedFigures
from tracecloak.schemas.published.measures import GROUP, ReleasedMeasures
from tracecloak.schemas.published.product import ReleasedProduct
from tracecloak.schemas.statistics.log_times import LogTimes
from tracecloak.schemas.statistics.variants import VariantHistogram


class CountedLog(Protocol):
    """What is counted on a released log."""

    @property
    def variants(self) -> VariantHistogram:
        """Its variants."""

    @property
    def times(self) -> LogTimes:
        """When its cases begin, and how long they take."""

    @property
    def names(self) -> ActivityVocabulary:
        """What the codes mean."""


def figures_of_log(measures: ReleasedMeasures, log: CountedLog) -> dict[str, ReleasedProduct]:
    """Returns the figures of a released log, and its groups if any, by the name of their files.

    Args:
        measures: The noisy sums that it was drawn from.
        log: What was counted on it.
    """
    flow = list(flow_figures(measures, log.variants, log.names))
    times = time_figures(measures, log.times)
    paths = (figure for figure in flow if figure.name == "path")
    waits = wait_figures(measures, paths, log.times, log.names)
    figures = {"figures": ReleasedFigures.of_noisy([*flow, *times, *waits])}
    if not measures.rows(GROUP):
        return {**figures}
    from tracecloak.anonymizers.logs.group_figures import groups_of_log

    return {**figures, "groups": groups_of_log(measures, log.variants, log.names)}
