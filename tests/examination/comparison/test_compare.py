"""`tracecloak compare`: which methods, on what facts, what is measured, and what is kept."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pydantic
import pytest

from tests.support.keys import release_key
from tests.support.logs import Variant, histogram, trace_batch
from tests.support.releasing import csv_log, tracecloak
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.comparison import compare
from tracecloak.examination.comparison import rows as kept
from tracecloak.examination.comparison.compare import LINES
from tracecloak.examination.comparison.contenders import Registered, candidates, chosen_methods
from tracecloak.examination.comparison.original import Original
from tracecloak.examination.comparison.report import INTERNAL, Results, board, command_line
from tracecloak.examination.comparison.rows import quartiles
from tracecloak.examination.comparison.rows import read_rows as all_rows
from tracecloak.examination.linkage.knowledge import DEFAULT_SAMPLES, LARGEST_SIZE
from tracecloak.pipelines.commands.flags import table_of
from tracecloak.schemas.errors import UsageError

COUNTS = {("A", "B", "C"): 200, ("A", "C"): 100, ("B", "A", "C"): 60, ("A",) * 9: 1}


def original(counts: dict[Variant, int] = COUNTS) -> Original:
    repeated = itertools.chain(*([" ".join(variant)] * n for variant, n in counts.items()))
    return Original("log", trace_batch({f"c{i}": text for i, text in enumerate(repeated)}, "ABC"))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    repeated = itertools.chain(*([variant] * n for variant, n in COUNTS.items()))
    return csv_log(
        tmp_path / "hospital.csv",
        [
            (f"secret-{i}", name, f"2026-01-01T10:{step:02d}:00+00:00")
            for i, variant in enumerate(repeated)
            for step, name in enumerate(variant)
        ],
    )


def run(log: Path, *flags: object) -> int:
    return tracecloak("compare", "--log", log, "--output", log.parent / "page.html", *flags)


def without_lines(rows: Iterable[Any]) -> list[Any]:
    """Of rows, or rows and whether they are new."""
    return [
        one for one in rows if (one[0] if isinstance(one, tuple) else one)["method"] not in LINES
    ]


def read_rows(path: Path) -> list[dict[str, Any]]:
    return without_lines(all_rows(path))


# --- which methods --------------------------------------------------------------------------------


def test_all_that_release_at_a_finite_epsilon_are_compared() -> None:
    """Of the registered methods these are not: no finite epsilon, and a tree."""
    found = candidates()
    assert {"laplace-levels", "variant-histogram", "privtree", "auto-variants"} <= found.keys()
    assert (found["private-log"].kind, found["private-dfg"].kind) == ("log", "graph")
    assert not {"amun", "process-tree", "laplace-dfg"} & found.keys()
    assert {"amun", "process-tree", "laplace-dfg"} <= METHODS.keys()
    for name, own in found.items():
        assert isinstance(own, Registered)
        params = own.parameters("0.5", "1e-6", ("A", "B"), 4)
        guarantee = own.method.guarantee(params)
        assert (name, guarantee.epsilon) == (own.method.name, 0.5)
        assert guarantee.delta in (0, 1e-6)
        assert (guarantee.unit, guarantee.adjacency) == ("case", "add_remove")
        if own.kind == "variants":
            assert own.method.rounds(params) == ("variants",)  # nothing is bought


def test_methods_are_chosen_by_name() -> None:
    assert list(chosen_methods(["privtree", "laplace-levels"])) == ["privtree", "laplace-levels"]
    with pytest.raises(UsageError, match=r"amun is another kind"):
        chosen_methods(["amun"])


# --- what is measured -----------------------------------------------------------------------------


def test_the_figures_are_those_that_one_finds_by_hand() -> None:
    log = original({("A", "B"): 3, ("A", "C"): 1})
    released = histogram({("A", "B"): 1, ("A",): 1}, log.vocabulary.names.to_pylist())
    found = log.figures(released)
    assert found["relative_size"] == 0.5
    assert found["variant_total_variation"] == 0.5
    assert found["true_variant_mass"] == 0.5
    # A quarter moves from AC and one from AB to A, by one edit of two.
    assert found["variant_emd"] == pytest.approx(0.25)
    # Before: ▶A 4, AB 3, AC 1, B■ 3, C■ 1 of 12; after: ▶A 2, AB 1, B■ 1, A■ 1 of 5.
    differences = (abs(4 / 12 - 2 / 5), 3 / 12 - 1 / 5, 1 / 12, 3 / 12 - 1 / 5, 1 / 12, 1 / 5)
    assert found["edge_total_variation"] == pytest.approx(sum(differences) / 2)
    assert found["edge_relative_error"] == pytest.approx((2 + 2 + 1 + 2 + 1 + 1) / 12)


def test_a_released_log_is_what_the_method_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting once and deciding often gives what a run from the log on gives."""
    from tracecloak.anonymizers.contract.in_memory import MethodRun, execute

    monkeypatch.setattr(ReleaseKey, "generate", classmethod(lambda cls: release_key()))
    monkeypatch.setattr(
        "tracecloak.anonymizers.contract.in_memory.InputDigest.hex", "", raising=False
    )
    log = original()
    for name, own in candidates().items():
        assert isinstance(own, Registered)
        params = own.parameters("1", "1e-6", log.names, log.max_length, log.dates)
        run = MethodRun(own.method, params, release_key(), "comparison", "")
        decisions = execute(run, [log.traces])[2].decisions
        products = own.method.products(decisions, params).by_name
        released = own.cell(log, "1", "1e-6")()
        if own.kind == "variants":
            assert released.variants == products["variants"].counted(log.vocabulary), name
        elif own.kind == "graph":
            assert released.graph == products["dfg"]
        else:
            assert released.traces is not None and released.variants is not None
            assert released.traces.n_cases == released.variants.n_cases


