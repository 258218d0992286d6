"""A log of the size and shape of the hospital log of BPI Challenge 2011, made up.

That log (van Dongen, "Real-life event logs - Hospital log", 2011) has 1,143 cases, 150,291 events
and 624 activities; its longest case has 1,814 events. Some 4,295 pairs follow each other directly,
START and END included, as the bounds that the authors of DPIM use for it are 4,280 and 4,310. Here
names, order and lengths are drawn, and nothing is taken from the log itself: the log has about as
many events and pairs.
"""

from __future__ import annotations

import functools
from itertools import chain

import numpy as np

from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.statistics.variants import VariantHistogram

N_CASES, N_ACTIVITIES = 1_143, 624
LONGEST = 1_814

# Of the lengths, which are lognormal and cut: a median of 54 events and a mean of about 131.
_MEDIAN, _SPREAD = 54, 1.35
# Activities that may follow one, and by which power of its place each is rarer than the first.
_N_WAYS, _SKEW = 7, 1.35
# So often a walk goes to the next number in place of a drawn way, which brings it everywhere.
_NEXT = 0.05


@functools.cache
def hospital_2011(seed: int = 2011) -> tuple[VariantHistogram, ActivityVocabulary]:
    """Returns variants and vocabulary; the same seed gives the same log.

    A case is a walk. From each activity a few others may follow, the first of them by far the most
    often and the common ones from many, so that a few pairs are frequent and most are rare.
    """
    random = np.random.default_rng(seed)
    popularity = np.arange(1, N_ACTIVITIES + 1) ** -0.8
    popularity /= popularity.sum()
    ways = np.array(
        [
            random.choice(N_ACTIVITIES, _N_WAYS, replace=False, p=popularity)
            for _ in range(N_ACTIVITIES)
        ]
    )
    rank = np.cumsum(np.arange(1, _N_WAYS + 1) ** -_SKEW)
    lengths = np.exp(random.normal(np.log(_MEDIAN), _SPREAD, N_CASES)).astype(np.int64)
    cases: list[list[int]] = []
    for n in np.clip(lengths, 1, LONGEST - 1).tolist():
        drawn = np.searchsorted(rank, random.random(n) * rank[-1]).tolist()
        goes_next = (random.random(n) < _NEXT).tolist()
        at, case = int(random.integers(0, 40)), []
        for way, is_next in zip(drawn, goes_next, strict=True):
            case.append(at)
            at = (at + 1) % N_ACTIVITIES if is_next else int(ways[at, way])
        cases.append(case)
    # Whatever no walk came to is what some long case ends with.
    missing = sorted(set(range(N_ACTIVITIES)) - set(chain(*cases)))
    for case, code in zip(sorted(cases, key=len, reverse=True), missing, strict=False):
        case.append(code)
    offsets = np.cumsum([0, *map(len, cases)], dtype=np.int64)
    codes = np.array(list(chain(*cases)), np.int32)
    names = [f"treatment {code:03}" for code in range(N_ACTIVITIES)]
    return (
        VariantHistogram.from_sequences(
            encode_sequences(offsets, codes), np.ones(N_CASES, np.int64)
        ),
        ActivityVocabulary.of(names),
    )
