"""Attacks across several releases of a growing log: what the earlier one takes from the later one.

Correspondence attacks (Fung, Wang, Fu, Pei, EDBT 2008) with the knowledge of event data that Rafiei
and van der Aalst give them (Privacy-Preserving Continuous Event Data Publishing, 2021). Somebody
knows some elements of a case, as in `examination.linkage.run`, and looks for the cases that match
in two releases. Which of these can be of one case follows from what is supposed of the releases
(`examination.linkage.logs`); how many candidates that leaves is counted by
`examination.linkage.pair_of_releases`.

Who knows that a case is in both releases knows of it what had happened by the earlier one. Known
elements that a release shows nowhere were suppressed there, so they are not looked for in it.
Where events exclude nothing for certain, a known element may be missing from the victim's released
case alone; whoever looks for it all the same may not find the victim. Every two releases are
attacked, not three at once. Computed on raw data, for the operator only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.examination.linkage.knowledge import (
    Estimate,
    KnownVictims,
    Pieces,
    Settings,
    places_of,
)
from tracecloak.examination.linkage.logs import DEFAULT_K
from tracecloak.examination.linkage.matching import PADDING, MatchIndex
from tracecloak.examination.linkage.pair_of_releases import (
    Classes,
    Corresponding,
    ElementCases,
    Pair,
    left,
)
from tracecloak.examination.linkage.run import ATTACKS
from tracecloak.schemas.statistics.background_knowledge import (
    CaseTable,
    Kind,
    Perspective,
    TimeUnit,
    codes_of_words,
)

_LOG = logging.getLogger("tracecloak")

Correspondence = Literal["forward", "cross", "backward", "either"]
# Classes and pieces of knowledge that are looked at in one go.
_CELLS = 1 << 20
# Figures with an interval, of each attack.
_PER_ATTACK = 5


@dataclass(frozen=True)
class Candidates:
    """How many cases can be the victim's.

    Attributes:
        at_worst: The fewest, of all knowledge that some case matches; None: none ever does. An
            upper bound where pieces are drawn.
        median: Over the attacks that some case matches; None: there is none.
        below_k: Share of the attacks that fewer than k cases match, but one at least.
    """

    at_worst: int | None
    median: float | None
    below_k: Estimate


@dataclass(frozen=True)
class Correspondences:
    """One attack across two releases with knowledge of one size.

    Attributes:
        correspondence: Which of the attacks.
        attack: The kind of knowledge by the name that the linkage attacks have for it.
        kind: How what is known is put together.
        perspective: Of what.
        size: Elements that are known, or all that there are.
        k: How many candidates there are to be.
        n_victims: Cases of the original of which something can be known.
        is_exact: Whether all pieces were gone through.
        alone: Candidates in the one release that is searched.
        across: Candidates that the other release leaves.
        reduced: Share of the attacks in which it leaves fewer.
        falls: Share of the attacks with k candidates or more, of which it leaves fewer than k.
        nobody: Share of the attacks that leave no candidate at all.
    """

    correspondence: Correspondence
    attack: str
    kind: Kind
    perspective: Perspective
    size: int
    k: int
    n_victims: int
    is_exact: bool
    alone: Candidates
    across: Candidates
    reduced: Estimate
    falls: Estimate
    nobody: Estimate


@dataclass(frozen=True)
class PairAttacks:
    """What the attacks on two releases find.

    Attributes:
        pair: The releases.
        n_rewritten: Cases of the earlier log with which theirs of the later log does not begin, as
            after late events; what is excluded may be wrong for them.
        without_times: Whether times were not looked at: the releases do not have them to the same
            accuracy, or they are known to another one.
        attacks: By correspondence, kind of knowledge, and size.
    """

    pair: Pair
    n_rewritten: int
    without_times: bool
    attacks: tuple[Correspondences, ...]


def attack_pairs(
    pairs: Sequence[Pair], randomness: Randomness, settings: Settings, k: int | None = None
) -> Iterator[PairAttacks]:
    """Yields what the attacks on each pair find.

    Args:
        pairs: Earlier and later releases.
        randomness: What draws of victims and pieces come from.
        settings: How attacks are made; of times that are compared, the unit is that of the
            releases.
        k: How many candidates there are to be; None: as the release promises that is searched.

    Raises:
        UsageError: A log is empty, is not the beginning of the next, or lacks the resource, or the
            releases contradict what is supposed.
    """
    n_intervals = len(pairs) * 4 * 4 * max(len(settings.sizes), 1) * _PER_ATTACK
    alpha = (1 - settings.confidence) / max(n_intervals, 1)
    for number, pair in enumerate(pairs):
        progress = {"stage": "linkage", "done": number, "total": len(pairs)}
        _LOG.info("pair of releases %d of %d", number + 1, len(pairs), extra=progress)
        yield _attacked(Corresponding(pair), randomness, settings, k, alpha, f"growing/{number}")


def _attacked(
    corresponding: Corresponding,
    randomness: Randomness,
    settings: Settings,
    k: int | None,
    alpha: float,
    purpose: str,
) -> PairAttacks:
    """Makes all attacks on one pair."""
    supposed = corresponding.pair.supposed
    unit = supposed.time_unit if supposed.is_traced else settings.unit
    attacks: list[Correspondences] = []
    for name, (kind, perspective) in ATTACKS.items():
        if perspective != supposed.perspective or (kind == "relative" and unit is None):
            continue
        known = _Known(corresponding, kind, unit or settings.unit)
        for size in settings.sizes:
            of_draw = f"{purpose}/{name}/{size}"
            attacks += known.attacks(name, size, settings, randomness, k, alpha, of_draw)
    return PairAttacks(
        corresponding.pair, corresponding.n_rewritten(), unit is None, tuple(attacks)
    )


class _Known:
    """Knowledge of one kind, and where it is looked for."""

    def __init__(self, pair: Corresponding, kind: Kind, unit: TimeUnit) -> None:
        self._pair, self._kind = pair, kind
        before, after, earlier, later = pair.cases_for(kind, unit)
        self._victims = {
            "both": _victims(before, kind),
            "new": _victims(after.of_cases(pair.is_new), kind),
        }
        # Of a case that goes on something may be known that happened after the earlier release, so
        # that there it need not match. Then who does not know when it came excludes nothing.
        if not pair.supposed.grows:
            self._victims["either"] = _victims(after, kind)
        self._searched = [_Searched(cases.canonical(kind)) for cases in (earlier, later)]

    def attacks(
        self,
        name: str,
        size: int,
        settings: Settings,
        randomness: Randomness,
        k: int | None,
        alpha: float,
        purpose: str,
    ) -> Iterator[Correspondences]:
        """Makes the four attacks with knowledge of one size."""
        supposed = self._pair.pair.supposed
        promised = [making.k or DEFAULT_K for making in (supposed.earlier, supposed.later)]
        for who, victims in self._victims.items():
            if not len(victims.own.counts):
                continue
            drawn = victims.pieces(size, settings, randomness, f"{purpose}/{who}")
            earlier, later, across = self._counted(who, drawn.pieces, victims.elements)
            correspondences: list[tuple[Correspondence, np.ndarray, int]] = [
                ("forward", earlier, promised[0]),
                ("cross", later, promised[1]),
            ]
            if who != "both":
                correspondences = [("backward" if who == "new" else "either", later, promised[1])]
            for correspondence, alone, promise in correspondences:
                demanded = promise if k is None else k
                yield Correspondences(
                    correspondence, name, self._kind, supposed.perspective, size, demanded,
                    victims.own.n_cases, drawn.is_exact,
                    _candidates(drawn, alone, demanded, alpha),
                    _candidates(drawn, across, demanded, alpha),
                    drawn.estimate(across < alone, alpha),
                    drawn.estimate((alone >= demanded) & (across < demanded), alpha),
                    drawn.estimate(across == 0, alpha),
                )  # fmt: skip

    def _counted(
        self, who: str, pieces: np.ndarray, elements: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """int64[n_pieces] each: matches in the earlier and the later release, and what is left."""
        classes, shown = self._pair.classes, self._pair.shown
        step = max(_CELLS // max(len(classes.parents), 1), 1)
        parts = []
        for first in range(0, len(pieces), step):
            earlier, later = (
                searched.by_class(pieces[first : first + step], elements, elements_shown, classes)
                for searched, elements_shown in zip(self._searched, shown, strict=True)
            )
            counted = left(classes, earlier, later)
            across = {"both": counted.both, "new": counted.new, "either": counted.either}[who]
            parts.append((earlier.sum(axis=0), later.sum(axis=0), across))
        one, two, three = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return one, two, three


class _Searched:
    """A release in which pieces are looked for."""

    def __init__(self, canonical: tuple[CaseTable, np.ndarray]) -> None:
        self._table, self._elements = canonical
        self._index = MatchIndex(self._table, len(self._elements))

    def by_class(
        self,
        pieces: np.ndarray,
        elements: np.ndarray,
        shown: np.ndarray | None,
        classes: Classes,
    ) -> np.ndarray:
        """Returns int64[n_classes, n_pieces], the cases that match each piece, by class."""
        item_of = places_of(self._elements, elements)
        # What the release shows nowhere is not looked for.
        is_hidden = np.zeros(len(elements), bool)
        if shown is not None:
            is_hidden = ~np.isin(codes_of_words(elements), shown)
        n = len(classes.parents)
        matches = np.zeros((n, len(pieces)), np.int64)
        cls, counts = self._table.sensitive[:, 0], self._table.counts
        for i, piece in enumerate(pieces):
            elements_of = piece[piece != PADDING]
            rows = self._index.rows_with(item_of[elements_of[~is_hidden[elements_of]]])
            matches[:, i] = np.bincount(cls[rows], counts[rows], n)
        return matches


def _victims(cases: ElementCases, kind: Kind) -> KnownVictims:
    nothing = np.zeros(len(cases.offsets) - 1, np.int64)
    table, words = cases.in_classes(nothing).canonical(kind)
    return KnownVictims(table.filled(), words, ())


def _candidates(drawn: Pieces, sizes: np.ndarray, k: int, alpha: float) -> Candidates:
    some = sizes > 0
    median = None
    if some.any():
        order = np.argsort(sizes[some], kind="stable")
        mass = np.cumsum(drawn.mass[some][order])
        half = np.searchsorted(mass, mass[-1] / 2)
        median = float(sizes[some][order][min(half, len(order) - 1)])
    return Candidates(
        int(sizes[some].min()) if some.any() else None,
        median,
        drawn.estimate(some & (sizes < k), alpha),
    )
