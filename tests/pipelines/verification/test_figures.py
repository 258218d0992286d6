"""Figures of a log follow from its folder alone, so whoever has the folder makes them again."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.received import copied, failed, made, rewritten, states
from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
from tracecloak.pipelines.verification import received
from tracecloak.pipelines.verification.verify import verify


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("log"), "private-log", 0)


def test_the_folder_alone_gives_the_same_bytes(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither key store nor ledger is there, and no key and no stream of one can be made."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("what was released needs no key")

    alone = copied(release, tmp_path)
    monkeypatch.setenv("TRACECLOAK_KEY_STORE", str(tmp_path / "nothing here"))
    for kind in (Randomness, ReleaseKey):
        monkeypatch.setattr(kind, "__init__", refuse)
    found = verify(str(alone))
    assert found.holds
    [forms] = [finding.sentence for finding in found.findings if finding.check == "forms"]
    assert "the log and its figures" in forms
    assert not (tmp_path / "nothing here").exists()


def test_a_narrower_interval_is_found(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged = copied(release, tmp_path)
    body = json.loads((forged / "figures.json").read_text())
    first = body["figures"][0]
    first["low"], first["high"] = first["value"], first["value"]
    (forged / "figures.json").write_text("")
    rewritten(forged, "figures.json", json.dumps(body, indent=1, ensure_ascii=False).encode())
    table = pq.read_table(forged / "figures.parquet")
    sink = pa.BufferOutputStream()
    changed = pa.Table.from_pylist(body["figures"], table.schema.remove_metadata())
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), sink)
    rewritten(forged, "figures.parquet", sink.getvalue().to_pybytes())
    found = verify(str(forged))
    assert states(found)["forms"] == "failed"
    assert "figures.json is not what follows from" in failed(found)["forms"]
    monkeypatch.setattr(received, "TOOL_VERSION", "99.0")
    [sentence] = [f.sentence for f in verify(str(forged)).findings if f.check == "forms"]
    assert "can be made again by" in sentence
