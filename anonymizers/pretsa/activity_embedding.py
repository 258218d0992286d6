"""Act2Vec: activities as vectors of their contexts, and how far apart two activities are.

De Koninck, vanden Broucke, De Weerdt: act2vec, trace2vec, log2vec, and model2vec (2018): the
continuous bag of words of Word2Vec with traces for sentences, by gensim. The vectors are learned on
the log itself and are never released.

The same variants, key and epochs give the same vectors on one machine, whatever PYTHONHASHSEED is.
Their last bits follow the processor's floating-point kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.schemas.errors import missing_extra
from tracecloak.schemas.statistics.variants import VariantHistogram

# As the authors of the embedding distance do, gensim's default sizes.
_DIMENSIONS = 100
_WINDOW = 5

# What training takes grows with events times epochs; beyond this many it learns little more.
_EVENTS_TRAINED_ON = 16_000_000
_WORD2VEC_BITS = np.uint64(0xFFFFFFFF)  # its generator starts from 32 bits
_FEWEST_EPOCHS, _MOST_EPOCHS = 5, 1000


def default_epochs(n_events: int) -> int:
    """Returns how often to go through a log of that size: 1000 times if it is small."""
    return min(max(_EVENTS_TRAINED_ON // max(n_events, 1), _FEWEST_EPOCHS), _MOST_EPOCHS)


def event_distances(
    variants: VariantHistogram, randomness: Randomness, epochs: int | None = None
) -> np.ndarray:
    """Returns float64[n_codes, n_codes], 1 - cosine of the vectors, from 0 to 2; 0 to itself.

    Args:
        variants: All variants with their numbers of cases; each case is a sentence.
        randomness: The release's, from which Word2Vec's own generator starts.
        epochs: Passes over the log; None takes `default_epochs`.

    Raises:
        UsageError: The package gensim is not installed.
    """
    try:
        from gensim.models import Word2Vec  # slow to import, and few releases need it
    except ImportError:
        raise missing_extra(
            "distance embedding", "gensim", "embedding", "use distance levenshtein"
        ) from None

    start = randomness.words("pretsa/embedding", cell_numbers(np.zeros(1)))[0, 0]
    n_events = int((np.diff(variants.offsets) * variants.counts).sum())
    model = Word2Vec(
        _Sentences(variants),
        vector_size=_DIMENSIONS,
        window=_WINDOW,
        min_count=1,
        seed=int(start & _WORD2VEC_BITS),  # from the key
        workers=1,  # more of them would race
        epochs=default_epochs(n_events) if epochs is None else epochs,
    )
    n_codes = int(variants.codes.max()) + 1
    vectors = np.zeros((n_codes, _DIMENSIONS))
    known = [int(word) for word in model.wv.index_to_key]
    vectors[known] = model.wv.vectors
    norms = np.linalg.norm(vectors, axis=1)
    vectors /= np.where(norms > 0, norms, 1)[:, None]
    # A matrix product's last bits depend on the number of threads.
    distances = np.clip(1 - np.einsum("ik,jk->ij", vectors, vectors), 0, 2)
    np.fill_diagonal(distances, 0)
    return distances


class _Sentences:
    """The cases, variant by variant, as often as gensim asks for them."""

    def __init__(self, variants: VariantHistogram) -> None:
        words = [str(code) for code in variants.codes.tolist()]
        offsets = variants.offsets.tolist()
        self._variants = [words[a:b] for a, b in pairwise(offsets)]
        self._counts = variants.counts.tolist()

    def __iter__(self) -> Iterator[list[str]]:
        for words, count in zip(self._variants, self._counts, strict=True):
            for _ in range(count):
                yield words
