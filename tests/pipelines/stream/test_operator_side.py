"""What whoever is on call for a stream is told, by file, port and metrics, and what nobody is."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.support.local_streams import NAME, Script, Topic
from tests.support.stream_runs import S, Sent, in_time, random_messages, run, stream_config, ticking
from tracecloak.pipelines.outcomes import metrics
from tracecloak.pipelines.outcomes.metrics import metrics_text, registry_of
from tracecloak.pipelines.stream import operator_port
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import paid_epoch
from tracecloak.pipelines.stream.local_run import run_epoch
from tracecloak.pipelines.stream.operator_port import serving
from tracecloak.pipelines.stream.operator_side import (
    ALIVE_SECONDS,
    Health,
    ask_ledger,
    operator_side,
)
from tracecloak.pipelines.stream.plan import resolve
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.transforms.stream.stream_status import StreamStatus

# The first step of `stream_config` is due at 20 s: 10 s of its period, and 10 s of delay.
DUE_SECONDS = 20.0


def health_of(config: StreamConfig, now: float = 0.0, seconds: float = 0.0) -> Health:
    standing = StreamStatus(turned_seconds=0.0, step=0)
    return Health(resolve(config), standing, now=lambda: now, monotonic=lambda: seconds)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def get(port: int, path: str, accept: str = "") -> tuple[int, str, str]:
    """Status, content type and body."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as one:
        one.request("GET", path, headers={"Accept": accept})
        answer = one.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()


# --- Health -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"step": None}, "the state of the epoch is not loaded yet"),
        ({"source_away": "no broker answers"}, "no broker answers"),
        ({"sink_away": "the topic is away"}, "the topic is away"),
        ({"turned_seconds": -ALIVE_SECONDS - 1}, "the loop has not gone round for 600 s"),
    ],
)
def test_each_thing_that_is_away_is_a_reason(
    tmp_path: Path, change: Mapping[str, Any], reason: str
) -> None:
    health = health_of(stream_config(tmp_path))
    health.standing = dataclasses.replace(health.standing, **change)
    told = health.told()
    assert told["reasons"] == [reason]
    assert told["alive"] == ("loop" not in reason)


def test_a_step_that_is_due_for_long_is_a_reason(tmp_path: Path) -> None:
    config = stream_config(tmp_path)
    assert not health_of(config, DUE_SECONDS + 30).told()["reasons"]
    late = health_of(config, DUE_SECONDS + 31).told()
    assert late["reasons"] == ["step 0 should have been published 31 s ago"]
    assert late["steps_due"] == 4
    ended = health_of(config, 1e6)
    ended.standing.step = config.horizon
    assert (ended.told()["reasons"], ended.told()["steps_due"]) == ([], 0)


def test_a_ledger_that_is_gone_is_a_reason_and_its_account_is_told_before(tmp_path: Path) -> None:
    config = stream_config(tmp_path)
    health = health_of(config)
    with paid_epoch(resolve(config)) as epoch:
        store = epoch.noted.gate.store()
    ask_ledger(health, store)
    assert not health.told()["reasons"]
    assert health.readings().values["account_epsilon_spent"] == 1
    health.monotonic = lambda: 61.0
    assert health.told()["reasons"] == ["the ledger does not answer"]  # it hangs
    ledger_files = list((tmp_path / "keys").glob("ledger.*"))
    for path in ledger_files:
        path.unlink()
    ask_ledger(health, store)
    assert "ledger" in str(health.told()["reasons"])
    assert ledger_files and not any(path.exists() for path in ledger_files)


# --- What neighbouring streams show ------------------------------------------------------------

Shown = list[tuple[str, bytes]]


class Telling(Script):
    """A script that notes before each happening what is told of the stream."""

    def __init__(self, tell: Callable[[], None], *given: Any) -> None:
        super().__init__(*given)
        self._tell = tell

    def pull(self, max_messages: int, timeout_seconds: float) -> Any:
        self._tell()
        return super().pull(max_messages, timeout_seconds)


def shown(
    folder: Path, sent: Sequence[Sent], until: int = 60, standing: StreamStatus | None = None
) -> Shown:
    """All that the default shows of a stream, turn for turn; its clock is that of the script."""
    folder.mkdir()
    config = stream_config(folder)
    seconds = [0.0]
    standing = standing or StreamStatus()
    health = Health(
        resolve(config), standing, now=lambda: seconds[0], monotonic=lambda: standing.turned_seconds
    )
    lines: Shown = []

    def tell() -> None:
        seconds[0] += 5
        told = json.dumps(health.told())
        lines.append((told, metrics_text(health.readings())))

    happenings = [*in_time(sent, until), *ticking(until, until + 60)]
    with paid_epoch(resolve(config)) as epoch:
        ask_ledger(health, epoch.noted.gate.store())

        def opening(positions: Mapping[str, Any], _: bytes) -> Script:
            return Telling(tell, happenings, positions)

        run_epoch(
            epoch, opening, NAME, [Topic()], threading.Event(), lambda: 1e9, standing=standing
        )
    return lines


