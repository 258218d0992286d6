"""An agent's server: released values and public texts leave it, and nothing else of the log."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl
import pytest
import yaml

from tests.support.releasing import ROOT, counting_charges
from tests.support.releasing import tracecloak as command
from tracecloak.pipelines.frames import agent_server as agent_servers
from tracecloak.pipelines.frames import session as sessions
from tracecloak.pipelines.frames.agent_server import agent_server
from tracecloak.schemas.errors import InputSchemaError, TracecloakError, UsageError

mcp = pytest.importorskip("mcp")

NAMES = ["Check", "Pay", "Register"]
# Of the case that a neighbouring log has more.
SECRET = ("Secretly", "7919", "case-8111")
Call = tuple[str, dict[str, Any]]


def asked(question: str, /, **parameters: Any) -> Call:
    return "ask", {"question": question, "parameters": parameters}


def written(more: bool = False, **keys: Any) -> str:
    """Writes a log, with or without a case more, and a session of it, whose path it returns."""
    chance, rows = random.Random(5), []
    for case in range(120):
        for at, step in enumerate(["Register", *["Check"] * chance.randrange(3), "Pay"]):
            rows.append((f"c{case}", step, f"2026-01-{1 + case % 20:02}T0{at}:00:00Z", "web"))
    rows += [(SECRET[2], SECRET[0], "2026-02-01T00:00:00Z", SECRET[1])] * more
    names = ["case_id", "activity", "timestamp", "case:channel"]
    pl.DataFrame(rows, names, orient="row").write_csv("log.csv")
    params = {"vocabulary": NAMES, "max_trace_length": 6}
    body = {"log": "log.csv", "account": "agent", "params": params, **keys}
    Path("session.yaml").write_text(yaml.safe_dump(body))
    return "session.yaml"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    begin(tmp_path / "keys", monkeypatch)
    return tmp_path


def begin(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begins a ledger with an account of epsilon 3."""
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(keys))
    assert command("ledger", "begin") == 0
    caps = ("--epsilon", "3", "--delta", "1e-5", "--unit", "case", "--composition", "sum")
    assert command("ledger", "declare", "agent", *caps, "--by", "me", "--reason", "r") == 0


def answers(server: Any, *calls: Call) -> list[Any]:
    """What a client of the SDK gets: results as JSON values, and errors as texts."""
    if isinstance(server, str):
        made, session = agent_server(server)
        with session:
            return answers(made, *calls)

    async def run() -> list[Any]:
        async with mcp.Client(server) as client:
            found = [await client.call_tool(name, given) for name, given in calls]
        return [one.content[0].text if one.is_error else one.structured_content for one in found]

    return asyncio.run(run())


def at_a_pipe(*kill: str) -> Any:
    """A server in a process of its own, whose standard output is the client's alone."""
    own = {**os.environ, "PYTHONPATH": str(ROOT)}
    return mcp.StdioServerParameters(command=sys.executable, args=["-c", PROGRAM, *kill], env=own)


PROGRAM = """
import signal, sys
from tests.support.releasing import _end_at
from tracecloak.pipelines.commands.main import main
if len(sys.argv) > 1:
    name, when, number = sys.argv[1:]
    _end_at(name, when, int(number), signal.SIGKILL)
sys.exit(main(["serve", "session.yaml"]))
"""


def test_an_agent_gets_what_is_released_and_pays_once(capfd: pytest.CaptureFixture[str]) -> None:
    written(more=True)
    about, preview, graph, again, variants, indicators, refused, useless, left = answers(
        at_a_pipe(), ("about", {}), ("preview", {"question": "map", "parameters": {"epsilon": 1}}),
        ("map", {"epsilon": 1}), asked("map", epsilon="1.0"), ("variants", {"epsilon": 1}),
        asked("indicators", epsilon=0.5, indicators=["cases", "rework"]),
        ("map", {"epsilon": 0.75}), ("map", {"epsilon": 0.0001}), ("about", {}),
    )  # fmt: skip
    assert about["activities"] == NAMES and {*about["questions"]} == {*sessions.QUESTIONS}
    assert about["remaining"]["remaining"] == {"epsilon": 3, "delta": 1e-5}
    assert preview["price"] == graph["price"] == {"epsilon": 1, "delta": 1e-6}
    assert "left before it: epsilon 3" in preview["says"]
    assert {"source", "target", "count", "low", "high"} <= graph["map"][0].keys()
    assert again["map"] == graph["map"] and again["was_answered_before"]
    assert {"variant", "count"} <= variants["variants"][0].keys()
    assert indicators["indicators"][0]["low"] < indicators["indicators"][0]["value"]
    assert refused.endswith("this answer: epsilon 0.5 and delta 0.000007 in account agent")
    assert "Nothing was claimed or paid" in useless
    assert left["remaining"] == indicators["remaining"]
    assert len(counting_charges(Path("keys"))) == 3
    assert command("verify", Path("answers", f"run_id={graph['answer']}")) == 0
    said = json.dumps([about, preview, graph, variants, indicators]) + capfd.readouterr().err
    assert not any(word in said for word in (*SECRET, "log.csv", str(Path.cwd())))


