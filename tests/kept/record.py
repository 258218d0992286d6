"""Records what this version leaves behind for later ones to go on from.

`python -m tests.kept.record` writes `tests/kept/VERSION.tar.xz`, once for each version: people who
release every night have releases, ledgers, keys and streams of all versions, so what is kept of a
version is never recorded anew. test_going_on.py goes on from it with the build at hand.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engines.postgresql import PostgreSql, postgresql
from tests.golden.releases import example_config, log_file
from tests.kept.places import alone, archive_of
from tests.pipelines.windows.test_releases_of_windows import Lake
from tests.support.local_streams import run_script
from tests.support.releasing import Commands, Ended, fix_key
from tests.support.stream_runs import (
    Happening,
    in_time,
    random_messages,
    stream_config,
    stream_keys,
)
from tracecloak.anonymizers.registry import METHODS
from tracecloak.schemas.published.manifest import TOOL_VERSION

OFFICER = ("--by", "the officer", "--reason", "a test")
CUT_OFF = ("variant-histogram", "private-dfg", "private-log", "process-tree", "amun", "pretsa")
"""Methods of which a release is also cut off between the draw and the commit."""
CAPS = {"accounts": {"capped": {"epsilon": 1000, "delta": "1e-2", "unit": "case"}}}
STREAMS: dict[str, dict[str, Any]] = {
    "graphs": {"view": "total"},
    "variants": {"product": "variants", "view": "total", "epsilon": "40"},
}
DATABASE = "kept"
URL = f"postgresql+psycopg://postgres@localhost/{DATABASE}"
"""Without a port: what is recorded of the ledger's place must not hold the port of one day."""


def main() -> None:
    """Records all scenarios.

    Raises:
        FileExistsError: The version is recorded already.
    """
    path = archive_of(TOOL_VERSION)
    with ExitStack() as stack:
        commands = stack.enter_context(Commands())
        folders = []
        for name, record in SCENARIOS.items():
            folder = stack.enter_context(alone(TOOL_VERSION, name))
            record(folder, commands)
            folders.append(folder)
        with path.open("xb") as stream, tarfile.open(fileobj=stream, mode="w:xz") as archive:
            for folder in folders:
                archive.add(folder, folder.name, filter=_of_nobody)


def _of_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


# --- Releases, with a ledger in SQLite ------------------------------------------------------------


def _releases(folder: Path, commands: Commands) -> None:
    """One finished release of each method, and some that ended otherwise."""
    log = log_file(folder)
    (folder / "accounts.yaml").write_text(yaml.safe_dump(CAPS))
    _ok(commands.run("key", "make-pair", "--output", folder / "signer.pem"))

    def release(name: str, method: str, at: str = "", **changes: Any) -> None:
        place = folder / name
        place.mkdir()
        body = example_config(place, method, METHODS[method].examples[0], log) | {
            "output": str(folder / "out"),
            "key_store": str(folder / "keys"),
            "release_id": name,
            "formats": ["parquet"],
            **changes,
        }
        (place / "release.yaml").write_text(yaml.safe_dump(body))
        ended = commands.run("release", place / "release.yaml", at=at)
        assert ended.code == (-9 if at else 0), (name, ended.text)

    for method in METHODS:
        release(f"finished-{method}", method)
    capped = {"accounts": str(folder / "accounts.yaml"), "account": "capped"}
    formats = ["parquet", "xes", "csv"]
    release("signed", "private-dfg", formats=formats, sign=str(folder / "signer.pem"), **capped)
    for method in CUT_OFF:
        release(f"drawn-{method}", method, at="kill before commit")
    release("reserved", "private-dfg", at="kill after charge")
    release("visible", "private-dfg", at="kill before ledger")
    release("given-up", "private-dfg", at="kill before commit")
    release("withdrawn", "private-dfg")
    for action, name in (("forfeit", "given-up"), ("withdraw", "withdrawn")):
        _ok(
            commands.run(
                "ledger", action, "--key_store", folder / "keys", "--output", folder / "out",
                "--release_id", name, *OFFICER,
            )
        )  # fmt: skip


def _ok(ended: Ended) -> None:
    assert ended.code == 0, ended.text


# --- Windows --------------------------------------------------------------------------------------


def _windows(folder: Path, commands: Commands) -> None:
    """Three windows of a lake: one is released, one is cut off, and one is left."""
    lake = Lake(folder / "lake")
    _ok(commands.run("release", lake.config, "--window", "2026-01"))
    assert (
        commands.run("release", lake.config, "--window", "2026-02", at="kill before commit").code
        == -9
    )


# --- Streams --------------------------------------------------------------------------------------


def happenings() -> list[Happening]:
    """What the streams get: messages, and seconds that the watermark moves to."""
    return in_time(random_messages(), 60)


def _streams(folder: Path, _: Commands) -> None:
    """Streams that are stopped in the middle of their epochs."""
    (folder / "happenings.json").write_text(json.dumps(happenings()))
    for name, changes in STREAMS.items():
        place = folder / name
        place.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            fix_key(patch)
            run_script(stream_config(place, **changes), happenings(), until=7)
        (place / "stream.yaml").write_text(yaml.safe_dump(stream_keys(place, **changes)))


# --- A ledger in PostgreSQL -----------------------------------------------------------------------


def _postgresql(folder: Path, commands: Commands) -> None:
    """A finished release and one that is cut off, whose ledger is dumped as SQL."""
    log, example = log_file(folder), METHODS["private-dfg"].examples[0]
    with shared_ledger(folder / "server") as server:
        server.new_database(DATABASE)
        for name, at in (("finished", ""), ("drawn", "kill before commit")):
            body = example_config(folder, "private-dfg", example, log)
            body |= {"release_id": name, "formats": ["parquet"], "ledger": URL}
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(body))
            with Commands() as here:  # forked with the port in its environment
                ended = here.run("release", folder / f"{name}.yaml", at=at)
            assert ended.code == (-9 if at else 0), ended.text
        (folder / "ledger.sql").write_bytes(server.dump(DATABASE))


@contextmanager
def shared_ledger(folder: Path) -> Iterator[PostgreSql]:
    """Runs a server that URL is of, in this process and those it starts."""
    with postgresql(folder) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPORT", str(server.port))
        yield server


SCENARIOS: dict[str, Callable[[Path, Commands], None]] = {
    "releases": _releases,
    "windows": _windows,
    "streams": _streams,
    "postgresql": _postgresql,
}

if __name__ == "__main__":
    main()
