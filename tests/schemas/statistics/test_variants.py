"""Variants and the automata that hold them, against loops and what the paper prints."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.logs import (
    Automaton,
    Variant,
    event_logs,
    histogram,
    naive_automaton,
    naive_pairs,
    naive_variants,
    plain,
    read_pairs,
    read_variants,
    trace_batch,
    variant_counts,
)
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.statistics.variants import Dafsa, DirectlyFollows, Trie, VariantHistogram


@settings(deadline=None)
@given(event_logs())
def test_variants_are_those_of_a_loop(log):
    traces = trace_batch(log, "ABC")
    variants = VariantHistogram.from_traces(traces)
    expected = naive_variants(log)
    found = read_variants(variants, "ABC")
    assert found == expected and list(found) == sorted(expected)
    assert variants.n_cases == expected.total() == traces.n_cases


@settings(deadline=None)
@given(variant_counts(), event_logs())
def test_find_agrees_with_a_dictionary(counts, log):
    known = {variant: number for number, variant in enumerate(sorted(counts))}
    found = histogram(counts).find(trace_batch(log, "ABC"))
    expected: dict[str, list[str]] = {}
    for case, activity, _ in sorted(log, key=lambda event: event[2]):
        expected.setdefault(case, []).append(activity)
    order = list(dict.fromkeys(case for case, _, _ in log))
    assert found.tolist() == [known.get(tuple(expected[case]), -1) for case in order]


@settings(deadline=None)
@given(event_logs())
def test_pairs_are_those_of_a_loop(log):
    traces, expected = trace_batch(log, "ABC"), naive_pairs(log)
    words = traces.vocabulary
    graph = DirectlyFollows.from_traces(traces)
    assert read_pairs(graph, words) == expected
    assert (graph.sources.dtype, graph.targets.dtype) == (np.int32, np.int32)
    assert graph.counts.dtype == np.int64
    pairs = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    assert DirectlyFollows.from_variants(VariantHistogram.from_traces(traces), words) == graph
    inner = {p: n for p, n in expected.items() if "▶" not in p and "■" not in p}
    assert read_pairs(graph.inner(words), words) == inner


def test_pairs_of_a_wide_vocabulary_stay_apart():
    # Pairs are counted by one number each, which must not mix source and target.
    names = [f"{i:05}" for i in range(70_000)]
    traces = trace_batch({"c1": "00001 69999 00000 69999", "c2": "69999 00001"}, names)
    graph = DirectlyFollows.from_traces(traces)
    assert read_pairs(graph, traces.vocabulary) == {
        ("00000", "69999"): 1, ("00001", "69999"): 1, ("00001", "■"): 1, ("69999", "00000"): 1,
        ("69999", "00001"): 1, ("69999", "■"): 1, ("▶", "00001"): 1, ("▶", "69999"): 1,
    }  # fmt: skip
    assert DirectlyFollows.merge([graph, graph]).counts.tolist() == [2] * 8


# --- Automata -------------------------------------------------------------------------------------


# Table 1 of the Amun paper: six cases of four variants.
AMUN = {("A", "B", "C"): 3, ("A", "E", "C"): 1, ("D", "A", "B", "C"): 1, ("D", "A", "E", "C"): 1}
AMUN_NAMES = "ABCDE"


def read_automaton(automaton: Dafsa, names: str = "ABC") -> Automaton:
    """The automaton with names; checks that it is deterministic and in order."""
    sources, activities = automaton.sources.tolist(), automaton.activities.tolist()
    keys = [(source, names[code]) for source, code in zip(sources, activities, strict=True)]
    assert keys == sorted(set(keys))
    passes = dict(
        zip(keys, automaton.contingency_table(automaton.variants.counts).tolist(), strict=True)
    )
    final = set(np.flatnonzero(automaton.is_final).tolist())
    return Automaton(dict(zip(keys, automaton.targets.tolist(), strict=True)), final, passes)


# --- the paper's example --------------------------------------------------------------------------


def test_the_automaton_of_the_paper():
    automaton = Dafsa.from_variants(histogram(AMUN, AMUN_NAMES))
    # The paper's s0, s5, s2, s3 and s4, numbered by their first visit: 0 A 1 B 2 C 3, then 0 D 4.
    assert (automaton.n_states, automaton.n_transitions) == (5, 6)
    found = read_automaton(automaton, AMUN_NAMES)
    assert found.steps == {
        (0, "A"): 1, (0, "D"): 4, (1, "B"): 2, (1, "E"): 2, (2, "C"): 3, (4, "A"): 1,
    }  # fmt: skip
    assert found.final == {3}
    # The contingency table of all six cases.
    assert found.passes == {
        (0, "A"): 4, (0, "D"): 2, (1, "B"): 4, (1, "E"): 2, (2, "C"): 6, (4, "A"): 2,
    }  # fmt: skip


def test_the_filtered_contingency_table_of_the_paper():
    # Without case 1, which is one of the three of ABC: Table 4.
    automaton = Dafsa.from_variants(histogram(AMUN, AMUN_NAMES))
    assert automaton.contingency_table(np.array([2, 1, 1, 1])).tolist() == [3, 2, 3, 2, 5, 2]


def test_the_trie_of_the_paper():
    trie = Trie.from_variants(histogram(AMUN, AMUN_NAMES))
    # Prefixes by number: -, A, AB, ABC, AE, AEC, D, DA, DAB, DABC, DAE, DAEC.
    assert trie.parents.tolist() == [-1, 0, 1, 2, 1, 4, 0, 6, 7, 8, 7, 10]
    assert trie.activities.tolist() == [-1, 0, 1, 2, 4, 2, 3, 0, 1, 2, 4, 2]
    assert trie.counts.tolist() == [6, 4, 3, 3, 1, 1, 2, 2, 1, 1, 1, 1]
    assert np.flatnonzero(trie.is_end).tolist() == [3, 5, 9, 11]
    assert trie.heights.tolist() == [4, 2, 1, 0, 1, 0, 3, 2, 1, 0, 1, 0]
    assert trie.nodes.tolist() == [1, 2, 3, 1, 4, 5, 6, 7, 8, 9, 6, 7, 10, 11]


# --- automata -------------------------------------------------------------------------------------


def check_automaton(counts: Mapping[Variant, int], names: str) -> None:
    """Compares with the naive construction, and checks what minimal means without it."""
    automaton = Dafsa.from_variants(histogram(counts, names))
    found = read_automaton(automaton, names)
    assert plain(found) == plain(naive_automaton(counts))
    assert found.states == set(range(automaton.n_states))
    # Myhill and Nerode: no two states allow the same continuations; the initial one's are the log.
    languages = found.continuations()
    assert languages[0] == set(counts)
    assert len(set(languages.values())) == automaton.n_states
    # Each variant's path goes through the automaton and ends in a final state.
    offsets = automaton.variants.offsets
    for i, variant in enumerate(sorted(counts)):
        path = automaton.path[offsets[i] : offsets[i + 1]]
        states = [0, *automaton.targets[path].tolist()]
        assert automaton.sources[path].tolist() == states[:-1]
        assert "".join(names[code] for code in automaton.activities[path]) == "".join(variant)
        assert automaton.is_final[states[-1]]


@settings(deadline=None)
@given(variant_counts())
def test_automata_are_minimal_and_exact(counts):
    check_automaton(counts, "ABC")


@settings(deadline=None)
@given(event_logs())
def test_cases_follow_their_own_paths(log):
    traces = trace_batch(log, "ABC")
    automaton = Dafsa.from_variants(VariantHistogram.from_traces(traces))
    variant, transition = automaton.annotate(traces)
    assert variant.tolist() == automaton.variants.find(traces).tolist()
    assert automaton.activities[transition].tolist() == traces.activities.tolist()
    # Counted over events, the transitions are the contingency table.
    counted = np.bincount(transition, minlength=automaton.n_transitions)
    assert counted.tolist() == automaton.contingency_table(automaton.variants.counts).tolist()
    # One step leads to the next, and every case begins at state 0.
    before = np.concatenate([[0], automaton.targets[transition[:-1]]]) if len(log) else []
    expected = np.where(traces.is_first, 0, before)
    assert automaton.sources[transition].tolist() == expected.tolist()


@pytest.mark.parametrize(("n", "length", "n_names"), [(5_000, 12, 20), (1, 50_000, 3)])
def test_an_automaton_takes_no_more_than_its_documentation_says(n, length, n_names):
    codes = np.random.default_rng(0).integers(0, n_names, n * length).astype(np.int32)
    sequences = encode_sequences(np.arange(0, len(codes) + 1, length), codes)
    variants = VariantHistogram.of(sequences, np.ones(n, np.int64))
    assert len(variants.codes) == len(codes)
    tracemalloc.start()
    automaton = Dafsa.from_variants(variants)
    built, peak = (n_bytes / len(codes) for n_bytes in tracemalloc.get_traced_memory())
    tracemalloc.stop()
    assert automaton.n_transitions > 0 and built <= 30 and 50 <= peak <= 180


def test_a_case_that_the_automaton_does_not_accept_is_refused():
    automaton = Dafsa.from_variants(histogram({("A", "B"): 1}))
    # A prefix is no variant, and neither is a continuation.
    for text in ("A", "A B C", "C"):
        with pytest.raises(ValueError, match="variant is not accepted by the automaton"):
            automaton.annotate(trace_batch({"c": "A B", "canary": text}, "ABC"))
    with pytest.raises(ValueError, match="variant is not accepted by the"):
        automaton.counts_of(histogram({("A", "B"): 1, ("A",): 1}))


@settings(deadline=None)
@given(variant_counts(), st.data())
def test_counts_of_some_variants_are_put_in_their_places(counts, data):
    automaton = Dafsa.from_variants(histogram(counts))
    some = {v: data.draw(st.integers(0, 9)) for v in counts}
    found = automaton.counts_of(histogram({v: n for v, n in some.items() if n}))
    assert found.tolist() == [some[v] for v in sorted(counts)]
    assert automaton.counts_of(automaton.variants).tolist() == [counts[v] for v in sorted(counts)]
    # And the table of those counts is the one of an automaton that holds them.
    steps = list(read_automaton(automaton).steps)
    passes = dict(zip(steps, automaton.contingency_table(found).tolist(), strict=True))
    naive = naive_automaton(counts)
    for variant, n in some.items():
        state = 0
        for activity in variant:
            passes[state, activity] -= n
            state = naive.steps[state, activity]
    assert not any(passes.values())
