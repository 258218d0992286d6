"""What a page shows of the variants of a log, as JSON values; see `figures_data`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.variants import ReleasedVariants, most_frequent_first
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.models.plain_names import plain_name

if TYPE_CHECKING:
    from tracecloak.schemas.published.figures import ReleasedFigures

MAX_VARIANTS = 300

_MAX_EVENTS = 120  # of a variant


def variants_of_log(variants: VariantHistogram, vocabulary: ActivityVocabulary) -> ReleasedVariants:
    """Returns the variants of a released log, the most frequent first."""
    return most_frequent_first(vocabulary.names, variants.offsets, variants.codes, variants.counts)


def variants_data(
    variants: ReleasedVariants, map_names: list[str], figures: ReleasedFigures | None = None
) -> dict[str, Any]:
    """Returns the most frequent variants, with codes that are those of a map where it has them.

    Args:
        variants: The most frequent first.
        map_names: Names of the activities of the map by code, "" for its start and end.
        figures: Intervals of some of them, where they are those of a log.
    """
    known = {} if figures is None else {row.of: row for row in figures.rows()}
    texts = variants.names.to_pylist()
    names = list(map_names)
    place = {name: code for code, name in enumerate(names) if name}
    words = [plain_name(name) for name in texts]
    rows = []
    for i in range(min(variants.n_variants, MAX_VARIANTS)):
        first, last = variants.offsets[i], variants.offsets[i + 1]
        codes = []
        for code in variants.codes[first : min(last, first + _MAX_EVENTS)].tolist():
            if words[code] not in place:
                place[words[code]] = len(names)
                names.append(words[code])
            codes.append(place[words[code]])
        label = " → ".join(texts[code] for code in variants.codes[first:last].tolist())
        figure = known.get((label,))
        low, high = (None, None) if figure is None else (figure.low, figure.high)
        if variants.lows is not None and variants.highs is not None:
            low, high = int(variants.lows[i]), int(variants.highs[i])
        rows.append(
            {
                "codes": codes,
                "n_events": int(last - first),
                "count": int(variants.counts[i]),
                "low": low,
                "high": high,
            }
        )
    return {"names": names, "rows": rows, "n_cases": variants.n_cases}
