"""How many cases a few of their events single out, as one share that is quick to compute.

Nuñez von Voigt, Fahrenkrog-Petersen, Janssen, Koschmider, Tschorsch, Mannhardt, Landsiedel and
Weidlich: Quantifying the Re-identification Risk of Event Logs for Process Mining, CAiSE 2020. They
draw points of a case at random, and ask of how many cases these points are in no other case. Here
the points are of the original and are looked for in a release, as `examination.linkage.run` does.

The same points are drawn of a log each time, so what releases differ by is no chance of the points.
Computed on raw data, for the operator only.
"""

from __future__ import annotations

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.release_key import KEY_BYTES, ReleaseKey
from tracecloak.examination.linkage.knowledge import KnownVictims, Settings, target_of
from tracecloak.schemas.statistics.background_knowledge import CaseTable, Kind

# Events that are known of a case.
N_KNOWN = 10
# Cases, each with points of its own, that are drawn where there are more pieces of knowledge than
# that. A share of a half then has a standard error of 0.011.
_N_DRAWN = 2_000


class SingledOut:
    """What is known of the cases of an original, and in how many of them it fits one released case.

    Args:
        original: Its cases; words are elements of `Knowledge.words`.
        kind: `sequence` or `relative`, as in these words.
    """

    def __init__(self, original: CaseTable, kind: Kind) -> None:
        self._kind = kind
        table, self._elements = original.canonical(kind, 1)
        settings = Settings(n_samples=_N_DRAWN, most_exact=_N_DRAWN)
        # The points are no secret: who computes this has the log.
        randomness = Randomness(ReleaseKey(bytes(KEY_BYTES)), "singled-out", "", "")
        victims = KnownVictims(table.filled(), self._elements, ())
        self._pieces = victims.pieces(N_KNOWN, settings, randomness, kind)

    def share(self, released: CaseTable) -> float:
        """Returns the share of the original's cases of which the points fit one released case.

        Args:
            released: Cases of a release, or of the original itself, in the same words.
        """
        rows = released.canonical(self._kind, 1)
        target = target_of("release", *rows, self._elements, self._kind)
        is_alone = target.matched(self._pieces).sizes == 1
        return float(np.average(is_alone, weights=self._pieces.mass))