# --- the command ----------------------------------------------------------------------------------


def data_of(page: Path) -> dict[str, Any]:
    """What the script of a page draws."""
    text = page.read_text(encoding="utf-8")
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    return dict(json.loads(data))


def test_the_page_says_what_it_is_and_how_it_is_made(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--methods", "laplace-levels,privtree,variant-histogram", "--epsilons", "0.5,4"]
    assert run(log, *flags, "--repetitions", 3) == 0
    text = (log.parent / "page.html").read_text(encoding="utf-8")
    rows = read_rows(log.parent / "page.jsonl")
    assert len(rows) == 3 * 2 * 3
    assert INTERNAL in text
    assert (
        ">tracecloak compare --log hospital.csv --output page.html "
        "--methods laplace-levels,privtree,variant-histogram --epsilons 0.5,4 --repetitions 3<"
    ) in text
    assert "read from the logs themselves, for the comparison only" in text
    printed = capsys.readouterr()
    assert "not private" in printed.out and "(30 of 30)" in printed.err
    for hidden in (str(log.parent), "secret-"):
        assert hidden not in text + json.dumps(rows)
    data = data_of(log.parent / "page.html")
    [of_log] = data["logs"]
    sizes = ("n_cases", "n_events", "n_variants", "n_activities", "max_trace_length")
    assert [of_log[size] for size in sizes] == [361, 989, 4, 3, 3]
    assert [kind["name"] for kind in data["kinds"]] == ["variants"]
    assert set(data["measures"]) == set(data["kinds"][0]["measures"])
    assert data["disclosure"] == ["singled_out"] and "Not measured in this run" not in text
    for release in of_log["releases"]:
        cell = (release["method"], release["epsilon"])
        emds = [row["variant_emd"] for row in rows if (row["method"], row["epsilon"]) == cell]
        assert release["n_releases"] == 3
        assert release["figures"]["variant_emd"] == pytest.approx(quartiles(emds), rel=1e-5)


def test_a_method_of_others_without_an_example_is_named_all_the_same(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a page that fails at its end, when all is computed."""

    class Params(pydantic.BaseModel):
        k: int

    other = SimpleNamespace(
        Params=Params,
        examples=({},),
        summary="hides cases",
        guarantee_kind="syntactic",
        guarantee=None,
    )
    monkeypatch.setattr("tracecloak.examination.comparison.report.METHODS", {"other": other})
    assert run(log, "--methods", "privtree", "--epsilons", "1", "--repetitions", 1) == 0
    text = (log.parent / "page.html").read_text(encoding="utf-8")
    assert "<tr><td>other</td><td>hides cases</td><td>syntactic</td></tr>" in text


def test_the_page_is_made_of_the_results_beside_it(log: Path) -> None:
    """Without the log: of methods that release, of one that refuses, and of lines."""
    flags = ["--methods", "markov-log,laplace-levels,private-dfg", "--epsilons", "1e-14,1"]
    assert run(log, *flags, "--repetitions", 2) == 0
    text = (log.parent / "page.json").read_text(encoding="utf-8")
    results = Results.model_validate_json(text)
    assert results.to_text() == text
    assert board(results) == (log.parent / "page.html").read_bytes()
    rows = read_rows(log.parent / "page.jsonl")
    [of_log] = results.logs
    assert {(r.method, r.epsilon) for r in of_log.releases} == {
        (row["method"], row["epsilon"]) for row in rows
    }
    for release in of_log.releases:
        own = [r for r in rows if (r["method"], r["epsilon"]) == (release.method, release.epsilon)]
        assert release.refused == own[0].get("refused")
        assert (release.refused is None) == bool(release.figures)
        assert release.n_releases == sum("refused" not in row for row in own)
        for name, value in release.figures.items():
            assert value == pytest.approx(quartiles(row[name] for row in own), rel=1e-5), name
    assert [line.n_draws for line in of_log.lines] == [2] * len(LINES)
    assert (log.parent / "page.json").stat().st_mode & 0o077 == 0
    assert "secret-" not in text and str(log.parent) not in text


def test_where_the_time_ends_there_is_as_much_of_each_and_the_next_run_goes_on(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a method that takes all of the time, and a page that hides that some are missing."""
    minutes = iter(range(1000))
    # Whoever asks for the time makes it a minute later.
    clock = SimpleNamespace(monotonic=lambda: 60.0 * next(minutes), perf_counter=time.perf_counter)
    flags = ["--methods", "laplace-levels,privtree", "--epsilons", "1,2", "--repetitions", 3]
    with monkeypatch.context() as patch:
        patch.setattr(kept, "time", clock)
        # Four lines and four cells have a minute each, and so have four lines and two of the cells.
        assert run(log, *flags, "--max_minutes", 15) == 0
    first = read_rows(log.parent / "page.jsonl")
    assert Counter(row["repetition"] for row in first) == {0: 4, 1: 2}
    results = Results.model_validate_json((log.parent / "page.json").read_text())
    assert [release.n_releases for release in results.logs[0].releases] == [2, 2, 1, 1]
    assert run(log, *flags) == 0
    assert read_rows(log.parent / "page.jsonl")[: len(first)] == first
    results = Results.model_validate_json((log.parent / "page.json").read_text())
    assert [release.n_releases for release in results.logs[0].releases] == [3] * 4


def test_the_version_is_that_of_the_code_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    own = kept.code_version()
    assert own == kept.code_version()
    monkeypatch.setattr(Path, "read_bytes", lambda path: b"other code")
    assert kept.code_version() != own


def test_a_file_that_holds_no_rows_is_not_touched(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (log.parent / "page.jsonl").write_text('{"mine": 1}\n')
    assert run(log, "--epsilons", "1", "--repetitions", 1) == 2
    assert "line 1 of page.jsonl is no row of a comparison" in capsys.readouterr().err
    assert (log.parent / "page.jsonl").read_text() == '{"mine": 1}\n'


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--methods", "amun"], "methods must be of"),
        (["--epsilons", "-1"], "epsilon"),
        (["--epsilons", "1,1"], "'1' is there twice"),
        (["--delta", "0.4"], "delta must be at most"),
        (["--mine", "-1"], "mine must be at least 0"),
        (["--repetitions", "0"], "repetitions must be at least 1"),
        (["--seed", "1"], "unknown flag --seed"),
        (["--max_minutes", "0"], "max_minutes must be above 0"),
        (["--output", "page.md"], "output 'page.md' is a page of HTML: let its name end in .html"),
    ],
)
def test_a_wrong_flag_is_refused(
    log: Path, flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(log, *flags) == 2
    assert said in capsys.readouterr().err
    assert not (log.parent / "page.html").exists()


@pytest.mark.filterwarnings("ignore")  # of pm4py's dependencies
def test_mined_models_are_judged_on_as_many_releases_as_asked(log: Path) -> None:
    pytest.importorskip("pm4py")
    flags = ["--methods", "variant-histogram", "--epsilons", "4", "--repetitions", 2]
    assert run(log, *flags) == 0
    before = read_rows(log.parent / "page.jsonl")
    assert run(log, *flags, "--mine", 1) == 0
    rows = read_rows(log.parent / "page.jsonl")
    assert rows[:2] == before  # what was mined later comes after
    assert [row["mine_patience"] > 0 for row in rows] == [False] * 2 + [True]
    mined = rows[-1]
    assert 0 < mined["mined_precision"] <= 1 and 0.9 < mined["mined_fitness"] <= 1
    text = (log.parent / "page.html").read_text()
    assert "Mined models</strong> are of 1 of the releases" in text
    data = data_of(log.parent / "page.html")
    assert data["kinds"][0]["measures"][-3:-1] == ["mined_f_score", "mined_fitness"]
    assert 0 < data["logs"][0]["models"]["f_score"] <= 1
    [own] = data["logs"][0]["releases"]
    assert own["figures"]["mined_f_score"][0] == pytest.approx(mined["mined_f_score"], rel=1e-5)


def test_the_command_on_the_page_has_no_folders_and_can_be_pasted() -> None:
    flags = {
        "log": "/data/logs/a.xes.gz, /data/my log.csv",
        "output": "/home/x/page.html",
        "where": ["activity = A", "a ^= b"],
        "mine": 3,
    }
    assert command_line(["compare"], flags) == (
        "tracecloak compare --log 'a.xes.gz,my log.csv' --output page.html "
        "--where 'activity = A' --where 'a ^= b' --mine 3"
    )


def test_the_help_has_the_defaults() -> None:
    table = table_of("tracecloak.examination.commands")
    for name in ("epsilons", "delta", "repetitions"):
        default = getattr(compare, f"DEFAULT_{name.upper()}")
        told = ",".join(default) if name == "epsilons" else default
        assert f"(default {told})" in table["compare"][name]["help"]
    linkage = table["attack"]["actions"]["linkage"]["flags"]
    assert f"from 0 to {LARGEST_SIZE} (" in linkage["sizes"]["help"]
    assert f"(default {DEFAULT_SAMPLES:,})" in linkage["samples"]["help"]
