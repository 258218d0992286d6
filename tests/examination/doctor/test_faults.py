"""Each check with the real thing broken: what is said of it, and with which exit code."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.support.doctor import faults
from tests.support.postgres import database, server
from tests.support.releasing import csv_log, small_rows, tracecloak
from tests.support.rights import as_ordinary_user
from tests.support.small_disk import small_disk
from tracecloak.examination.doctor import places, setting
from tracecloak.examination.doctor.run import Line, exit_code_of, run_checks
from tracecloak.examination.doctor.setting import Setting
from tracecloak.pipelines.configuration.plan import read_plan
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger

__all__ = ["database", "server", "small_disk"]  # fixtures


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setting, "_PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(places, "_LOCK_SECONDS", 0.1)


class House:
    """A configuration whose first release is there, and which is ready for the next one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "release.yaml"
        self.log = csv_log(folder / "log.csv", list(small_rows()))
        names = folder / "names.txt"
        names.write_text("\n".join("ABCD"))
        self.body: dict[str, Any] = {
            "log": str(self.log), "method": "private-dfg", "output": str(folder / "out"),
            "params": {"epsilon": 1, "vocabulary": str(names), "max_trace_length": 5},
            "key_store": str(folder / "keys"), "release_id": "first",
        }  # fmt: skip
        self.keys = folder / "keys"
        self.set()
        assert tracecloak("release", self.path) == 0
        self.set(release_id="second")

    def set(self, **changes: Any) -> None:
        self.body.update(changes)
        self.path.write_text(yaml.safe_dump(self.body))

    def lines(self, *of_beam: str, **others: Any) -> list[Line]:
        plan = read_plan(str(self.path), {})
        return list(run_checks(Setting(plan, of_beam, **others)))


@pytest.fixture(scope="module")
def first_house(tmp_path_factory: pytest.TempPathFactory) -> House:
    made = House(tmp_path_factory.mktemp("house"))
    shutil.copytree(made.folder, made.folder.with_suffix(".whole"))
    return made


@pytest.fixture
def house(first_house: House) -> Iterator[House]:
    """The same for each test, which finds it whole."""
    folder, body = first_house.folder, dict(first_house.body)
    yield first_house
    shutil.rmtree(folder)
    shutil.copytree(folder.with_suffix(".whole"), folder)
    first_house.body = body


def test_nothing_is_wrong_with_what_is_whole(house: House) -> None:
    lines = house.lines(probes=True)
    assert faults(lines) == {}
    assert exit_code_of(lines) == 0
    assert {line.check for line in lines} >= {
        "configuration", "engine", "key store", "ledger", "input", "output", "staging area", "disk",
        "release", "budget",
    }  # fmt: skip


def _log_cut_off(house: House) -> None:
    path = house.folder / "log.parquet"
    pq.write_table(pa.table({"case_id": ["1"], "activity": ["A"], "timestamp": ["2026"]}), path)
    path.write_bytes(path.read_bytes()[:-10])
    house.set(log=str(path))


def _output_is_a_file(house: House) -> None:
    shutil.rmtree(house.folder / "out")
    (house.folder / "out").write_text("")


def _staging_on_another_disk(house: House) -> None:
    if not Path("/dev/shm").is_dir() or os.stat("/dev/shm").st_dev == house.folder.stat().st_dev:
        pytest.skip("there is no second disk here")
    house.set(staging_area="/dev/shm/tracecloak-staging")


def _released(house: House, **changes: Any) -> None:
    """Makes a release between the first and the second one."""
    house.set(release_id="between", **changes)
    assert tracecloak("release", house.path) == 0
    house.set(release_id="second", **dict.fromkeys(changes))


def _ledger_of_last_week(house: House) -> None:
    (house.folder / "backup").write_bytes((house.keys / "ledger.db").read_bytes())
    _released(house)
    (house.folder / "backup").rename(house.keys / "ledger.db")


def _ledger_changed(house: House) -> None:
    with closing(sqlite3.connect(house.keys / "ledger.db")) as ledger, ledger:
        ledger.execute("UPDATE tracecloak_ledger SET epsilon = '0.1' WHERE action = 'commit'")


def _has_account(house: House, account: str) -> None:
    (house.folder / "accounts.yaml").write_text(f"accounts:\n  {account}\n")
    house.set(accounts=str(house.folder / "accounts.yaml"))


