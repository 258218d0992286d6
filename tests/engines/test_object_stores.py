"""A release of a log in Google Cloud Storage and in Azure, by doubles of both."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io.filesystems import FileSystems

from tests.engines import fetching
from tests.engines.fetching import or_skip
from tests.engines.processes import Process, answers, free_port, running
from tests.support.releasing import digests, fix_key, tracecloak
from tracecloak.examination.demo.hospital import hospital_log
from tracecloak.schemas.errors import RetryLater
from tracecloak.transforms.inputs import stores
from tracecloak.transforms.inputs.source_files import match_files, open_source

# Their clients leave sockets and loops to the collector.
pytestmark = [
    pytest.mark.engines, pytest.mark.timeout(900), pytest.mark.filterwarnings("default"),
]  # fmt: skip
Put = Callable[[str, bytes], object]


@pytest.fixture(params=["gs", "azfs"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The path of a bucket, and what puts an object into it."""
    monkeypatch.setattr(stores, "_asked", {})
    if request.param == "gs":
        client = pytest.importorskip("google.cloud.storage", reason="the extra gcp is missing")
        with or_skip(fake_gcs(tmp_path / "server")) as url:
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
            lake = client.Client.create_anonymous_client().create_bucket("lake", project="tests")
            yield "gs://lake", lambda name, data: lake.blob(name).upload_from_string(data)
    else:
        blob = pytest.importorskip("azure.storage.blob", reason="the extra azure is missing")
        pytest.importorskip("azure.identity", reason="the extra azure is missing")
        with or_skip(azurite(tmp_path / "server")) as connection:
            monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection)
            lake = blob.BlobServiceClient.from_connection_string(connection)
            lake.create_container("lake")
            yield (
                f"azfs://{ACCOUNT}/lake",
                lambda name, data: lake.get_blob_client("lake", name).upload_blob(
                    data, overwrite=True
                ),
            )


def parquet(n_cases: int) -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.Table.from_batches(hospital_log(n_cases)), made)
    return made.getvalue()


def test_a_release_is_that_of_the_same_files_here(
    bucket: tuple[str, Put], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_key(monkeypatch)
    place, put = bucket
    (tmp_path / "claims").mkdir()
    for part in range(3):
        data = parquet(10 + part)
        put(f"claims/part-{part}.parquet", data)
        (tmp_path / "claims" / f"part-{part}.parquet").write_bytes(data)
    released = []
    for number, log in enumerate([f"{place}/claims/", tmp_path / "claims"]):
        code = tracecloak(
            "release", "--log", log, "--output", tmp_path / f"out-{number}", "--key_store",
            tmp_path / f"keys-{number}", "--method", "private-dfg", "--epsilon", 1,
            "--buy_vocabulary", "--release_id", "r", "--runner", "FnApiRunner",
        )  # fmt: skip
        assert code == 0
        released.append(digests(tmp_path / f"out-{number}" / "run_id=r"))
    assert released[0] == released[1]


def test_what_was_replaced_since_the_listing_is_not_read(
    bucket: tuple[str, Put], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, put = bucket
    put("a/b.csv", b"x" * 99)
    (file,) = match_files([f"{place}/a/"])
    assert match_files([f"{place}/a/b.csv"]) == match_files([f"{place}/a/*.csv"]) == [file]
    assert (file.n_bytes, file.digest) == (99, str(FileSystems.checksum(file.path)))
    assert open_source(file).read() == b"x" * 99
    monkeypatch.setattr(stores, "_of_process", stores._Cache(1 << 20))
    put("a/b.csv", b"y" * 99)
    with pytest.raises(RetryLater, match="replaced or deleted"):
        open_source(file).read()


# Azurite's only account, and its key, which everybody knows.
ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextmanager
def fake_gcs(folder: Path) -> Iterator[str]:
    """Runs fake-gcs-server; yields its URL, which Google's client takes from its environment."""
    program, port = fetching.built("fake-gcs-server"), free_port()
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        program, "-backend=memory", "-scheme=http", "-host=127.0.0.1", f"-port={port}",
        f"-public-host=127.0.0.1:{port}", "-log-level=warn",
    ]  # fmt: skip
    with running(Process("fake-gcs", command, folder, lambda: answers(port))):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def azurite(folder: Path) -> Iterator[str]:
    """Runs Azurite; yields the connection string that Azure's client takes from its environment."""
    program, port = fetching.azurite(), free_port()
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        program, "--inMemoryPersistence", "--blobHost=127.0.0.1", f"--blobPort={port}",
        "--skipApiVersionCheck", "--silent",
    ]  # fmt: skip
    with running(Process("azurite", command, folder, lambda: answers(port))):
        yield (
            f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={_KEY};"
            f"BlobEndpoint=http://127.0.0.1:{port}/{ACCOUNT};"
        )
