"""Prism, Beam's runner in Go: one process, which keeps what it runs in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.engines import fetching
from tests.engines.processes import Process, answers, free_port, running


@dataclass(frozen=True)
class Prism:
    """A Prism that runs."""

    endpoint: str
    process: Process

    def flags(self) -> list[str]:
        """Returns Beam's flags for a job whose workers are threads of who hands it over."""
        return [
            "--runner=PortableRunner", f"--job_endpoint={self.endpoint}",
            "--environment_type=LOOPBACK",
        ]  # fmt: skip


@contextmanager
def prism(folder: Path) -> Iterator[Prism]:
    """Runs Prism."""
    program = fetching.prism()
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [program, f"-job_port={port}", "-serve_http=false", "-log_kind=text"]
    process = Process("prism", command, folder, lambda: answers(port))
    with running(process):
        yield Prism(f"localhost:{port}", process)
