"""Running releases in tests: the command in this process, with a key of the test's own.

Or in a process of its own that is killed or stopped at a step: see `Commands`.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn, Self

import pyarrow as pa
import pytest
import sqlalchemy as sa
import yaml

from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.examination.demo.hospital import hospital_log
from tracecloak.pipelines.budget.registry import ReleaseRegistry
from tracecloak.pipelines.commands import main as cli
from tracecloak.pipelines.keys import key_store
from tracecloak.pipelines.ledger import caps
from tracecloak.pipelines.ledger.balance import charges
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.pipelines.ledger.snapshot import problems
from tracecloak.transforms.formats.csv_writer import CsvWriter
from tracecloak.transforms.formats.jsonl import JsonLinesWriter
from tracecloak.transforms.publish.release_folder import ReleaseFolder

ROOT = Path(__file__).parents[2]


def fix_key(monkeypatch: pytest.MonkeyPatch, secret: bytes = b"k" * 32) -> None:
    """Makes every release reserved in this process use one key, and be reserved on one day."""
    monkeypatch.setattr(key_store, "today", lambda: "2026-11-23")
    monkeypatch.setattr(ReleaseKey, "generate", classmethod(lambda cls: cls(secret)))


def tracecloak(*arguments: object) -> int:
    """Runs the command in this process and returns its exit code.

    Releases and streams begin a ledger where there is none; `as_typed` leaves that to the caller.
    """
    return as_typed(*with_new_ledger(arguments))


def as_typed(*arguments: object) -> int:
    """Runs the command in this process, with these arguments alone; returns its exit code."""
    return cli.main([str(argument) for argument in arguments])


def with_new_ledger(arguments: Sequence[object]) -> list[object]:
    """Adds the flag to arguments of a command that pays."""
    return [*arguments, *(["--new_ledger"] if arguments[:1] in (("release",), ("stream",)) else [])]


def with_flag(arguments: Sequence[object], flag: str, value: object) -> list[object]:
    """The same command with another value of a flag, which a list can have only once."""
    if flag not in arguments:
        return [*arguments, flag, value]
    at = list(arguments).index(flag)
    return [*arguments[:at], flag, value, *arguments[at + 2 :]]


def release_of(folder: Path, *flags: object, **changes: Any) -> int:
    """Releases variants into a folder as a file of keys says; returns the exit code.

    `changes` are keys beside or in place of the usual ones; of None there is no key.
    """
    folder.mkdir(parents=True, exist_ok=True)
    body = {
        "method": "variant-histogram", "params": {"epsilon": 1, "vocabulary": ["A", "B", "C"]},
        "output": str(folder / "out"), "key_store": str(folder / "keys"), "release_id": "r",
        "runner": "InMemory", "formats": ["parquet"], **changes,
    }  # fmt: skip
    keys = {name: value for name, value in body.items() if value is not None}
    (folder / "r.yaml").write_text(yaml.safe_dump(keys))
    return tracecloak("release", folder / "r.yaml", *flags)


def cut_off(folder: Path, *flags: object, step: str = "commit", **changes: Any) -> None:
    """`release_of` until a step of its folder begins, with nothing given back.

    Noise is drawn before `commit`, and not before `discard`.
    """
    with pytest.MonkeyPatch.context() as patch:

        def fail(*_: object) -> None:
            raise OSError("cut off")

        patch.setattr(ReleaseFolder, step, fail)
        patch.setattr(ReleaseRegistry, "void", lambda *_: False)
        assert release_of(folder, *flags, **changes) == 6


def hospital_files(folder: Path, n_cases: int) -> list[Path]:
    """Writes a hospital log over three files, cases cut across them, and returns their paths."""
    rows = pa.Table.from_batches(hospital_log(n_cases)).combine_chunks().to_batches()[0]
    cuts = [0, rows.num_rows // 3, rows.num_rows // 2 + 1, rows.num_rows]
    paths = [folder / "a.csv", folder / "b.jsonl", folder / "c.csv"]
    for path, first, last in zip(paths, cuts[:-1], cuts[1:], strict=True):
        with path.open("wb") as stream:
            writer = CsvWriter(stream) if path.suffix == ".csv" else JsonLinesWriter(stream)
            writer.write(rows.slice(first, last - first))
            writer.close()
    return paths


def digests(release: Path) -> dict[str, str]:
    """SHA-256 of every file of a release but the manifest, by path."""
    return {
        str(path.relative_to(release)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(release.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


def manifest(release: Path) -> dict[str, Any]:
    """The manifest of a release."""
    return json.loads((release / "manifest.json").read_text())


def csv_log(path: Path, rows: Sequence[tuple[str, str, str]]) -> Path:
    """Writes (case, activity, stamp) rows under the canonical header and returns the path."""
    lines = ["case_id,activity,timestamp", *(",".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def small_rows(n_cases: int = 12) -> Iterator[tuple[str, str, str]]:
    """Yields the rows of a small log of three variants."""
    for case in range(n_cases):
        for step, activity in enumerate(
            ("A", "B", "C")[: 2 + (case % 3 > 0)] + ("D",) * (case % 2)
        ):
            stamp = f"2026-01-{1 + case % 28:02d}T1{step}:{case:02d}:00+00:00"
            yield f"case-{case}", activity, stamp


def placed(folder: Path, log: object, *flags: object) -> list[object]:
    """Arguments of a release r of a log, with its output and its key store in a folder."""
    return [
        "release", "--log", log, "--output", folder / "out", "--key_store", folder / "keys",
        "--release_id", "r", *flags,
    ]  # fmt: skip


def released(folder: Path, log: object, *flags: object) -> Path:
    """Makes it, and returns its folder."""
    assert tracecloak(*placed(folder, log, *flags)) == 0
    return folder / "out" / "run_id=r"


def small_release(folder: Path, *flags: object, log: Path | None = None) -> list[object]:
    """Arguments of a release of a log, or of a folder's small one, which is written if need be."""
    log = log or folder / "log.csv"
    if not log.exists():
        csv_log(log, list(small_rows(60)))
    return [
        "release", "--log", log, "--output", folder / "out", "--key_store", folder / "keys",
        "--method", "variant-histogram", "--epsilon", 1, "--runner", "InMemory", "--parts", 1,
        *flags,
    ]  # fmt: skip


