"""Doubles of Google Cloud Storage and Azure Blob Storage, which keep what they hold in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.engines import fetching
from tests.engines.processes import Process, answers, free_port, running

# Azurite's only account, and its key, which everybody knows.
ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextmanager
def fake_gcs(folder: Path) -> Iterator[str]:
    """Runs fake-gcs-server; yields its URL, which Google's client takes from its environment."""
    program, port = fetching.fake_gcs(), free_port()
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
