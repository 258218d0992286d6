"""Apache Flink: Beam's job server, a cluster and pools of Python workers; and Beam's Prism."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.engines import fetching
from tests.engines.processes import Process, answers, free_port, running, wait_until

# What Flink and Beam need opened in a Java of 17 or later.
_OPENED = tuple(
    f"--add-opens=java.base/{name}=ALL-UNNAMED"
    for name in (
        "java.lang", "java.net", "java.nio", "java.time", "java.util", "java.util.concurrent",
        "sun.net.util",
    )
)  # fmt: skip
_JOIN_SECONDS = 60.0


@dataclass(frozen=True)
class JobServer:
    """Beam's job server for Flink."""

    endpoint: str
    process: Process

    def flags(self, parallelism: int = 1, pool: WorkerPool | None = None) -> list[str]:
        """Returns Beam's flags for a job."""
        workers = ["--environment_type=LOOPBACK"] if pool is None else pool.flags()
        return [
            "--runner=FlinkRunner", f"--job_endpoint={self.endpoint}",
            f"--parallelism={parallelism}", *workers,
        ]  # fmt: skip


@contextmanager
def flink_job_server(
    folder: Path, flink_master: str = "[local]", configuration: Mapping[str, object] | None = None
) -> Iterator[JobServer]:
    """Runs a job server."""
    class_path = fetching.class_path("flink")
    folder.mkdir(parents=True, exist_ok=True)
    _write_configuration(folder / "job-server-flink", configuration or {})
    port = free_port()
    command = [
        "java", "-Xmx2g", "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS", *_OPENED, "-cp", class_path,
        "org.apache.beam.runners.flink.FlinkJobServerDriver", f"--flink-master={flink_master}",
        "--job-host=localhost", f"--job-port={port}", "--artifact-port=0", "--expansion-port=0",
        f"--artifacts-dir={folder / 'artifacts'}",
        f"--flink-conf-dir={folder / 'job-server-flink'}",
    ]  # fmt: skip
    process = Process("job-server", command, folder, lambda: answers(port))
    with running(process):
        yield JobServer(f"localhost:{port}", process)


@dataclass(frozen=True)
class WorkerPool:
    """What starts Python workers for Flink on a machine of a cluster: the sidecar."""

    address: str
    process: Process

    def flags(self) -> list[str]:
        """Returns Beam's flags that have jobs use it."""
        return ["--environment_type=EXTERNAL", f"--environment_config={self.address}"]


@contextmanager
def worker_pool(folder: Path) -> Iterator[WorkerPool]:
    """Runs a pool of workers, in the Python that runs this."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [
        sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main",
        f"--service_port={port}",
    ]  # fmt: skip
    # It starts workers as `python`.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    process = Process(
        "worker-pool", command, folder, lambda: answers(port),
        {"PATH": path, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    with running(process):
        yield WorkerPool(f"localhost:{port}", process)


class FlinkCluster:
    """A Flink of several processes."""

    def __init__(
        self, address: str, job_manager: Process, task_managers: Sequence[Process]
    ) -> None:
        self.address = address
        self.job_manager = job_manager
        self.task_managers = task_managers

    def ask(self, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Returns what the REST interface answers, such as to `/jobs/overview`."""
        data = None if body is None else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{self.address}{path}", data, kind)
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def n_slots(self) -> int:
        """Returns how many tasks the task managers that joined can run side by side."""
        try:
            return int(str(self.ask("/overview")["slots-total"]))
        except OSError:
            return 0

    def restart(self, process: Process) -> None:
        """Starts one of its processes again, which `kill_9` ended, and waits until it joined."""
        process.start(wait=False)
        self.wait()

    def wait(self) -> None:
        """Waits until all task managers that run have joined."""
        wait_until(
            lambda: self.n_slots() >= sum(t.is_alive() for t in self.task_managers),
            _JOIN_SECONDS,
            lambda: "a task manager did not join",
            self.job_manager,
            *self.task_managers,
        )


