"""Apache Flink in tests: Beam's own job server, with a cluster of Flink inside of it.

It is brought up by `tests.engines`; where it cannot be fetched, tests are skipped and say so.
Beside it there is a stand-in: the job service of Beam's Python SDK, which takes a pipeline by the
same interface and gives it to the same workers, but runs it by itself, without a watermark before
the end of its input. It shows that a pipeline can be handed over and what its workers make of it;
of Flink it shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from apache_beam.runners.portability.local_job_service import LocalJobServicer

from tests.engines.fetching import or_skip
from tests.engines.flink import flink_job_server

Kind = Literal["flink", "stand-in"]
# For fixtures: what needs an engine of its own is not in `make test`.
KIND_PARAMS = (pytest.param("flink", marks=pytest.mark.engines), "stand-in")


@contextmanager
def job_server(kind: Kind, folder: Path) -> Iterator[str]:
    """Runs a job server as long as the block runs, and gives its address.

    Args:
        kind: Flink, or the stand-in.
        folder: An empty folder, for what it is handed and for its log.
    """
    if kind == "flink":
        with or_skip(flink_job_server(folder)) as server:
            yield server.endpoint
        return
    servicer = LocalJobServicer(str(folder))
    port = servicer.start_grpc_server(0)
    try:
        yield f"localhost:{port}"
    finally:
        servicer.stop()


def flags(endpoint: str, parallelism: int = 2) -> list[str]:
    """Beam's flags for a job server on this machine, whose workers are threads of this process.

    Args:
        endpoint: Its address.
        parallelism: Tasks of Flink that run each stage side by side.
    """
    return [
        "--runner=FlinkRunner", f"--job_endpoint={endpoint}", "--environment_type=LOOPBACK",
        f"--parallelism={parallelism}",
    ]  # fmt: skip
