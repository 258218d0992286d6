"""Trees of released graphs and variants: those of logs whose release has no noise."""

from __future__ import annotations

from tests.support.logs import histogram, trace_batch
from tests.support.trees import language
from tracecloak.anonymizers.trees.of_release import tree_of_graph, tree_of_variants
from tracecloak.schemas.models.process_tree import flower, normalise, parse_tree
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows

TREE = "->( 'A', +( 'B', 'C' ), X( 'D', 'E' ) )"


def test_the_tree_of_a_graph() -> None:
    words = sorted(language(parse_tree(TREE), 5))
    traces = trace_batch({f"c{i}": " ".join(word) for i, word in enumerate(words)})
    flows = DirectlyFollows.from_traces(traces)
    graph = ReleasedGraph(
        traces.vocabulary.names, flows.sources, flows.targets, flows.counts, flows.counts,
        flows.counts,
    )  # fmt: skip
    assert str(tree_of_graph(graph)) == TREE
    assert str(tree_of_graph(graph, 100)) == TREE
    assert str(tree_of_graph(graph, 1)) == "'A'"


def test_the_tree_of_variants_is_precise_and_fits() -> None:
    counts = dict.fromkeys(language(parse_tree(TREE), 5), 50)
    counts[tuple("ED")] = 1  # one odd case does not make everything possible
    tree = tree_of_variants(histogram(counts, "ABCDE"), "ABCDE")
    assert str(tree) == TREE
    assert tree != normalise(flower("ABCDE"))
