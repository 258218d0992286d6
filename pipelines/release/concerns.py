"""What some releases need beside their numbers: windows, sketches, signatures, to be of use.

A concern is one class in one file and one line of `CONCERNS`. The steps of a release (`run`) call
it where it may have something to do, and know nothing else of it: a release that does not ask for
it loads none of its code. What a concern writes before the run, in the workplace of the release or
in the folder of its operator, is there again for the run that goes on after a kill.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.release.values import Concern
from tracecloak.schemas.plugins import load


@dataclass(frozen=True)
class Asked:
    """A concern, and which releases ask for it.

    Attributes:
        key: Key or property of the configuration that asks for it, where it has a value that
            counts; empty: every release does.
        place: Where its class is, as `module:attribute`.
    """

    key: str
    place: str


CONCERNS: dict[str, Asked] = {
    "usable": Asked("expected_cases", "tracecloak.pipelines.release.usable:UsableConcern"),
    "query": Asked("query", "tracecloak.pipelines.release.querying:QueryConcern"),
    "table": Asked("tables", "tracecloak.pipelines.release.querying:TableConcern"),
    "window": Asked("window", "tracecloak.pipelines.release.window:WindowConcern"),
    "sketch": Asked("cases_kept_days", "tracecloak.pipelines.release.sketch:SketchConcern"),
    "signature": Asked("sign", "tracecloak.pipelines.release.signing:SignatureConcern"),
}


def concerns_of(config: ReleaseConfig) -> Iterator[Concern]:
    """Yields the concerns that a configuration asks for."""
    for asked in CONCERNS.values():
        if not asked.key or getattr(config, asked.key):
            yield load(asked.place)()
