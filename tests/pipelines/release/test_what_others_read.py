"""What a scheduler keeps of a run says the same of two logs of which one has a record more.

Its log has readers who must not see a number of the data. The operator's folder has these numbers,
and so has a terminal.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any, NamedTuple

import pytest

from tests.support.object_store import ObjectStore
from tests.support.releasing import csv_log, operator_folder, small_rows
from tests.support.terminal import shown_on_a_terminal
from tracecloak.transforms.operator_log import kept_on_worker

STAMP = "2026-01-01T00:00:00Z"
OPERATOR = logging.getLogger("tracecloak.operator")
NAME = "operator.log"
RIGOROUS = ["--method", "private-dfg", "--epsilon", "1", "--buy_vocabulary"]
GROWING = ["--method", "amun", "--guessing_advantage", "0.2", "--mode", "oversampling"]

# By what is released: what the log is called, its flags, and the log and its neighbours, each a
# file or, by name, several.
Log = str | dict[str, str]


def as_csv(*more: str) -> str:
    rows = [",".join(row) for row in small_rows()]
    return "\n".join(["case_id,activity,timestamp", *rows, *more]) + "\n"


def as_jsonl(*more: str) -> str:
    rows = [dict(zip(("case_id", "activity", "timestamp"), r, strict=True)) for r in small_rows()]
    return "".join(f"{line}\n" for line in [*map(json.dumps, rows), *more])


def as_xes(*more: str) -> str:
    def trace(case: str, activity: str, stamp: str) -> str:
        return (
            f'<trace>\n<string key="concept:name" value="{case}"/>\n<event>\n'
            f'<string key="concept:name" value="{activity}"/>\n'
            f'<date key="time:timestamp" value="{stamp}"/>\n</event>\n</trace>\n'
        )

    traces = [trace(*row) for row in small_rows()]
    return f"<log>\n{''.join([*traces, *more])}</log>\n"


NEIGHBOURS: dict[str, tuple[str, list[str], list[Log]]] = {
    "csv": (
        "log.csv",
        RIGOROUS,
        [as_csv(), as_csv(f",A,{STAMP}"), as_csv(f"new,A,{STAMP}"), as_csv('x,"A')],
    ),
    "jsonl": ("log.jsonl", RIGOROUS, [as_jsonl(), as_jsonl("{"), as_jsonl('{"step": "A"}')]),
    "xes": ("log.xes", RIGOROUS, [as_xes(), as_xes("<trace><event></trace>\n")]),
    "a file a case": (
        "log",
        RIGOROUS,
        [{"1.csv": as_csv()}, {"1.csv": as_csv(), "2.csv": as_csv().splitlines()[0]}],
    ),
    "foretold": ("log.csv", GROWING, [as_csv(), as_csv(f"new,Z,{STAMP}")]),
}
# Of what is found in any format the same is shown.
FORMS = [*((kind, "table") for kind in NEIGHBOURS), ("csv", "json"), ("foretold", "json")]


class Said(NamedTuple):
    """What a release of a log left to read; its standard error is no terminal."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def own(self) -> Path:
        """The operator's folder."""
        return operator_folder(self.folder / "keys").resolve()


# One process for all, as to load a release takes longer than to make one.
_RUN = """
import json, os, sys
from tracecloak.pipelines.commands.main import main
codes = []
for folder, arguments in json.loads(sys.argv[1]):
    os.chdir(folder)
    for number, name in ((1, "out.txt"), (2, "err.txt")):
        stream = (None, sys.stdout, sys.stderr)[number]
        stream.flush()
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    codes.append(main(arguments))
    sys.stdout.flush()
    with open("code.txt", "w") as stream:
        stream.write(str(codes[-1]))
"""


def ran(logs: Sequence[tuple[Path, Log, str, list[str]]]) -> list[Said]:
    """Releases logs in a process without a terminal: (folder, log, its name, flags) each."""
    jobs = []
    for folder, log, name, flags in logs:
        for file, text in {".": log}.items() if isinstance(log, str) else log.items():
            (folder / name / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / file).write_text(text)
        common = ["--log", name, "--output", "out", "--key_store", "keys", "--new_ledger"]
        jobs.append((str(folder), ["release", *common, "--release_id", "r", *flags]))
    subprocess.run([sys.executable, "-c", _RUN, json.dumps(jobs)], timeout=300, check=True)
    texts = [[(f / n).read_text() for n in ("code.txt", "out.txt", "err.txt")] for f, *_ in logs]
    return [
        Said(int(code), out, err, folder)
        for (code, out, err), (folder, *_) in zip(texts, logs, strict=True)
    ]


