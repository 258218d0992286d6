"""Apache Flink in tests: Beam's own job server, with a cluster of Flink inside of it.

Its jar is the one that Beam would take, fetched by Maven. Where Java, Maven or the jar cannot be
had, tests are skipped and say so. Beside it there is a stand-in: the job service of Beam's Python
SDK, which takes a pipeline by the same interface and gives it to the same workers, but runs it by
itself, without a watermark before the end of its input. It shows that a pipeline can be handed over
and what its workers make of it; of Flink it shows nothing.
"""

from __future__ import annotations

import fcntl
import functools
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions
from apache_beam.runners.portability.flink_runner import FlinkJarJobServer
from apache_beam.runners.portability.local_job_service import LocalJobServicer

Kind = Literal["flink", "stand-in"]
# For fixtures: what needs an engine of its own is not in `make test`.
KIND_PARAMS = (pytest.param("flink", marks=pytest.mark.engines), "stand-in")

_FETCH_SECONDS = 180
_START_SECONDS = 60
# What Flink needs opened in a Java of 17 or later, and a bound of its memory.
_JAVA_FLAGS = (
    "-Xmx1g",
    *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "nio", "util")),
)


@contextmanager
def job_server(kind: Kind, folder: Path) -> Iterator[str]:
    """Runs a job server as long as the block runs, and gives its address.

    Args:
        kind: Flink, or the stand-in.
        folder: An empty folder, for what it is handed and for its log.
    """
    if kind == "flink":
        with _flink(folder) as endpoint:
            yield endpoint
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


@contextmanager
def _flink(folder: Path) -> Iterator[str]:
    jar = flink_jar()
    if isinstance(jar, str):
        pytest.skip(jar)
    options = [f"--job_server_jvm_properties={flag}" for flag in _JAVA_FLAGS]
    options += [f"--flink_job_server_jar={jar}", "--flink_master=[local]"]
    server = FlinkJarJobServer(PipelineOptions([*options, f"--artifacts_dir={folder}"]))
    command, endpoint = server.subprocess_cmd_and_endpoint()
    log = folder / "flink.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [str(part) for part in command], stdout=stream, stderr=subprocess.STDOUT
        )
    try:
        _wait(process, endpoint, log)
        yield endpoint
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], endpoint: str, log: Path) -> None:
    """Waits until the server answers.

    Raises:
        RuntimeError: It ended, or did not answer in time.
    """
    host, _, port = endpoint.rpartition(":")
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"no job server:\n{log.read_text(errors='replace')[-2_000:]}")


@functools.cache
def flink_jar() -> Path | str:
    """The jar of Beam's job server for Flink, of Beam's own version; or why there is none.

    It is looked for in Maven's folder and among what Beam fetched itself, and then asked of Maven.
    """
    name = f"beam-runners-flink-{FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS[-1]}-job-server"
    version = beam.__version__
    own = Path.home() / ".m2" / "repository"
    jar = own / "org/apache/beam" / name / version / f"{name}-{version}.jar"
    fetched = Path.home() / ".apache_beam/cache/jars" / jar.name
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if "java" in missing:
        return "Flink needs Java, and there is no java here"
    for path in (jar, fetched):
        if path.exists():
            return path
    if missing:
        return f"there is no Maven here to fetch {jar.name}"
    artifact = f"org.apache.beam:{name}:{version}"
    command = ["mvn", "--batch-mode", "--quiet", f"-Dmaven.repo.local={own}", "dependency:get",
               f"-Dartifact={artifact}", "-Dtransitive=false"]  # fmt: skip
    lock = Path(tempfile.gettempdir()) / f"{jar.name}.lock"
    deadline = time.monotonic() + _FETCH_SECONDS
    with lock.open("ab") as stream:
        while True:  # another process may be fetching it
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return f"another process fetches {artifact} for over {_FETCH_SECONDS} s"
                time.sleep(0.5)
        if jar.exists():
            return jar
        try:
            ended = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=max(deadline - time.monotonic(), 1),
            )
        except subprocess.TimeoutExpired:
            return f"Maven did not fetch {artifact} within {_FETCH_SECONDS} s"
    if ended.returncode == 0 and jar.exists():
        return jar
    said = next((line for line in ended.stdout.splitlines() if "ERROR" in line), "nothing")
    return f"Maven cannot get {artifact}: {said.rpartition('standalone-pom: ')[2][:250]}"
