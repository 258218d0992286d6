"""TLKC privacy in plain Python: all knowledge of each case is written out, and cases are counted.

Shares nothing with the product but the traces; for logs of a few short cases.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from tests.support.tlkc_logs import DISEASE, HOUR_US, RESOURCE, Case
from tracecloak.schemas.events.traces import TraceBatch

KINDS = ("set", "multiset", "sequence", "relative")
PERSPECTIVES = ("activity", "resource", "activity_resource")
TWELVE = [(kind, perspective) for kind in KINDS for perspective in PERSPECTIVES]

Piece = tuple[Hashable, ...]
VALUES = ("x", "y", "z")
RESOURCES = ("R1", "R2")


def elements_of(traces: TraceBatch, kind: str, perspective: str) -> list[list[Hashable]]:
    """What is known of each event, by case, to the hour; events without an element left out."""
    names = traces.vocabulary.names.to_pylist()
    resources = traces.attributes[RESOURCE].to_pylist() if RESOURCE in traces.attributes else None
    cases = []
    for first, last in itertools.pairwise(traces.offsets.tolist()):
        known: list[Hashable] = []
        start = int(traces.times[first]) // HOUR_US
        for event in range(first, last):
            activity = names[traces.activities[event]]
            resource = resources[event] if resources else None
            element: Hashable = {
                "activity": activity,
                "resource": resource,
                "activity_resource": (activity, resource or ""),
            }[perspective]
            if element is None:
                continue
            hour = int(traces.times[event]) // HOUR_US - start
            known.append((element, hour) if kind == "relative" else element)
        cases.append(known)
    return cases


def pieces_of(known: Sequence[Any], kind: str, length: int) -> set[Piece]:
    """All knowledge of a case, of nothing too; sets and multisets as sorted tuples."""
    if kind == "set":
        known = sorted(set(known))
    if kind == "multiset":
        known = sorted(known)
    return {piece for size in range(length + 1) for piece in itertools.combinations(known, size)}


@dataclass(frozen=True)
class Naive:
    """What is known of a log.

    Attributes:
        cases: By piece of knowledge, the numbers of the cases that match.
        shares: By piece, the largest share of a sensitive value among them.
    """

    cases: dict[Piece, list[int]]
    shares: dict[Piece, Fraction]

    def violating(self, k: int, confidence: Fraction) -> set[Piece]:
        """All that violates."""
        return {
            piece
            for piece, cases in self.cases.items()
            if len(cases) < k or self.shares[piece] > confidence
        }

    def minimal(self, k: int, confidence: Fraction) -> set[Piece]:
        """What violates, and no proper part of it does, the knowledge of nothing left aside."""
        violating = self.violating(k, confidence)
        return {
            piece
            for piece in violating - {()}
            if not any(
                part in violating
                for size in range(1, len(piece))
                for part in itertools.combinations(piece, size)
            )
        }


def naive(
    traces: TraceBatch, kind: str, perspective: str, length: int, sensitive: Iterable[str] = ()
) -> Naive:
    """Goes through all knowledge of all cases."""
    cases: dict[Piece, list[int]] = {}
    for number, known in enumerate(elements_of(traces, kind, perspective)):
        for piece in pieces_of(known, kind, length):
            cases.setdefault(piece, []).append(number)
    shares = dict.fromkeys(cases, Fraction(0))
    for name in sensitive:
        values = [traces.attributes[name].to_pylist()[first] for first in traces.offsets[:-1]]
        for piece, numbers in cases.items():
            own = [values[number] for number in numbers if values[number] is not None]
            most = max((own.count(value) for value in set(own)), default=0)
            shares[piece] = max(shares[piece], Fraction(most, len(numbers)))
    return Naive(cases, shares)


def small_logs(max_cases: int = 7, max_events: int = 4) -> st.SearchStrategy[Mapping[str, Case]]:
    """A few short cases of two activities and two resources, some missing, hours apart."""
    event = st.tuples(st.sampled_from("AB"), st.sampled_from([*RESOURCES, None]), st.integers(0, 2))
    case = st.tuples(
        st.lists(event, min_size=1, max_size=max_events), st.sampled_from([*VALUES, None])
    )

    def built(found: list[Any]) -> dict[str, Case]:
        return {
            f"c{number}": (
                [(a, r, hour * HOUR_US) for a, r, hour in sorted(events, key=lambda e: e[2])],
                {DISEASE: value},
            )
            for number, (events, value) in enumerate(found)
        }

    return st.lists(case, min_size=1, max_size=max_cases).map(built)
