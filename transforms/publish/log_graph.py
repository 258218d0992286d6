"""The directly-follows graph of a released log, as the JSON values of its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracecloak.schemas.events.vocabulary import ActivityVocabulary

if TYPE_CHECKING:
    from tracecloak.schemas.statistics.directly_follows import DirectlyFollows


def log_graph_json(graph: DirectlyFollows, vocabulary: ActivityVocabulary) -> dict[str, Any]:
    """Returns start, end, activities and edges, with ▶ and ■ as start and end.

    Names that only unreleased cases had are not among the activities.

    Args:
        graph: Of the released log.
        vocabulary: Of at least its activities.
    """
    labels = vocabulary.labels
    rows = zip(graph.sources.tolist(), graph.targets.tolist(), graph.counts.tolist(), strict=True)
    used = {code for codes in (graph.sources, graph.targets) for code in codes.tolist()}
    return {
        "start": labels[vocabulary.start],
        "end": labels[vocabulary.end],
        "activities": [labels[code] for code in sorted(used) if code < vocabulary.start],
        "edges": [{"source": labels[s], "target": labels[t], "count": n} for s, t, n in rows],
    }
