"""No release with a true epsilon is refused by what the log or the noise is.

Every rigorous method, and every published one with an honest budget, releases the same way whatever
is in the log: hostile logs and their neighbours, many keys where noise decides, all formats. What
it is refused by is public, and known before anything is read or reserved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.golden.releases import HEADER, run_example
from tests.support.examples import examples_of, rigorous_examples
from tests.support.keys import release_key
from tests.support.logs import trace_batch
from tests.support.releasing import fix_key, ledger_entries
from tests.support.rounds import as_wanted
from tests.support.tiers import at_night
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.logs import params as params_of_logs
from tracecloak.anonymizers.queries import sapa
from tracecloak.anonymizers.queries.prefix_method import LaplaceVariantsParams
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.trees import process_tree
from tracecloak.anonymizers.variants import generator
from tracecloak.anonymizers.variants.auto import AutoVariants
from tracecloak.schemas.events.events import OTHER

Record = dict[str, str]

EXAMPLES = rigorous_examples()


# --- logs -----------------------------------------------------------------------------------------


def record(case: str, activity: str, stamp: str, **others: str) -> Record:
    """One event; whose it is, who did it and how old it is are made of the case."""
    return {
        "case_id": case, "activity": activity, "timestamp": stamp, "person": f"p{case}",
        "who": "R1", "age": "30", **others,
    }  # fmt: skip


def plain(n_cases: int) -> list[Record]:
    """A log of three activities."""
    return [
        record(f"c{case}", name, f"2020-0{1 + case % 9}-01T0{place}:00:00Z")
        for case in range(n_cases)
        for place, name in enumerate("ABC"[: 1 + case % 3])
    ]


ODD_NAMES = [
    OTHER, "▶", "■", "\x00", "\x01", "\x02", "\uffff", "\ufffe", " ", "\t", "\u202e", "a" * 20_000,
    "__start__", "null", "NaN", "<a>&\"'", "]]>", "=1+1", "\ud83d\ude00", "\r\n", "\ufffd",
]  # fmt: skip
ODD_VALUES = ["", "NaN", "inf", "-inf", "1e400", "-0", "\x00", "R1\x01", "R2", "x" * 10_000, "٣"]


def case_of_odd_names() -> list[Record]:
    """A case with every name that is reserved somewhere or that some format cannot hold."""
    return [
        record("odd", name, "2020-02-01T00:00:00Z", who=value, age=value)
        for name, value in zip(ODD_NAMES, ODD_VALUES * 2, strict=False)
    ]


def case_of_odd_times() -> list[Record]:
    """A case from the first year to the last, out of order."""
    stamps = ["9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z"]
    stamps += ["2020-03-29T01:30:00Z", "0001-01-01T00:00:00.000001Z"]
    return [record("timeless", "ABCAB"[i], stamp) for i, stamp in enumerate(stamps)]


def long_case(n_events: int = 4_000) -> list[Record]:
    """A case that is longer than any length that is bought."""
    return [
        record("long", "ABC"[i * i % 3], f"2020-04-{1 + i % 28:02}T00:00:00Z")
        for i in range(n_events)
    ]


LOGS: dict[str, list[Record]] = {
    "empty": [],
    "one": plain(1),
    "all": [
        *plain(40), *case_of_odd_names(), *case_of_odd_times(), *long_case(),
        # A case that alone has more activities than any list, and many cases of one person.
        *(record("wide", f"w{i}", "2020-05-01T00:00:00Z") for i in range(600)),
        *({**event, "person": "p"} for event in plain(100)),
    ],
}  # fmt: skip


def written(folder: Path, log: Sequence[Record]) -> Path:
    """Writes a log as JSON lines, which hold any text, or an empty one as CSV, with its columns."""
    if not log:
        path = folder / "log.csv"
        path.write_text(",".join(HEADER) + "\n")
        return path
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in log))
    return path


# --- releases -------------------------------------------------------------------------------------


def release(
    folder: Path,
    method: str,
    given: Mapping[str, Any],
    log: Sequence[Record],
    runner: str = "InMemory",
    *more: str,
) -> int:
    """Releases a log in every format, and returns the exit code."""
    keys = {"release_id": "r", "runner": runner, "shards": 2}
    return run_example(folder, method, given, written(folder, log), *more, **keys)


# What a run says, whatever is in the log: no number but those of what is released.
_SAID = [
    re.compile(rf"^(?:\S+ \S+ INFO )?(?:{words})$")
    for words in (
        r"made a new ledger, in which nothing is spent: ledger \S+",
        r"reading; what is found in the records is for the operator alone, in \S+",
        r"next: [a-z_]+", r"decided: [a-z-]+", r"wrote log\.(?:xes|csv)\.gz",
        r"committed release r",
        r"released    \S+",
        r"(?:method|holds|watch out|times|advice|promise|caution|cost|remains)  +.*",
        r"(?:open first|took)  +.*",
    )
]  # fmt: skip


def check_words(told: str) -> None:
    for line in told.splitlines():
        assert any(pattern.match(line) for pattern in _SAID), line[:300]


# One of each way in which a rigorous release is made: counts, a log that is drawn, one with times
# and attributes, a tree, a query of its own. On Beam the first example of each.
_WAYS = [
    "private-dfg", "variant-histogram", "markov-log", "private-log", "process-tree",
    "laplace-variants",
]  # fmt: skip
RELEASED = [
    *((method, number, log, "InMemory") for method, number in EXAMPLES for log in LOGS),
    *((method, next(n for name, n in EXAMPLES if name == method), log, "FnApiRunner")
      for method in _WAYS for log in LOGS),
]  # fmt: skip


@pytest.mark.by_day(20)
@pytest.mark.parametrize(
    ("method", "number", "log", "runner"),
    [
        # Two of each method; further examples repeat their ways with other numbers.
        row if row[1] < 2 and row[2] != "one" and row[3] == "InMemory" else at_night(*row)
        for row in RELEASED
    ],
)
def test_a_release_comes_of_every_log_and_says_no_number_of_it(
    method: str,
    number: int,
    log: str,
    runner: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    fix_key(monkeypatch)
    code = release(tmp_path, method, examples_of(METHODS[method])[number], LOGS[log], runner)
    told = capfd.readouterr()
    assert code == 0, told.err
    check_words(told.out + told.err)


@pytest.mark.by_day(8)
@pytest.mark.parametrize(
    ("method", "number", "n_keys"),
    [
        *((*example, 4) if example[1] == 0 else at_night(*example, 4) for example in EXAMPLES),
        *(at_night(*example, 60) for example in EXAMPLES),
    ],
)
def test_a_release_comes_of_every_noise(
    method: str, number: int, n_keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is far above all counts: then it would ask for more cases than there are."""
    monkeypatch.setattr(generator, "_MOST_CASES", 300)
    made = METHODS[method]
    given = dict(examples_of(made)[number])
    if "epsilon" in given:
        given["epsilon"] = "0.001"
    params = made.Params(**given)
    made.spends(params)
    monkeypatch.setattr(sapa, "MAX_ARCS", 2_000)
    log = trace_batch({f"c{i}": " ".join("ABC"[: 1 + i % 3]) for i in range(20)})
    for key in range(n_keys):
        wanted = as_wanted([log], made, params)
        found = anonymise(wanted, made, params, release_key(key), "release", "configuration")
        assert sum(traces.n_cases for traces in found.traces) <= 2_000