ONE_MORE = [Sent(7, "another", "A", "x.0")]
MALFORMED = [Sent(7, "", "A", "x.0")]
LONG = [Sent(5 + i / 40, "another", "B", f"x.{i}") for i in range(2_000)]


@pytest.mark.parametrize("more", [ONE_MORE, MALFORMED, LONG], ids=["case", "malformed", "long"])
def test_neighbouring_streams_show_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[Sent]
) -> None:
    sent = random_messages()
    standings = StreamStatus(), StreamStatus()
    one = shown(tmp_path / "one", sent, standing=standings[0])
    other = shown(tmp_path / "other", [*sent, *more], standing=standings[1])
    assert one == other
    assert standings[1].n_messages == standings[0].n_messages + len(more)
    read = sorted(int(message.publish * S) for message in sent)[: standings[0].n_messages]
    assert standings[0].newest_us == read[-1]
    assert standings[1].n_rejects.total() == (more is MALFORMED)
    assert len({text for _, text in one}) > 3  # it moves
    # The control: a number of the data that is declared public is noticed.
    broken = tuple(dataclasses.replace(m, audience="public") for m in metrics.METRICS)
    monkeypatch.setattr(metrics, "METRICS", broken)
    assert shown(tmp_path / "three", sent) != shown(tmp_path / "four", [*sent, *more])


def test_the_operator_is_told_what_is_in_the_state(tmp_path: Path) -> None:
    config = stream_config(tmp_path)
    standing = StreamStatus(
        step=0,
        n_open_cases=3,
        n_messages=7,
        complete_us=5 * S,
        newest_us=6 * S,
        clock_offset_us=S // 2,
    )
    standing.n_rejects.update(["no case id", "no case id"])
    health = Health(resolve(config), standing, now=lambda: 7.0)
    text = metrics_text(health.readings(), "operator").decode()
    labels = 'config="ward@1",dataset=""'
    assert f"tracecloak_stream_open_cases{{{labels}}} 3.0" in text
    assert f"tracecloak_stream_lag_seconds{{{labels}}} 2.0" in text
    assert f"tracecloak_stream_newest_message_timestamp_seconds{{{labels}}} 6.0" in text
    assert f'tracecloak_stream_rejects_total{{{labels},reason="no case id"}} 2.0' in text
    public = metrics_text(health.readings()).decode()
    assert "newest" not in public and "lag" not in public and "rejects" not in public
    assert f"tracecloak_stream_clock_offset_seconds{{{labels}}} 0.5" in public
    assert "python_" not in text and "process_" not in text  # the library's own follow the data


# --- The port, the files ----------------------------------------------------------------------


def test_the_port_serves_health_and_metrics(tmp_path: Path) -> None:
    health = health_of(stream_config(tmp_path))
    port = free_port()
    registry = registry_of(health.readings, "public")
    with serving("127.0.0.1", port, health.told, registry):
        assert get(port, "/healthz")[0] == get(port, "/readyz")[0] == 200
        status, kind, text = get(port, "/metrics", "application/openmetrics-text; version=1.0.0")
        assert (status, kind.split(";")[0]) == (200, "application/openmetrics-text")
        families = {f.name: f for f in text_string_to_metric_families(text)}
        assert families["tracecloak_steps_next_timestamp_seconds"].unit == "seconds"
        assert text.endswith("# EOF\n")
        assert get(port, "/metrics")[1].split(";")[0] == "text/plain"
        health.standing.source_away = "no broker answers"
        status, _, body = get(port, "/readyz")
        assert status == 503
        assert json.loads(body)["reasons"] == ["no broker answers"]
        assert get(port, "/healthz")[0] == 200
        assert get(port, "/else")[0] == 404
        with pytest.raises(UsageError, match=f"operator_port {port} .* Name another one"):
            with serving("127.0.0.1", port, health.told, registry):
                pass


@contextlib.contextmanager
def port_of(folder: Path, *names: str) -> Iterator[int]:
    health = health_of(stream_config(folder))
    registry = registry_of(health.readings, "public")
    with serving("127.0.0.1", port := free_port(), health.told, registry, names):
        yield port