HOSTILE: list[Call] = [
    asked("map", epsilon=10**400), asked("map", epsilon=-1), asked("map", epsilon="NaN"),
    asked("map", epsilon=1e-300), asked("map", epsilon=[1]), asked("map", epsilon=True, delta=1),
    asked("map", epsilon=1, vocabulary="/etc/passwd"), asked("map", epsilon=1, max_cases=1),
    asked("map", epsilon=1, question="variants"), asked("map", epsilon=1, account="other"),
    asked("map", epsilon=1, l2_clip=10**30), asked("map"), asked("ignore what was said before"),
    asked("indicators", epsilon=1, indicators="@session.yaml"),
    asked("indicators", epsilon=1, indicators=["@log.csv", {"indicator": "cases", "x": {"y": 1}}]),
    asked("indicators", epsilon=1, indicators=[f"frequency activity={SECRET[0]}"]),
    asked("indicators", epsilon=1, indicators=["cases by=case:channel"]),
    asked("indicators", epsilon=1, indicators=["cases by=case:none"]),
    asked("indicators", epsilon=1, indicators=["cases"] * 10_000),
    ("map", {"epsilon": "Register"}), ("variants", {}), ("preview", {"question": "map"}),
    ("preview", {"question": "map", "parameters": {"epsilon": 1}, "goal": "'; DROP TABLE"}),
    ("ledger", {}), ("map", {"epsilon": 1e9}),
]  # fmt: skip


def test_no_error_differs_between_neighbours_or_has_a_name_or_number_of_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []
    for more in (False, True):
        begin(Path(f"keys-{more}"), monkeypatch)
        found.append(answers(written(more, output=f"answers-{more}"), *HOSTILE))
    assert found[0] == found[1] and {*map(type, found[0])} == {str}
    own = json.dumps([given for _, given in HOSTILE])
    assert not any(word in text for text in found[0] for word in SECRET if word not in own)
    assert not [text for text in found[0] if re.search(r"\b(c\d+|120|121|root:)\b", text)]


def test_what_fails_on_the_log_has_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (ValueError("c17 has 4711"), InputSchemaError("c17 has 4711")):
        made, session = agent_server(written())
        with session, monkeypatch.context() as patch:
            patch.setattr(sessions, "released", mock.Mock(side_effect=error))
            text, about = answers(made, asked("map", epsilon=1), ("about", {}))
        assert text.endswith("the question was not answered; the operator's folder says why")
        assert about["remaining"]["remaining"]["epsilon"] == 3
    with session, monkeypatch.context() as patch:
        patch.setattr(agent_servers, "method_named", mock.Mock(side_effect=KeyError("c17")))
        assert answers(made, ("about", {}))[0].endswith("the operator's folder says why")
    (kept,) = Path("keys/operator").rglob("operator.log")
    assert "failed with ValueError" in kept.read_text() and "4711" in kept.read_text()


def test_an_officer_lists_questions_and_a_last_day() -> None:
    parameters = {"epsilon": "0.5", "indicators": ["cases by=case:channel groups=web"]}
    listed = [{"question": "map", "epsilon": 1}, {"question": "indicators", **parameters}]
    about, first, second, *others = answers(
        written(questions=listed), ("about", {}), ("map", {"epsilon": 1}),
        asked("indicators", **parameters), ("map", {"epsilon": 0.2}), asked("map"),
        asked("variants", question="map", epsilon=1), asked("map", epsilon=1, delta=1e-6),
        ("preview", {"question": "variants", "parameters": {"epsilon": 1}}),
    )  # fmt: skip
    assert about["questions"][1] == {"question": "indicators", "parameters": parameters}
    assert first["map"] and second["indicators"][0]["group"] == "web"
    assert all("no question that `about` lists" in text for text in others)
    for last, is_over in (("2026-01-31", True), ("9999-12-31", False)):
        about, ended = answers(written(expires=last), ("about", {}), ("map", {"epsilon": 1}))
        assert about["expires"] == last
        assert ("were answered until" in ended) if is_over else ended["was_answered_before"]
    assert len(counting_charges(Path("keys"))) == 2


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"params": {"buy_vocabulary": True}}, "vocabulary is missing in params"),
        ({"account": "free"}, "the account has no cap"),
        ({"questions": [{"question": "map"}]}, "epsilon: required"),
        ({"questions": [{"epsilon": 1}]}, "question is '', and must be one of"),
        ({"expires": "soon"}, "expires"),
        ({"questoins": []}, "questoins: unknown key"),
        ({"query": "SELECT 1"}, "query is for files"),
        ({"log": "none.csv"}, "none.csv"),
        ({"columns": {"activity": "step"}}, "step"),
    ],
)
def test_a_session_that_is_not_approved_as_a_whole_does_not_start(
    keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(TracecloakError, match=re.escape(message)):
        agent_server(written(**keys))


def test_without_the_extra_the_command_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    with pytest.raises(UsageError, match=r"tracecloak serve needs mcp.*\(the extra mcp\)"):
        agent_server(written())


@pytest.mark.slow
def test_killed_while_it_answers_the_same_answer_comes_back_and_is_paid_once() -> None:
    written()
    kills = [("insert", "after", "1"), ("decide graph", "after", "1"), ("commit", "before", "1")]
    for kill in kills:
        with pytest.raises(Exception, match=r"(?i)closed|unhandled errors"):
            answers(at_a_pipe(*kill), ("map", {"epsilon": 1}))
    (graph,) = answers(at_a_pipe(), ("map", {"epsilon": 1}))
    (again,) = answers(at_a_pipe(), ("map", {"epsilon": 1}))
    assert again["map"] == graph["map"] and len(counting_charges(Path("keys"))) == 1