def _withdrawn(house: House) -> None:
    flags = (
        "--output", house.body["output"], "--release_id", "first", "--by", "A", "--reason", "B",
    )  # fmt: skip
    assert tracecloak("ledger", "withdraw", "--key_store", house.keys, *flags) == 0
    house.set(release_id="first")


def _of_another_store(house: House) -> None:
    ledger = f"sqlite:///{house.folder / 'others.db'}"
    OfficersLedger(ledger, new=True)
    others = str(house.folder / "others")
    house.set(release_id="first", key_store=others, new_ledger=True, ledger=ledger)


def _wrapping_key_unnamed(house: House) -> None:
    (house.folder / "key").write_text("ab" * 32)
    _released(house, key_encryption_key=f"file:{house.folder / 'key'}")


def _nobody_could_use_it(house: House) -> None:
    (house.folder / "names.txt").write_text("\n".join(f"activity {i}" for i in range(60)))
    house.set(expected_cases=4)


Plant = Callable[[House], object]
PLANTED: dict[str, tuple[Plant, str, int, str]] = {
    "a column is renamed": (
        lambda h: h.log.write_text(h.log.read_text().replace("timestamp", "when", 1)),
        "input", 3, "timestamp"),
    "the log is gone": (lambda h: h.log.unlink(), "input", 3, "log.csv"),
    "half a log": (_log_cut_off, "input", 3, "log.parquet"),
    "a file for the output": (_output_is_a_file, "output", 2, "name another"),
    "output in a release": (lambda h: h.set(output=str(h.folder / "out" / "run_id=first" / "more")),
        "output", 2, "outside it"),
    "another disk": (_staging_on_another_disk, "staging area", 2, "another file system"),
    "releases in the staging area": (
        lambda h: h.set(staging_area=str(h.folder / "out"), output=str(h.folder / "other")),
        "staging area", 2, "holds releases"),
    "the ledger is gone": (lambda h: (h.keys / "ledger.db").unlink(), "ledger", 6, "saw in it"),
    "a ledger that was never begun": (
        lambda h: h.set(ledger=f"sqlite:///{h.folder / 'another.db'}"),
        "ledger", 2, "does not exist"),
    "configured otherwise": (
        lambda h: h.set(release_id="first", params={**h.body["params"], "epsilon": 2}),
        "release", 2, "the configuration changed"),
    "a ledger of last week": (_ledger_of_last_week, "ledger", 6, "older backup"),
    "a changed ledger": (_ledger_changed, "ledger", 6, "ledger verify"),
    "a cap that is reached": (
        lambda h: _has_account(h, "default: {unit: case, epsilon: 1.5, delta: 0.0001}"),
        "budget", 4, "epsilon cap 1.5"),
    "an account that is not there": (
        lambda h: _has_account(h, "other: {unit: case, epsilon: 3, delta: null}"),
        "ledger", 2, "is not in"),
    "withdrawn": (_withdrawn, "release", 2, "choose another release_id"),
    "of another key store": (_of_another_store, "release", 2, "another key store"),
    "no signing key": (lambda h: h.set(sign=str(h.folder / "gone.pem")), "keys", 2, "gone.pem"),
    "no deployment key": (lambda h: h.set(deployment_key="env:TRACECLOAK_TEST_NO_SUCH_KEY"),
        "keys", 2, "TRACECLOAK_TEST_NO_SUCH_KEY"),
    "no wrapping key": (_wrapping_key_unnamed, "key store", 2, "key_encryption_key"),
    "no job server": (lambda h: h.set(runner="FlinkRunner"), "engine", 2, "job_endpoint"),
    "not usable": (_nobody_could_use_it, "configuration", 9, "NOT USABLE"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_told(house: House, name: str) -> None:
    plant, check, code, words = PLANTED[name]
    plant(house)
    lines = house.lines()
    line = faults(lines)[check]
    assert (line.status, line.exit_code) == ("failure", code), line
    assert words in line.text
    assert exit_code_of(lines) == code


def test_rights_of_folders_are_told(house: House) -> None:
    for path, check in (
        (house.folder / "out", "output"),
        (house.keys, "key store"),
        (house.keys / "ledgers", "key store"),
        (house.keys / "operator", "key store"),
        (house.keys / "ledger.db", "ledger"),
    ):
        mode = path.stat().st_mode
        path.chmod(0o500)
        try:
            line = faults(as_ordinary_user(house.lines))[check]
        finally:
            path.chmod(mode)
        assert line.status == "failure" and str(path) in line.text


def test_a_key_store_that_others_look_into_is_told(house: House) -> None:
    house.keys.chmod(0o755)
    assert faults(house.lines())["key store"].text.endswith("or the next run does")


def test_a_ledger_that_is_locked_is_told(house: House) -> None:
    with closing(sqlite3.connect(house.keys / "ledger.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        lines = faults(house.lines())
    assert lines["ledger"].exit_code == 75 and "locked" in lines["ledger"].text
    assert (lines["budget"].text, lines["budget"].cause) == ("see ledger", "ledger")


def test_a_disk_that_takes_nothing_is_told_by_a_probe(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # of modules that are loaded meanwhile
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        line = faults(house.lines(probes=True))["staging area"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert line.exit_code == 6 and "staging_area" in line.text
    assert not (house.folder / "_incomplete-out").exists()


def test_a_disk_that_is_nearly_full_is_told(house: House, small_disk: Path) -> None:
    house.set(dead_letter=str(small_disk / "rejects"))
    line = faults(house.lines())["disk"]
    assert line.exit_code == 6 and "dead_letter" in line.text


@pytest.mark.parametrize(("seconds", "side"), [(90, "ahead of"), (-90, "behind")])
def test_a_clock_that_is_wrong_is_told_by_a_probe(house: House, seconds: int, side: str) -> None:
    line = faults(house.lines(probes=True, now=lambda: time.time() + seconds))["staging area"]
    assert line.status == "failure" and f"90 s {side}" in line.text


def test_a_login_that_may_not_insert_is_told(house: House, database: str) -> None:
    import sqlalchemy as sa

    OfficersLedger(database, new=True)
    engine = sa.create_engine(database, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE ROLE looks_only LOGIN PASSWORD 'x'")
        connection.exec_driver_sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO looks_only")
        tables = "tracecloak_ledger, tracecloak_cases, tracecloak_windows"
        connection.exec_driver_sql(f"GRANT INSERT ON {tables} TO looks_only")
    url = sa.make_url(database).set(username="looks_only", password="x")
    house.set(ledger=url.render_as_string(hide_password=False))
    line = faults(house.lines())["ledger"]
    assert line.status == "failure" and "INSERT on table tracecloak_units" in line.text


def test_an_engine_that_does_not_answer_is_told(house: House) -> None:
    house.set(runner="FlinkRunner", ledger="postgresql+psycopg://nobody@127.0.0.1:9/none")
    with socket.create_server(("127.0.0.1", 0)) as server:
        for name, port in ("job_endpoint", 9), ("flink_master", server.getsockname()[1]):
            flags = (f"--job_endpoint=127.0.0.1:{port}", "--flink_master=127.0.0.1:9")
            line = faults(house.lines(*flags, "--environment_type=LOOPBACK"))["engine"]
            assert line.exit_code == 75 and name in line.text


class _Flink(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"flink-version": "1.2.0"}).encode())

    def log_message(self, *_: Any) -> None:
        pass


def test_an_engine_of_another_version_is_told(house: House) -> None:
    with HTTPServer(("127.0.0.1", 0), _Flink) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        flags = (
            f"--job_endpoint={address}",
            f"--flink_master={address}",
            "--environment_type=LOOPBACK",
        )
        house.set(runner="FlinkRunner")
        line = faults(house.lines(*flags))["engine"]
        server.shutdown()
    assert line.status == "failure" and "Flink is 1.2.0" in line.text


def test_a_check_that_hangs_stops_no_other(house: House) -> None:
    is_over = threading.Event()

    def hangs(_: Setting) -> Iterator[Any]:
        yield "ok", "so far"
        is_over.wait()

    def fails(_: Setting) -> Iterator[Any]:
        raise ValueError("of case-3")
        yield

    setting = Setting(read_plan(str(house.path), {}))
    lines = list(run_checks(setting, {"one": hangs, "other": fails}, 0.05))
    is_over.set()
    assert [(line.check, line.exit_code) for line in lines] == [
        ("one", 0),
        ("one", 75),
        ("other", 6),
    ]
    assert "case-3" not in lines[-1].text
