"""A session: the log is read once, and each answer is a release that is paid once."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracecloak
from tests.support.releasing import ROOT, counting_charges, digests, fix_key, ledger_entries
from tests.support.releasing import tracecloak as command
from tracecloak.anonymizers.contract.case_digests import CaseSketch
from tracecloak.pipelines.frames.frame_source import FrameSource
from tracecloak.pipelines.frames.session import PAGE_NAME, QUESTIONS
from tracecloak.pipelines.ledger.noted_cases import NotedCases
from tracecloak.pipelines.runners import in_memory
from tracecloak.schemas.errors import BudgetExhausted, UsageError

NAMES = ["Check", "Pay", "Register"]
PARAMS = {"vocabulary": NAMES, "max_trace_length": 6, "indicators": ["cases", "rework"]}
ASKED = {"map": {"epsilon": 1}, "variants": {"epsilon": 2}, "indicators": {"epsilon": "0.5"}}


def log(n_cases: int = 200) -> pl.DataFrame:
    """A log of three variants, and some."""
    chance = random.Random(5)
    rows = []
    for case in range(n_cases):
        steps = ["Register", *["Check"] * chance.randrange(3), "Pay"]
        for at, step in enumerate(steps):
            rows.append((f"c{case}", step, f"2026-01-{1 + chance.randrange(20):02}T0{at}:00:00Z"))
    return pl.DataFrame(rows, ["case_id", "activity", "timestamp"], orient="row")


def begun(frame: pl.DataFrame | None = None, **keys: Any) -> tracecloak.Session[pl.DataFrame]:
    """A session of a log, which pays with the ledger of the working folder."""
    given: dict[str, Any] = {"params": PARAMS, "new_ledger": True, **keys}
    return tracecloak.session(log() if frame is None else frame, **given)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "keys"))
    return tmp_path


def charges() -> int:
    return len(counting_charges(Path("keys")))


def counting(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, calls: Counter[str]) -> None:
    original = getattr(owner, name)

    def counted(self: Any, *given: Any) -> Any:
        calls[name] += given[:1] in ((), (None,))
        return original(self, *given)

    monkeypatch.setattr(owner, name, counted)


def test_a_log_is_read_and_grouped_once_and_each_question_is_paid_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: Counter[str] = Counter()
    counting(monkeypatch, FrameSource, "_canonical", calls)
    counting(monkeypatch, in_memory.EventsByShard, "grouped", calls)
    sketched = CaseSketch.from_traces

    def once(*given: Any) -> CaseSketch:
        calls["_sketch"] += 1
        return sketched(*given)

    monkeypatch.setattr(CaseSketch, "from_traces", once)
    with begun() as session:
        answers = [session.ask(question, **given) for question, given in ASKED.items()]
        assert calls == {"_canonical": 1, "grouped": 1, "_sketch": 1} and charges() == 3
        again = session.ask("map", epsilon="1.0", delta=1e-6)
        assert again.was_released_before and again.folder == answers[0].folder
        assert charges() == 3 and len(session.answers) == 3
        remaining = session.remaining
    assert remaining is not None and remaining.spent_epsilon == sum(a.price[0] for a in answers)
    graph, variants, indicators = answers[0].graph, answers[1].variants, answers[2].indicators
    for frame in (graph, variants, indicators):
        assert frame is not None and {"low", "high"} <= {*frame.columns}
    assert not list(Path("keys").rglob("*.key"))
    # What the ledger notes of the cases is noted of each answer, and was computed once.
    first, *others = NotedCases(f"sqlite:///{Path('keys/ledger.db').resolve()}").all()
    assert len(others) == 2 and first.sketch.n_cases == 200
    assert {one.sketch.to_bytes() for one in others} == {first.sketch.to_bytes()}
    # Another session of the same events, in another order of rows.
    with begun(log().sample(fraction=1, shuffle=True, seed=1)) as session:
        found = [session.ask(question, **given) for question, given in ASKED.items()]
    assert [a.folder for a in found] == [a.folder for a in answers] and charges() == 3


def test_an_answer_is_the_release_of_its_plan(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, whatever was asked before: with the same key, in another place."""
    fix_key(monkeypatch)
    with begun() as session:
        answers = {question: session.ask(question, **given) for question, given in ASKED.items()}
    for question, answer in answers.items():
        monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(place / f"{question}-keys"))
        own = {n: v for n, v in PARAMS.items() if n in answer.manifest["params"]}
        method: Any = QUESTIONS[question]
        released = tracecloak.release(
            log(), method=method, params={**own, **ASKED[question]}, output="others",
            release_id=answer.release_id, new_ledger=True,
        )  # fmt: skip
        assert digests(released.folder) == digests(answer.folder)
        assert released.manifest == answer.manifest