class Place:
    """A small log, the folder of its releases and a key store; its release is called r."""

    def __init__(self, folder: Path, *flags: object, n_cases: int = 60) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.out, self.keys = folder, folder / "out", folder / "keys"
        self.log = csv_log(folder / "log.csv", list(small_rows(n_cases)))
        self.release = self.out / "run_id=r"
        self.flags = ("--release_id", "r", *flags)

    def run(self, *flags: object, log: object = None) -> int:
        """Releases the log, or another one; returns the exit code."""
        given = small_release(self.folder, *self.flags, *flags)
        return tracecloak(*with_flag(given, "--log", log or self.log))

    def cut_off(self, *flags: object, owner: type = ReleaseFolder, step: str = "commit") -> None:
        """Releases until a step begins, as if its machine had failed."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, step, _interrupted)
            assert self.run(*flags) in (6, 7)

    def officer(self, action: str, *more: object) -> int:
        """Has an officer end the release; returns the exit code."""
        return as_typed(
            "ledger", action, "--output", self.out, "--release_id", "r", "--key_store", self.keys,
            "--by", "A. Officer", "--reason", "its input is gone", *more,
        )  # fmt: skip

    @property
    def actions(self) -> list[str]:
        """What the ledger has of it, in order."""
        return [entry.action for entry in ledger_entries(self.keys)]


def _interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def individual_log(path: Path, rows: Sequence[tuple[str, str, str, str]]) -> Path:
    """Writes (individual, case, activity, stamp) rows and returns the path."""
    lines = ["person,case_id,activity,timestamp", *(",".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# --- What a release left ----------------------------------------------------------------------


def visible(out: Path) -> list[Path]:
    """What a reader of the data lake sees: files outside folders that begin with an underscore."""
    return [
        path
        for path in out.rglob("*")
        if path.is_file() and not any(part.startswith("_") for part in path.relative_to(out).parts)
    ]


def operator_folder(keys: Path) -> Path:
    """Where what only the operator may read of the one release lies."""
    (folder,) = (keys / "operator").iterdir()
    return folder


def ledger_entries(keys: Path) -> list[Entry]:
    """All entries of the ledger in a key store; makes none where there is none."""
    path = keys / "ledger.db"
    if not path.exists() or not path.stat().st_size:
        return []
    return Ledger(f"sqlite:///{path}").entries()


def counting_charges(keys: Path) -> list[Entry]:
    """The last entry of each charge that counts as spent."""
    return [e for e in charges(ledger_entries(keys)).values() if e.action != "void"]


def key_files(keys: Path) -> list[Path]:
    """The release keys that a key store holds."""
    return list(keys.rglob("*.key"))


def check_whole(release: Path) -> None:
    """The files are those of the manifest, by their digests."""
    said = {output["path"]: output["sha256"] for output in manifest(release)["outputs"]}
    assert digests(release) == said


def check_finished(out: Path, keys: Path) -> str:
    """The release r is whole, the only one, charged once, and nothing is left over; its key."""
    said = manifest(out / "run_id=r")
    check_whole(out / "run_id=r")
    assert problems(ledger_entries(keys)) == []
    (own,) = counting_charges(keys)
    used: str = said["randomness"]["key_fingerprint"]
    assert (own.action, own.key_fingerprint) == ("commit", used)
    assert own.config_digest == said["config_digest"]
    assert key_files(keys) == [] and not list(out.parent.glob("_incomplete-*/*"))
    assert json.loads((out / "latest.json").read_text())["run_id"] == "r"
    shown = {path.name for path in out.iterdir() if not path.name.startswith("_")}
    assert shown == {"latest.json", "run_id=r"}
    assert used in (operator_folder(keys) / "statement.md").read_text()
    return used


# --- Commands in processes of their own -------------------------------------------------------


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it took.

    Attributes:
        code: Its exit code; of a killed one, minus the signal's number; None: it is stopped.
        text: What it printed, both streams.
        pid: Its process.
        cpu_s: Seconds of processor time, without the start of Python and all imports. Not of the
            clock: they say hardly anything about what else the machine does.
        peak_mib: The most memory that it had at once, with all that is imported (some 200 MiB).
    """

    code: int | None
    text: str
    pid: int
    cpu_s: float
    peak_mib: int