@contextmanager
def flink_cluster(
    folder: Path, n_task_managers: int = 2, configuration: Mapping[str, object] | None = None
) -> Iterator[FlinkCluster]:
    """Runs a Flink cluster whose task managers have one slot each."""
    class_path = f"{fetching.flink_cluster_class_path()}:{_beam_for_cluster()}"
    folder.mkdir(parents=True, exist_ok=True)
    rpc, rest = free_port(), free_port()
    _write_configuration(folder / "conf", {
        "jobmanager.rpc.address": "localhost",
        "jobmanager.rpc.port": rpc,
        "jobmanager.memory.process.size": "1200m",
        "rest.address": "localhost",
        "rest.port": rest,
        "rest.bind-port": rest,
        "io.tmp.dirs": folder / "tmp",
        # Of Beam as a part of Flink, workers outlive the stage that they were started for; of Beam
        # as a part of each job they end with every stage, and tasks fail that need one meanwhile.
        "classloader.resolve-order": "parent-first",
        "taskmanager.numberOfTaskSlots": 1,
        "parallelism.default": n_task_managers,
        "restart-strategy.type": "fixed-delay",
        # A task manager that is gone is noticed after the heartbeats; until then attempts fail.
        "restart-strategy.fixed-delay.attempts": 10,
        "restart-strategy.fixed-delay.delay": "2 s",
        "heartbeat.timeout": 10_000,
        "heartbeat.interval": 2_000,
        "state.checkpoints.dir": (folder / "checkpoints").as_uri(),
        "state.savepoints.dir": (folder / "savepoints").as_uri(),
        **(configuration or {}),
    })  # fmt: skip
    (folder / "tmp").mkdir(exist_ok=True)
    (folder / "conf" / "log4j.properties").write_text(_LOG4J)
    java = [
        "java", *_OPENED, f"-Dlog4j.configurationFile={folder / 'conf' / 'log4j.properties'}",
        "-cp", class_path,
    ]  # fmt: skip
    of_job_manager = [
        *java, "-Xmx700m", "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint",
        "--configDir", folder / "conf", "--executionMode", "cluster",
    ]  # fmt: skip
    of_task_manager = [
        *java, "-Xmx700m", "-XX:MaxDirectMemorySize=600m",
        "org.apache.flink.runtime.taskexecutor.TaskManagerRunner", "--configDir", folder / "conf",
        *(f"-D{key}={value}" for key, value in _TASK_MANAGER.items()),
    ]  # fmt: skip
    job_manager = Process("job-manager", of_job_manager, folder, lambda: answers(rest))
    task_managers = [
        Process(f"task-manager-{n}", of_task_manager, folder, lambda: True)
        for n in range(n_task_managers)
    ]
    with ExitStack() as stack:
        stack.enter_context(running(job_manager, *task_managers))
        cluster = FlinkCluster(f"localhost:{rest}", job_manager, task_managers)
        cluster.wait()
        yield cluster


@contextmanager
def whole_cluster(
    folder: Path, configuration: Mapping[str, object] | None = None
) -> Iterator[tuple[FlinkCluster, WorkerPool, JobServer]]:
    """Runs two task managers, the pool of their workers, and the job server."""
    with (
        flink_cluster(folder / "cluster", 2, configuration) as cluster,
        worker_pool(folder / "pool") as pool,
        flink_job_server(folder / "server", cluster.address) as server,
    ):
        yield cluster, pool, server


@contextmanager
def prism(folder: Path) -> Iterator[list[str]]:
    """Runs Prism, Beam's runner in Go, which keeps what it runs in memory; yields Beam's flags."""
    program, port = fetching.built("prism"), free_port()
    folder.mkdir(parents=True, exist_ok=True)
    command = [program, f"-job_port={port}", "-serve_http=false", "-log_kind=text"]
    with running(Process("prism", command, folder, lambda: answers(port))):
        yield [
            "--runner=PortableRunner", f"--job_endpoint=localhost:{port}",
            "--environment_type=LOOPBACK",
        ]  # fmt: skip


@contextmanager
def high_availability(folder: Path) -> Iterator[dict[str, object]]:
    """Runs Flink's ZooKeeper; yields the keys by which a job outlives its job manager."""
    class_path = fetching.flink_cluster_class_path()
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    (folder / "zookeeper.cfg").write_text(f"""\
dataDir={folder / "zookeeper"}
clientPort={port}
clientPortAddress=localhost
admin.enableServer=false
""")
    shaded = "org.apache.flink.shaded.zookeeper3.org.apache.zookeeper.server.ZooKeeperServerMain"
    command = ["java", "-Xmx128m", "-cp", class_path, shaded, folder / "zookeeper.cfg"]
    with running(Process("zookeeper", command, folder, lambda: answers(port))):
        yield {
            "high-availability.type": "zookeeper",
            "high-availability.zookeeper.quorum": f"localhost:{port}",
            "high-availability.storageDir": (folder / "jobs").as_uri(),
            # A job manager that is gone leads until its session has ended.
            "high-availability.zookeeper.client.session-timeout": 8_000,
        }


# Flink's own scripts work these out; without them each is to be given.
_TASK_MANAGER = {
    "taskmanager.cpu.cores": 1.0,
    "taskmanager.memory.framework.heap.size": "128m",
    "taskmanager.memory.framework.off-heap.size": "128m",
    "taskmanager.memory.task.heap.size": "500m",
    "taskmanager.memory.task.off-heap.size": "64m",
    "taskmanager.memory.managed.size": "600m",
    # Each edge between stages has buffers of its own; with 64 MB some releases had too few.
    "taskmanager.memory.network.min": "320m",
    "taskmanager.memory.network.max": "320m",
    "taskmanager.memory.jvm-metaspace.size": "256m",
    "taskmanager.memory.jvm-overhead.min": "192m",
    "taskmanager.memory.jvm-overhead.max": "192m",
}
_LOG4J = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
appender.console.name = console
appender.console.type = CONSOLE
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss,SSS} %-5p %c{1} - %m%n
"""


def _beam_for_cluster() -> str:
    """The class path of Beam, without what Flink brings itself."""
    of_flink = ("/org/apache/flink/", "/org/slf4j/", "/log4j/")
    jars = fetching.class_path("flink").split(":")
    return ":".join(jar for jar in jars if not any(part in jar for part in of_flink))


def _write_configuration(folder: Path, keys: Mapping[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{key}: {value}\n" for key, value in keys.items()]
    (folder / "config.yaml").write_text("".join(lines))