# --- what is refused is public, and before anything is reserved -----------------------------------


def refused(folder: Path, method: str, given: Mapping[str, Any]) -> bool:
    """Whether a release is refused by its parameters, with nothing read, reserved or written."""
    # Noise may make a log of very many cases, which is the longest to write as XES.
    code = release(folder, method, given, plain(5), "InMemory", "--formats=parquet")
    if code == 2:
        assert not ledger_entries(folder / "keys")
        assert not (folder / "out").exists() or not any((folder / "out").iterdir())
    else:
        assert code == 0
    return code == 2


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("auto-variants", {"epsilon": "1", "max_trace_length": 2}),
        ("markov-log", {"epsilon": "1", "max_trace_length": 2}),
        ("private-log", {"epsilon": "1", "max_trace_length": 2, "products": "variants"}),
        ("private-log", {"epsilon": "1", "max_trace_length": 2, "n_duration_bins": 4}),
        ("markov-log-pure", {"epsilon": "1", "delta": "0", "max_trace_length": 2}),
        ("process-tree", {"epsilon": "1"}),
        ("private-dfg", {"epsilon": "1"}),
        (
            "sapa",
            {"epsilon": "1", "budget": "honest", "query": "laplace", "max_trace_length": 2},
        ),
        (
            "sacofa",
            {
                "epsilon": "1", "max_prefix_length": 2, "p_harmful": 4, "budget": "honest",
                "rules": "bought",
            },
        ),
    ],
)  # fmt: skip
def test_too_many_public_names_are_refused_before_anything_is_reserved(
    method: str, given: Mapping[str, Any], tmp_path: Path
) -> None:
    """Once some of them failed exactly when the noise chose one of several ways."""
    most = AutoVariants.most_names if method == "auto-variants" else 4_500
    assert most is not None
    names = tuple(f"n{i}" for i in range(most))
    assert refused(tmp_path, method, {**given, "vocabulary": names})
    if method == "auto-variants":  # with OTHER, the most
        METHODS[method].Params(**{**given, "vocabulary": names[1:]})