class Commands:
    """Runs commands, each in a process of its own, and kills, stops or bounds them.

    One process imports everything once and forks others: a start takes long, a fork no time. It is
    `serve`, which answers a line of JSON for each line of JSON.

    Args:
        modules: What it imports: by default what releases need, with all of Beam, and a ledger.
    """

    def __init__(self, *modules: str) -> None:
        modules = modules or ("tracecloak.pipelines.release.run", "sqlalchemy.dialects.sqlite")
        self._server = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve(*{modules})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate()

    def _ask(self, **request: Any) -> Ended:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return Ended(**json.loads(self._server.stdout.readline()))

    def run(
        self,
        *arguments: object,
        at: str = "",
        secret: bytes = b"k" * 32,
        max_cpu_s: int = 0,
        max_mib: int = 0,
    ) -> Ended:
        """Runs the command; releases begin a ledger where there is none.

        Args:
            arguments: Its arguments.
            at: Where it ends early: `kill` or `stop`, `before` or `after`, a name of STEPS, and
                the number of its call, as in `kill before write 2`. Empty: nowhere.
            secret: The key of a release that is reserved in it.
            max_cpu_s: Seconds of processor time after which it is killed, or four times as many of
                the clock; 0: whenever it ends.
            max_mib: Address space in MiB beyond which it gets no more; 0: all there is.
        """
        given = [str(argument) for argument in with_new_ledger(arguments)]
        bounds = {"max_cpu_s": max_cpu_s, "max_mib": max_mib}
        return self._ask(arguments=given, at=at, secret=secret.hex(), **bounds)

    def resume(self, stopped: Ended) -> Ended:
        """Lets a stopped command go on, and returns how it ends."""
        return self._ask(resume=stopped.pid)

    def kill(self, stopped: Ended) -> Ended:
        """Kills a stopped command."""
        os.kill(stopped.pid, signal.SIGKILL)
        return self.resume(stopped)


def _any(*_: Any, **__: Any) -> bool:
    return True


def _of(name: str) -> Callable[..., bool]:
    return lambda method, *_, **__: method.name == name


