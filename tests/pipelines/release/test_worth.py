"""What a plan says of a release's worth, and whether it comes true."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.releasing import csv_log, small_rows, tracecloak
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.demo.hospital import ACTIVITIES, hospital_log
from tracecloak.pipelines.planning.worth import made_up_log, worth_of
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.rows import traces_of_rows
from tracecloak.schemas.published.yields import Yield
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
from tracecloak.schemas.statistics.variants import VariantHistogram

NAMES = tuple(f"step {i}" for i in range(15))


def test_a_made_up_log_has_the_declared_names_and_is_the_same_each_time() -> None:
    log = made_up_log(NAMES, 20, 1000, by_individual=False)
    assert log.n_cases == 1000 and log.lengths.min() >= 1 and log.lengths.max() <= 20
    assert set(log.vocabulary.names.to_pylist()) == set(NAMES)
    again = made_up_log(NAMES, 20, 1000, by_individual=False)
    assert np.array_equal(log.activities, again.activities)
    assert np.array_equal(log.times, again.times)
    # Neither all alike nor all different.
    variants = VariantHistogram.from_traces(log)
    assert 100 < variants.n_variants < 700
    assert 0.1 < variants.counts.max() / 1000 < 0.5


@pytest.mark.parametrize("n_names", [1, 2])
def test_there_is_one_for_the_shortest_list(n_names: int) -> None:
    log = made_up_log(NAMES[:n_names], 1, 7, by_individual=True)
    assert log.n_cases == log.n_events == 7
    assert log.individuals is not None and len(set(log.individuals.to_pylist())) == 7


@pytest.mark.parametrize("method", ["private-dfg", "markov-log", "private-log", "process-tree"])
def test_much_is_worth_more_than_little(method: str) -> None:
    def of(epsilon: str, n_cases: int) -> tuple[bool, float | None]:
        params = METHODS[method].Params(epsilon=epsilon, vocabulary=NAMES, max_trace_length=20)
        found = worth_of(METHODS[method], params, n_cases)
        return found.is_useless, found.graph_error

    useless, error = of("50", 3000)
    assert not useless
    if method == "process-tree":
        return
    assert error is not None and error < 0.2
    useless, error = of("0.01", 50)
    assert useless and error is not None and error > 0.9


def test_the_error_of_a_graph_is_foretold() -> None:
    """On the synthetic hospital, which the made-up process is not: within a factor of 3."""
    [rows] = hospital_log(2000)
    log = traces_of_rows(rows)
    method = METHODS["private-dfg"]
    params = method.Params(epsilon="4", vocabulary=tuple(sorted(ACTIVITIES)))
    made = anonymise([log], method, params, ReleaseKey.generate(), "r", "c")
    graph = made.products.by_name["dfg"]
    true = DirectlyFollows.from_traces(log)
    labels = log.vocabulary.labels
    counts = {
        (labels[a], labels[b]): n
        for a, b, n in zip(true.sources, true.targets, true.counts.tolist(), strict=True)
    }
    found = {
        (graph.labels[a], graph.labels[b]): n
        for a, b, n in zip(graph.sources, graph.targets, graph.counts.tolist(), strict=True)
    }
    off = sum(abs(counts.get(pair, 0) - found.get(pair, 0)) for pair in counts.keys() | found)
    foretold = worth_of(method, params, 2000).graph_error
    assert foretold is not None
    assert off / sum(counts.values()) == pytest.approx(foretold, rel=0.67)


def test_a_plan_says_it_for_the_cases_that_are_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = tmp_path / "names.txt"
    names.write_text("A\nB\n")
    common = [
        "plan", "--log", csv_log(tmp_path / "log.csv", small_rows()), "--output", tmp_path / "o",
        "--method", "variant-histogram", "--epsilon", "0.01", "--vocabulary", names,
    ]  # fmt: skip
    assert tracecloak(*common, "--full", "--expected_cases", "70") == 9
    assert "  70 cases: nothing usable: 0 of 2 activities" in capsys.readouterr().out
    assert tracecloak(*common, "--full", "--expected_cases", "300000") == 0
    assert "  300,000 cases: 2 of 2 activities" in capsys.readouterr().out
    assert tracecloak(*common, "--full") == 0  # nothing is refused where no number is declared
    assert "  1,000 cases: " in capsys.readouterr().out
    assert not (tmp_path / "o").exists()
    assert tracecloak(*common, "--expected_cases", "0") == 2
    assert "expected_cases" in capsys.readouterr().err


def test_a_published_method_is_not_judged_by_noise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tracecloak(
        "plan", "--log", csv_log(tmp_path / "log.csv", small_rows()), "--output", tmp_path / "o",
        "--method", "pretsa", "--k", "2", "--t", "1",
    ) == 0  # fmt: skip
    assert "Is worth" not in capsys.readouterr().out


def test_what_a_method_refuses_is_told() -> None:
    def refuse(self: object, *given: object) -> None:
        raise UsageError("too much")

    method = METHODS["variant-histogram"]
    params = method.Params(epsilon="1")
    refusing = type("Refusing", (type(method),), {"decide": refuse})()
    found = worth_of(refusing, params, 10)
    assert found.held == Yield() and found.refusal == "too much"


def test_a_run_that_ends_at_the_variants_says_what_the_whole_log_does() -> None:
    """Of the rounds after them nothing is looked at."""
    params = METHODS["private-log"].Params(epsilon="1", vocabulary=NAMES, max_trace_length=10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tracecloak.pipelines.planning.worth._UntilVariants", lambda: None)
        whole = worth_of(METHODS["private-log"], params, 1000)
    short = worth_of(METHODS["private-log"], params, 1000)
    assert (short.graph_error, short.case_share) == (whole.graph_error, whole.case_share)
    assert short.held.n_activities == whole.held.n_activities
    assert whole.graph_error is not None and 0 < whole.graph_error < 0.9
