"""k-anonymity of variants by leaving events out: Baseline-2 of the TLKC paper.

Rafiei, van der Aalst: Group-Based Privacy Preservation Techniques for Process Mining, section 5.1.
Each variant that fewer than k cases have is mapped to the most similar subtrace that k or more have
after all are mapped, by removing events; one for which there is none is removed. Others stay. Known
are a case's sequence of elements and, if so declared, its relative times, as in
`anonymizers.tlkc.k_anonymous_variants`.

The paper does not say how the subtraces are found, and to remove the fewest events is a clustering
problem, for which a greedy way is taken here; see `anonymizers.tlkc.subtrace_groups`. On the
paper's Table 3 it removes as few events as can be: 10 for k = 2 and 18 for k = 4, where the paper
removes 12 and 18.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tracecloak.anonymizers.tlkc.k_anonymous_variants import KAnonymous
from tracecloak.anonymizers.tlkc.params import KAnonymousParams
from tracecloak.anonymizers.tlkc.subtrace_groups import BLOCK, Group, grouped
from tracecloak.schemas.arrays.merging import offsets_of
from tracecloak.schemas.statistics.background_knowledge import CaseTable, distinct

# Characters that stand for elements: all but the surrogates, which no text may have.
_SURROGATES = 0xD800, 0x800
_MAX_CHARACTERS = 0x110000 - _SURROGATES[1] - 1


class KAnonymousSubtraces(KAnonymous):
    """The method; see the module."""

    name: ClassVar[str] = "k-anonymous-subtraces"
    summary: ClassVar[str] = "cuts rare variants to subtraces that k or more cases have"

    def explain(self, params: KAnonymousParams) -> tuple[str, ...]:
        """Returns one sentence for the round."""
        return (
            f"suppression: counts the variants, and leaves events of those of fewer than "
            f"{params.k} cases out until each is that of {params.k} cases; where there is no way, "
            "the case goes",
        )

    def _is_kept(self, cases: CaseTable, rare: np.ndarray, k: int) -> np.ndarray:
        """Which events of the rare variants stay."""
        lengths = np.diff(cases.offsets)
        begin = offsets_of(lengths[rare])
        is_kept = np.zeros(int(begin[-1]), bool)
        texts = _Texts.of(cases, rare)
        groups = [Group(texts.rare[i], int(cases.counts[rare[i]]), [i]) for i in range(len(rare))]
        for group in grouped(groups, texts.frequent, k):
            for member in group.members:
                places = texts.places[member]
                at = -1
                for character in group.text:
                    at = texts.rare[member].index(character, at + 1)
                    is_kept[begin[member] + places[at]] = True
        return is_kept


@dataclass(frozen=True)
class _Texts:
    """Variants as texts of the elements that at least two variants have; the others go anyway.

    `places` says where each character of a rare variant is in it; `frequent` are the variants that
    stay, the most frequent first.
    """

    rare: list[str]
    places: list[np.ndarray]
    frequent: list[str]

    @classmethod
    def of(cls, cases: CaseTable, rare: np.ndarray) -> _Texts:
        lengths = np.diff(cases.offsets)
        row = np.repeat(np.arange(len(lengths)), lengths)
        elements, items = np.unique(cases.words, return_inverse=True)
        pairs = distinct(row * max(len(elements), 1) + items)
        n_rows = np.bincount(pairs % max(len(elements), 1), minlength=len(elements))
        # The most common elements come first, so that only rare ones can be without a character.
        order = np.argsort(-n_rows, kind="stable")
        rank = np.empty(len(elements), np.int64)
        rank[order] = np.arange(len(elements))
        shared = (n_rows > 1) & (rank < _MAX_CHARACTERS)
        character = rank + 1
        character[character >= _SURROGATES[0]] += _SURROGATES[1]

        def text_of(i: int, has_all: bool) -> tuple[str, np.ndarray]:
            codes = items[cases.offsets[i] : cases.offsets[i + 1]]
            places = np.flatnonzero(shared[codes])
            if has_all and len(places) < len(codes):
                return "", places
            return character[codes[places]].astype(np.uint32).tobytes().decode("utf-32-le"), places

        rare_texts = [text_of(i, False) for i in rare.tolist()]
        others = np.setdiff1d(np.arange(len(lengths)), rare)
        others = others[np.argsort(-cases.counts[others], kind="stable")][:BLOCK]
        frequent = [text_of(i, True)[0] for i in others.tolist()]
        return cls(
            [text for text, _ in rare_texts],
            [places for _, places in rare_texts],
            [t for t in frequent if t],
        )