def status_of(port: int, request: str) -> int:
    """The status with which raw bytes are answered; nothing else of them may say anything."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as one:
        one.sendall(request.encode("latin-1"))
        answer = b"".join(iter(lambda: one.recv(1 << 16), b""))
    status = int(answer.split()[1])
    assert (b"tracecloak_" in answer or b'"alive"' in answer) == (status == 200)
    return status


HOSTS = {
    200: (
        *("127.0.0.1", "127.0.0.1:9464", "10.1.2.3:80", "[::1]:9464", "[fd00::7]", "localhost"),
        *("LocalHost:1", "localhost.", "ward.monitoring.svc", "WARD.monitoring.svc.:9464"),
    ),
    421: (
        *("evil.example", "localhost.evil", "127.0.0.1.evil", "notlocalhost", "127.0.0.1."),
        *("127.1", "2130706433", "0x7f000001", "256.0.0.1", "ward", "ward.monitoring.svc.evil"),
    ),
    400: (
        *("", ":9464", "::1", "[::1", "[fe80::1%25eth0]", "[evil]", "localhost, evil"),
        *("a@localhost", "localhost:x", "localhost/", "localhost\u00e9", "[::1].evil", "a b"),
    ),
}  # fmt: skip


def test_the_port_answers_those_alone_who_name_it_rightly(tmp_path: Path) -> None:
    """A name that an attacker lets resolve to this machine (DNS rebinding) reads nothing."""
    with port_of(tmp_path, "Ward.Monitoring.svc.") as port:
        for path in ("/healthz", "/readyz", "/metrics"):
            for status, hosts in HOSTS.items():
                for host in hosts:
                    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"
                    assert status_of(port, request) == status, (path, host)
            for request in (
                f"GET {path} HTTP/1.1\r\n\r\n",
                f"GET {path} HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
                f"GET {path} HTTP/1.1\r\nHost: localhost\r\nhost: evil\r\n\r\n",
                f"GET http://localhost{path} HTTP/1.1\r\nHost: localhost\r\n\r\n",
                f"GET http://evil{path} HTTP/1.1\r\nHost: localhost\r\n\r\n",
                f"GET {path} HTTP/1.0\r\n\r\n",
            ):
                assert status_of(port, request) == 400, request
        assert status_of(port, "POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n") == 501


def test_slow_and_idle_clients_block_no_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither many that send nothing, nor one that sends a byte again and again."""
    monkeypatch.setattr(operator_port, "MAX_SECONDS", 1.5)
    with port_of(tmp_path) as port, contextlib.ExitStack() as clients:

        def client() -> socket.socket:
            return clients.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))

        n_before = threading.active_count()
        idle = [client() for _ in range(200)]
        began = time.monotonic()
        assert get(port, "/healthz")[0] == get(port, "/metrics")[0] == 200
        assert time.monotonic() - began < 3
        assert threading.active_count() - n_before <= 2 * operator_port.MAX_CONNECTIONS
        assert idle[0].recv(1) == b""  # the oldest had to go
        slow, began = client(), time.monotonic()
        with pytest.raises(OSError):
            for byte in b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 1000:
                slow.sendall(bytes([byte]))
                time.sleep(0.1)
        assert 1 < time.monotonic() - began < 5
        assert idle[-1].recv(1) == b""  # it said nothing for as long
        assert get(port, "/readyz")[0] == 200


def test_files_tell_how_a_stream_stands_and_how_it_ended(tmp_path: Path) -> None:
    config = stream_config(
        tmp_path,
        health_file=str(tmp_path / "health.json"),
        metrics=str(tmp_path / "ward.prom"),
        metrics_for="operator",
        operator_port=free_port(),
        operator_names="ward.svc,b",
    )
    with contextlib.suppress(TracecloakError):
        with operator_side(resolve(config), StreamStatus(step=0), threading.Event()):
            for host, status in (("ward.svc:9464", 200), ("c", 421)):
                asked = f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"
                assert status_of(config.operator_port or 0, asked) == status
            raise TracecloakError("the disk is full")
    told = json.loads((tmp_path / "health.json").read_text())
    assert (told["alive"], told["reasons"]) == (False, ["the stream has ended"])
    text = (tmp_path / "ward.prom").read_text()
    assert 'tracecloak_release_last_exit_code{config="ward@1",dataset=""} 6.0' in text
    assert stat.S_IMODE((tmp_path / "ward.prom").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "health.json").stat().st_mode) == 0o644


def test_the_launching_process_of_a_job_tells_its_steps(tmp_path: Path) -> None:
    config = stream_config(tmp_path, metrics=str(tmp_path / "ward.prom"))
    run(config, in_time(random_messages(), 60))
    text = (tmp_path / "ward.prom").read_text()
    assert 'tracecloak_steps_released{config="ward@1",dataset=""} 6.0' in text
    assert 'tracecloak_steps_remaining{config="ward@1",dataset=""} 0.0' in text
    assert 'tracecloak_release_last_exit_code{config="ward@1",dataset=""} 0.0' in text


def test_a_disk_that_is_full_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tracecloak.pipelines.stream import operator_side as module

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_private", full)
    health = health_of(stream_config(tmp_path, health_file=str(tmp_path / "health.json")))
    health.write_file()
    assert health.told()["reasons"] == ["health_file cannot be written: No space left on device"]


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        (
            {"operator_port": 9464, "operator_address": "0.0.0.0", "metrics_for": "operator"},
            "leave out one of them",
        ),
        ({"operator_names": ["a", "b:1"]}, "names of hosts without ports, .*got 'a, b:1'"),
        ({"runner": "FlinkRunner", "stuck_after": "20m"}, "are of runner Local"),
        ({"runner": "FlinkRunner", "metrics_for": "operator"}, "are of runner Local"),
        ({"metrics": "ward.txt"}, "must end in .prom"),
        ({"health_file": "none/health.json"}, "the folder of 'none/health.json' is not there"),
    ],
)
def test_what_cannot_be_told_or_would_show_too_much_is_refused_before_anything_is_paid(
    tmp_path: Path, changes: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(UsageError, match=remedy):
        with operator_side(
            resolve(stream_config(tmp_path, **changes)), StreamStatus(), threading.Event()
        ):
            pass