def without_chance(text: str, folder: Path) -> str:
    """A text without the time, what is released, and the folder of the test."""
    text = re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ ", "", text, flags=re.MULTILINE)
    text = re.sub(r"^(holds|advice|took) .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"(operator/r)-[0-9a-f]+", r"\1", text)
    return text.replace(str(folder.resolve()), "")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[Said]]:
    """Of every kind and form, the log first and then its neighbours."""
    jobs = {}
    for kind, form in FORMS:
        name, flags, logs = NEIGHBOURS[kind]
        given = [*flags, "--runner", "InMemory", *(["--json"] if form == "json" else [])]
        jobs[kind, form] = [(tmp_path_factory.mktemp("log"), log, name, given) for log in logs]
    found = iter(ran([job for of_kind in jobs.values() for job in of_kind]))
    return {key: [next(found) for _ in of_kind] for key, of_kind in jobs.items()}


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_it_is_the_same_of_a_log_and_its_neighbour(
    kind: str, form: str, said: dict[tuple[str, str], list[Said]]
) -> None:
    told = []
    for one in said[kind, form]:
        assert one.code == 0, one.err
        out = one.out
        if form == "json":
            shown: dict[str, Any] = json.loads(out)
            out = json.dumps({**shown, "came_out": None, "elapsed_s": None})
        told.append((without_chance(one.err, one.folder), without_chance(out, one.folder)))
        # Of every log it is told where the operator reads more.
        assert f"for the operator alone, in {one.own}" in one.err
    assert told[1:] == told[:1] * (len(told) - 1)
    if kind != "a file a case":
        kept = one.own / NAME
        assert re.search(r"WARNING .*\d", kept.read_text())
        assert oct(kept.stat().st_mode)[-3:] == "600"


@pytest.mark.parametrize(
    "runner",
    [
        ["--runner", "FnApiRunner"],
        ["--direct_running_mode=multi_processing", "--direct_num_workers=2"],
    ],
)
@pytest.mark.slow
def test_what_workers_find_lands_with_it(tmp_path: Path, runner: list[str]) -> None:
    kinds = {"xes": "left out, at line 268", "foretold": "A release would have about "}
    jobs = []
    for kind in kinds:
        name, flags, logs = NEIGHBOURS[kind]
        (tmp_path / kind).mkdir()
        jobs.append((tmp_path / kind, logs[1], name, [*flags, *runner]))
    for one, found in zip(ran(jobs), kinds.values(), strict=True):
        assert one.code == 0, one.err
        assert found in (one.own / NAME).read_text() and found not in one.err + one.out


def test_too_many_malformed_records_end_it_without_a_number_of_them(tmp_path: Path) -> None:
    jobs = []
    for n_more in (301, 302):
        (tmp_path / str(n_more)).mkdir()
        log = as_csv(*[f",A,{STAMP}"] * n_more)
        flags = [*RIGOROUS, "--max_error_ratio", "0.01", "--json", "--runner", "InMemory"]
        jobs.append((tmp_path / str(n_more), log, "log.csv", flags))
    told = []
    for one, n_more in zip(ran(jobs), (301, 302), strict=True):
        assert one.code == 3 and one.out == ""
        assert f"{one.own} says why, and where each one is" in one.err
        assert re.search(rf"{n_more} of \d+: no case id", (one.own / NAME).read_text())
        told.append(without_chance(one.err, one.folder))
    assert told[0] == told[1]


_RELEASE = """
from tracecloak.pipelines.commands.main import main
main("release --log log.csv --output out --key_store keys --new_ledger --method private-dfg "
     "--epsilon 1 --buy_vocabulary --release_id r --runner InMemory {}".split())
"""


@pytest.mark.parametrize("form", ["", "--json"])
def test_a_terminal_shows_the_operator_what_was_found_but_for_programs(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    csv_log(tmp_path / "log.csv", [*small_rows(), ("", "A", STAMP)])
    monkeypatch.chdir(tmp_path)
    shown = shown_on_a_terminal(_RELEASE.format(form), "stderr", {**os.environ, "TERM": "dumb"})
    found = "1 of 39: no case id, first at record 39"
    assert (found in shown) == (form == "")
    assert found in (operator_folder(tmp_path / "keys") / NAME).read_text()


# --- the operator's log ---------------------------------------------------------------------------


@pytest.fixture
def logger(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """The operator's, as in a process in which nothing is kept."""
    monkeypatch.setattr(OPERATOR, "handlers", [])
    monkeypatch.setattr(OPERATOR, "propagate", True)
    level = OPERATOR.level
    OPERATOR.setLevel(logging.INFO)
    yield OPERATOR
    OPERATOR.setLevel(level)


@pytest.mark.parametrize("place", ["here", "objects"])
def test_a_worker_keeps_them_off_its_own_log(
    place: str,
    tmp_path: Path,
    logger: logging.Logger,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """There the folder of the operator is one that workers can reach."""
    monkeypatch.setattr(ObjectStore, "root", tmp_path)
    folder = "objects://own" if place == "objects" else str(tmp_path / "own")
    together = Barrier(2)

    def work(number: int) -> None:
        with kept_on_worker(folder):
            together.wait()  # both keep their own lines now
            logger.warning("found %d", number)
            together.wait()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, (3, 4)))
    text = "".join(path.read_text() for path in (tmp_path / "own").iterdir())
    assert sorted(line.split(" WARNING ")[1] for line in text.splitlines()) == [
        "found 3",
        "found 4",
    ]
    assert "found" not in caplog.text
    logger.warning("after that")
    assert "after that" in caplog.text