_STORE = "tracecloak.pipelines.keys.key_store"
_LEDGER = "tracecloak.pipelines.ledger.ledger"
_FOLDER = "tracecloak.transforms.publish.release_folder"
_METHOD = "tracecloak.anonymizers.contract.method"
# Name of a step to (module, what is called, and of which calls by their arguments).
STEPS: Mapping[str, tuple[str, str, Callable[..., bool]]] = {
    "key": (_STORE, "KeyStore.reserve", _any),
    "private file": (_STORE, "KeyStore.write", _any),
    "wrapped": ("tracecloak.pipelines.keys.kept_secrets", "write_private", _any),
    "charge": (_LEDGER, "Ledger.reserve", _any),
    "copy": ("tracecloak.pipelines.ledger.cache", "LedgerCache._note", _any),
    # Inside a transaction of the ledger: the row is written and not committed.
    "insert": ("sqlalchemy", "Connection.execute", lambda _, s, *__: isinstance(s, sa.Insert)),
    "count": ("tracecloak.anonymizers.contract.case_digests", "InputDigest.from_traces", _any),
    "decide variants": (_METHOD, "Anonymizer.decide", _of("variant-histogram")),
    "decide graph": (_METHOD, "Anonymizer.decide", _of("private-dfg")),
    "write": (_FOLDER, "ReleaseFolder.write", _any),
    "bytes": (_FOLDER, "_HashingStream.write", _any),
    "commit": (_FOLDER, "ReleaseFolder.commit", _any),
    "rename": ("tracecloak.transforms.files", "rename", _any),
    "latest": (_FOLDER, "ReleaseFolder.point_latest", _any),
    "ledger": (_LEDGER, "Ledger.commit", _any),
    "receipt": (_STORE, "KeyStore.commit", _any),
    "key's end": ("pathlib", "Path.unlink", lambda path, *_, **__: path.suffix == ".key"),
    "discard": (_FOLDER, "ReleaseFolder.discard", _any),
    "clear": (_FOLDER, "ReleaseFolder.clear", _any),
    # In the same transaction as the entry.
    "units": ("tracecloak.pipelines.ledger.case_registry", "Claimed.rows", _any),
    "claim": ("tracecloak.pipelines.ledger.case_registry", "CaseRegistry.claim", _any),
    "draw": (_LEDGER, "Ledger.draw", _any),
    "append": ("tracecloak.transforms.lakes.delta", "append", _any),
    "statement": ("tracecloak.pipelines.release.run", "_write_statement", _any),
}


def serve(*modules: str) -> None:
    """Forks a command for each line of standard input; see `Commands`."""
    for name in modules:
        importlib.import_module(name)
    caps.first_account = lambda past, reservation: None  # as `conftest.first_account` has it
    gc.freeze()  # or each command's first collection copies what it shares with this process
    for line in sys.stdin:
        request = json.loads(line)
        if "resume" in request:
            pid, log = request["resume"], _logs.pop(request["resume"])
            os.kill(pid, signal.SIGCONT)
        else:
            log = tempfile.NamedTemporaryFile()  # open as long as the command runs
            pid = os.fork()
            if pid == 0:
                _run_forked(log.fileno(), **request)
        _, status, used = os.wait4(pid, os.WUNTRACED)
        code = None if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)
        text, cpu_s = Path(log.name).read_text(errors="replace"), used.ru_utime + used.ru_stime
        reply = Ended(code, text, pid, cpu_s, used.ru_maxrss // 1024)
        if code is None:
            _logs[pid] = log
        else:
            log.close()
        sys.stdout.write(json.dumps(asdict(reply)) + "\n")
        sys.stdout.flush()


_logs: dict[int, Any] = {}


def _run_forked(
    log: int, arguments: list[str], at: str, secret: str, max_cpu_s: int, max_mib: int
) -> NoReturn:
    code = 99
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        key = bytes.fromhex(secret)
        ReleaseKey.generate = classmethod(lambda cls: cls(key))  # type: ignore[method-assign]
        key_store.today = lambda: "2026-11-23"
        if max_cpu_s:
            resource.setrlimit(resource.RLIMIT_CPU, (max_cpu_s, max_cpu_s + 5))
            signal.alarm(4 * max_cpu_s)  # who waits takes no time of a processor
        if max_mib:
            resource.setrlimit(resource.RLIMIT_AS, (max_mib << 20, max_mib << 20))
        if at:
            how, when, rest = at.split(" ", 2)
            name, _, number = rest.rpartition(" ")
            if not number.isdigit():
                name, number = rest, "1"
            _end_at(name, when, int(number), signal.SIGKILL if how == "kill" else signal.SIGSTOP)
        code = cli.main(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _end_at(name: str, when: str, number: int, with_signal: signal.Signals) -> None:
    """Makes this process end at a step."""
    module_name, called, which = STEPS[name]
    owner: Any = importlib.import_module(module_name)
    *path, attribute = called.split(".")
    for part in path:
        owner = getattr(owner, part)
    found = vars(owner)[attribute]
    original = getattr(found, "__func__", found)
    calls = 0

    @functools.wraps(original)
    def step(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        is_it = False
        if which(*arguments, **named):
            calls += 1
            is_it = calls == number
        if is_it and when == "before":
            os.kill(os.getpid(), with_signal)
        result = original(*arguments, **named)
        if is_it and when == "after":
            os.kill(os.getpid(), with_signal)
        return result

    kind = type(found) if isinstance(found, (classmethod, staticmethod)) else lambda f: f
    setattr(owner, attribute, kind(step))