def test_noise_for_the_largest_clip_that_may_be_bought_is_asked_for_before_it_is(
    tmp_path: Path,
) -> None:
    """An attribute's share is smaller than that of the durations, and its noise wider.

    The control: with the share that it has by default there is a release.
    """
    params = {
        "epsilon": "0.0001", "delta": "1e-6", "vocabulary": ("A",), "max_trace_length": 9,
        "attributes": {"org:resource": {"values": ["R1"]}}, "budget_split": {"attributes": "1e-6"},
    }  # fmt: skip
    assert refused(tmp_path, "private-log", params)
    assert not refused(tmp_path, "private-log", {**params, "budget_split": {}})


# --- what is bought is cut to what can be counted by ----------------------------------------------


@pytest.mark.parametrize(
    ("method", "where"),
    [
        ("auto-variants", (AutoVariants, "most_names")),
        ("private-log", (params_of_logs.PrivateLogParams, "most_names")),
        ("process-tree", (process_tree, "_MOST_NAMES")),
    ],
)
def test_of_the_names_that_are_bought_the_most_frequent_are_kept(
    method: str, where: tuple[Any, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two and __other__ of six that many cases have: no release is refused for what the log has."""
    monkeypatch.setattr(*where, 3)
    log = [
        record(f"c{case}", name, f"2020-01-01T00:00:0{place}Z")
        for case in range(400)
        for place, name in enumerate("ABCDEF")
        if name in "BE" or case % 3
    ]
    given = {"epsilon": "400", "delta": "1e-5", "buy_vocabulary": True}
    assert release(tmp_path, method, given, log) == 0
    held = json.loads((tmp_path / "out/run_id=r/manifest.json").read_text())["came_out"]
    assert held["n_activities"] == 2


# --- what noise asks for --------------------------------------------------------------------------


def test_candidates_of_an_honest_query_are_cut_and_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the published budget the same is refused, and no count is told."""
    asked = LaplaceVariantsParams.query.fget
    assert asked is not None
    few = property(lambda params: replace(asked(params), max_candidates=2_000))
    monkeypatch.setattr(LaplaceVariantsParams, "query", few)
    names = tuple(f"a{i}" for i in range(60))
    given = {"epsilon": "0.5", "max_prefix_length": 4, "p_harmful": 1, "vocabulary": names}
    honest, published = tmp_path / "honest", tmp_path / "published"
    honest.mkdir()
    published.mkdir()
    assert release(honest, "laplace-variants", {**given, "budget": "honest"}, plain(5)) == 0
    told = capfd.readouterr()
    check_words(told.out + told.err)
    assert release(published, "laplace-variants", {**given, "epsilon": "0.1"}, plain(5)) == 2
    [said] = [line for line in capfd.readouterr().err.splitlines() if "p_harmful" in line]
    assert set(re.findall(r"[\d,]{2,}", said)) == {"2,000"}