def test_a_preview_is_free_and_follows_from_public_numbers_and_answers_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def previews(frame: pl.DataFrame) -> list[tuple[str, ...]]:
        session = begun(frame)
        return [session.preview(question, **given).lines for question, given in ASKED.items()]

    with monkeypatch.context() as patch:
        patch.setattr(FrameSource, "_canonical", lambda *_: pytest.fail("the log was read"))
        first = previews(log())
        assert first == previews(log(199)) == previews(log(7).with_columns(activity=pl.lit("X")))
    assert "Say yours with expected_cases." in first[0][0]
    assert not Path("answers").exists() and charges() == 0
    with begun() as session:
        before = session.preview("map", epsilon=1, goal="graph within 30 %")
        assert before.price == (1, session.ask("map", epsilon=1).price[1]) and before.least
        n_cases = session.answers[0].manifest["came_out"]["n_cases"]
        assert session.preview("map", epsilon=1).price == (0, 0)
        (verdict,) = session.preview("map", epsilon=2).verdicts
        assert verdict.worth.n_cases == int(float(f"{n_cases:.1e}"))  # to two digits
        assert charges() == 1


def test_a_cap_refuses_before_anything_is_drawn() -> None:
    assert command("ledger", "begin") == 0
    caps = ("--epsilon", "1.5", "--delta", "0.1", "--unit", "case", "--composition", "sum")
    assert command("ledger", "declare", "claims", *caps, "--by", "me", "--reason", "r") == 0
    with begun(account="claims") as session:
        first = session.ask("map", epsilon=1)
        with pytest.raises(BudgetExhausted):
            session.ask("map", epsilon="0.6")
        assert session.remaining.remaining_epsilon == 0.5 and len(session.answers) == 1
        assert session.ask("map", epsilon=1).folder == first.folder
    actions = [entry.action for entry in ledger_entries(Path("keys"))]
    assert actions.count("draw") == 1


def test_a_session_is_exported_as_releases_that_verify() -> None:
    with begun() as session:
        assert session.remaining is None
        answers = [session.ask(question, **given) for question, given in ASKED.items()]
        page = session.export("shared").read_text()
        session.export("shared")
    assert "epsilon 3.5 and delta" in page and page.count("statement.md") == 3
    assert "By the composition of their noise, epsilon 3.5 holds" in page  # two may be pure
    assert {path.name for path in Path("shared").iterdir()} == {
        PAGE_NAME, *(answer.folder.name for answer in answers),
    }  # fmt: skip
    for answer in answers:
        assert command("verify", Path("shared") / answer.folder.name) == 0
        assert digests(Path("shared") / answer.folder.name) == digests(answer.folder)
    assert "A session of 0 answers" in begun().export("none").read_text()
    # The noise of the first may well have the second refused.
    with begun(even_if_unusable=True) as session:
        for epsilon in ("0.2", "0.3"):
            session.ask("map", epsilon=epsilon, l2_clip=3)
        page = session.export("maps").read_text()
    composed = re.search(r"epsilon (0\.\d+) holds at the same delta", page)
    assert composed is not None
    assert 0.3 < float(composed[1]) < 0.4  # and not 0.5


PROGRAM = """
import signal, sys, polars as pl, tracecloak
from tests.support.releasing import _end_at
if len(sys.argv) > 1:
    name, when, number = sys.argv[1:]
    _end_at(name, when, int(number), signal.SIGKILL)
with tracecloak.session(pl.read_csv("log.csv"), params={}, new_ledger=True) as session:
    print(session.ask("map", epsilon=1, vocabulary=["Check", "Pay", "Register"]).graph.write_csv())
"""


@pytest.mark.slow
def test_killed_anywhere_the_same_answer_comes_back_and_is_paid_once() -> None:
    log().write_csv("log.csv")
    own = {**os.environ, "PYTHONPATH": str(ROOT)}

    def run(*kill: str) -> tuple[int, str]:
        words = [sys.executable, "-c", PROGRAM, *kill]
        done = subprocess.run(words, env=own, capture_output=True, text=True)
        return done.returncode, done.stdout

    kills = [
        *(("insert", "after", "1"), ("draw", "after", "1"), ("decide graph", "after", "1")),
        *(("commit", "before", "1"), ("rename", "after", "1"), ("receipt", "before", "1")),
    ]
    for kill in kills:
        assert run(*kill)[0] == -signal.SIGKILL, kill
    code, answer = run()
    assert code == 0 and charges() == 1
    assert run() == (0, answer) and charges() == 1


def test_what_is_no_question_and_what_is_of_one_release_is_refused() -> None:
    session = begun()
    calls: dict[str, Callable[[], object]] = {
        "question is 'graph', and must be one of": lambda: session.ask("graph", epsilon=1),
        "^epsilonn is no parameter of": lambda: session.preview("map", epsilonn=1),
        "^account is no parameter of": lambda: session.ask("map", epsilon=1, account="other"),
        "^release_id is of one release": lambda: begun(release_id="r"),
        "^epsilonn in params is": lambda: begun(params={"epsilonn": 1}),
        "^window is for files": lambda: begun(window="due"),
    }
    for message, call in calls.items():
        with pytest.raises(UsageError, match=message):
            call()
    assert not Path("keys").exists()
