"""Beam's flags for runners elsewhere: what is taken, what is refused before anything is spent."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.gcp.pubsub import ReadFromPubSub
from apache_beam.options.pipeline_options import (
    GoogleCloudOptions,
    PipelineOptions,
    StandardOptions,
    WorkerOptions,
)
from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner
from apache_beam.transforms.environments import DockerEnvironment

from tests.support.releasing import ROOT, hospital_files
from tests.support.tiers import each_row
from tests.support.windows import MONTHS
from tracecloak.pipelines.configuration.plan import ReleasePlan, read_plan, source_of
from tracecloak.pipelines.keys.receipts import Receipt
from tracecloak.pipelines.release.values import manifest_of
from tracecloak.pipelines.runners.flags import IN_MEMORY, beam_flags, is_local, refuse_unknown
from tracecloak.pipelines.runners.on_beam import (
    build_release,
    build_units,
    check_ready,
    pipeline_options,
    version,
)
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.transforms.batch.job import DeadLetter, Job, ReleaseRun, Target, WindowPart
from tracecloak.transforms.formats.messages import MessageFormat
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.stream.beam_stages import EVENTS, AssembleCases, DecodeMessages

IMAGE = "europe-docker.pkg.dev/hospital/tracecloak/worker:1"
LOCATIONS = ("--temp_location=gs://hospital-bucket/temp", "--region=europe-west1")
SERVICE = ("--project=hospital-project", *LOCATIONS)
# What Dataflow's own pages tell an operator to give.
ORDINARY = (
    *SERVICE, "--staging_location=gs://hospital-bucket/staging", "--job_name=tracecloak-1",
    f"--sdk_container_image={IMAGE}", "--service_account_email=w@hospital-project.example",
    "--subnetwork=regions/europe-west1/subnetworks/inner", "--no_use_public_ips",
    "--num_workers=1", "--max_num_workers=4", "--worker_machine_type=n2-highmem-4",
    "--disk_size_gb=50", "--number_of_worker_harness_threads=4", "--enable_streaming_engine",
    "--dataflow_kms_key=projects/p/locations/l/keyRings/r/cryptoKeys/k", "--labels=team=claims",
    "--dataflow_service_options=enable_prime", "--autoscaling_algorithm=THROUGHPUT_BASED",
    "--experiments=use_runner_v2", "--sdk_location=container",
)  # fmt: skip
TEMPLATE = "--template_location=gs://hospital-bucket/templates/stream"
# Keeps Beam from asking the service, and from handing the job over.
DRY = "--dry_run=true"


def options(runner: str, *arguments: str, must_end: bool = True) -> PipelineOptions:
    refuse_unknown(arguments, ())
    return pipeline_options(runner, arguments, must_end)


# --- What must not be asked of a run --------------------------------------------------------------


@pytest.mark.parametrize("flag", [TEMPLATE, DRY, "--no_wait_until_finish"])
@pytest.mark.parametrize("runner", ["DataflowRunner", "FnApiRunner"])
def test_a_run_that_must_end_is_not_only_built_or_handed_over(runner: str, flag: str) -> None:
    name = flag.split("=")[0].strip("-")
    with pytest.raises(UsageError, match=f"with {name} nothing has run"):
        options(runner, *SERVICE, flag)
    options(runner, *SERVICE, flag, must_end=False)


def test_threads_are_refused_for_every_kind_of_run() -> None:
    for must_end in (True, False):
        with pytest.raises(UsageError, match="multi_threading silently loses data"):
            options("FnApiRunner", "--direct_running_mode=multi_threading", must_end=must_end)


# --- Flink ----------------------------------------------------------------------------------------


@each_row(
    "arguments",
    [
        ("--checkpointing_interval=10000", "--state_backend=rocksdb", "--object_reuse"),
        ("--checkpointing_interval", "10000", "--savepoint_path", "/savepoints/1"),
        ("--flink_master=cluster:8081", "--parallelism=4", "--max_parallelism=128"),
    ],
)
def test_the_flags_of_the_job_server_for_flink_are_known(arguments: Sequence[str]) -> None:
    refuse_unknown(arguments, ())


def test_the_list_of_flags_has_those_of_the_option_classes_of_beam() -> None:
    parser = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
    for options in PipelineOptions.__subclasses__():
        if options.__module__ == PipelineOptions.__module__:
            options._add_argparse_args(parser)  # Beam lists its flags nowhere else
    found = {flag for action in parser._actions for flag in action.option_strings}
    assert found <= beam_flags(), f"beam_flags.txt lacks {sorted(found - beam_flags())}"


def test_flink_without_a_job_server_is_refused_and_told_where_to_read_how_to_get_one() -> None:
    """Beam would try to download it when the release is already paid for."""
    with pytest.raises(UsageError, match="needs Beam's job server") as caught:
        check_ready(options("FlinkRunner"))
    (page,) = re.findall(r"docs/\S+\.md", str(caught.value))
    assert "### Flink" in (ROOT / page).read_text(encoding="utf-8")


def test_a_job_server_is_taken_by_address_by_file_and_by_url_and_what_is_not_there_is_refused(
    tmp_path: Path,
) -> None:
    jar, java = tmp_path / "server.jar", "--job_server_java_launcher=sh"  # whatever is there
    jar.touch()
    check_ready(options("FlinkRunner", "--job_endpoint=localhost:8099"))
    check_ready(options("FlinkRunner", f"--flink_job_server_jar={jar}", java))
    check_ready(options("FlinkRunner", "--flink_job_server_jar=https://inner/server.jar", java))
    no_java = [f"--flink_job_server_jar={jar}", f"--job_server_java_launcher={tmp_path}/java"]
    for runner, flags, told in (
        (
            "FlinkRunner",
            [f"--flink_job_server_jar={tmp_path}/gone.jar"],
            r"gone\.jar' is not there",
        ),
        ("FlinkRunner", no_java, "needs Java, and there is no "),
        ("FlinkyRunner", [], "runner 'FlinkyRunner' is none of Beam's"),
    ):
        with pytest.raises(UsageError, match=told):
            check_ready(options(runner, *flags))


@each_row("where", [("--environment_type=DOCKER",), ("--flink_master=cluster:8081",)])
def test_containers_without_tracecloak_are_refused(where: Sequence[str]) -> None:
    """Beam's own image is their default."""
    server = "--job_endpoint=localhost:8099"
    with pytest.raises(UsageError, match="would start workers without tracecloak"):
        check_ready(options("FlinkRunner", server, *where))
    check_ready(options("FlinkRunner", server, *where, f"--sdk_container_image={IMAGE}"))
    loopback = [flag for flag in where if "environment" not in flag]
    check_ready(options("FlinkRunner", server, *loopback, "--environment_type=LOOPBACK"))


# --- What a manifest says -------------------------------------------------------------------------


@each_row(
    ("runner", "unsafe", "local"),
    [
        ("FlinkRunner", True, False), ("PortableRunner", True, False),
        ("DataflowRunner", False, False), ("FnApiRunner", True, True),
        ("BundleBasedDirectRunner", True, True), (IN_MEMORY, False, True),
    ],
)  # fmt: skip
def test_a_manifest_says_whether_the_barrier_before_the_noise_is_kept(
    tmp_path: Path, runner: str, unsafe: bool, local: bool
) -> None:
    plan = read_plan(None, {**of_release(tmp_path, ["log.csv"]), "runner": runner})
    beam_version = None if runner == IN_MEMORY else version()
    manifest = manifest_of(begun(plan, beam_version))
    assert manifest.unsafe_barrier is unsafe
    assert is_local(runner) is local


def begun(plan: ReleasePlan, beam_version: str | None) -> Any:
    driver, source = (types.SimpleNamespace(**{name: value}) for name, value in (
        ("beam_version", beam_version), ("is_by_name", False)))  # fmt: skip
    return types.SimpleNamespace(
        plan=plan, receipt=BEGUN, concerns=(), driver=driver, source=source
    )


def of_release(tmp_path: Path, inputs: Sequence[Path | str]) -> dict[str, Any]:
    return {
        "log": [str(path) for path in inputs], "output": str(tmp_path / "out"), "method": "amun",
        "guessing_advantage": 0.3, "release_id": "r",
    }  # fmt: skip


# --- Dataflow: everything but the service ---------------------------------------------------------


CLIENT = "apache_beam.runners.dataflow.internal.apiclient"


@pytest.fixture
def with_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes the client of the service for installed."""
    monkeypatch.setitem(sys.modules, CLIENT, types.ModuleType(CLIENT))


def test_the_ordinary_flags_of_dataflow_are_taken_and_valid(with_client: None) -> None:
    """Read back, so that none is dropped; and Beam's own validation finds nothing to say."""
    found = options("DataflowRunner", *ORDINARY, TEMPLATE, "--streaming", DRY, must_end=False)
    check_ready(found)
    service, worker = found.view_as(GoogleCloudOptions), found.view_as(WorkerOptions)
    assert (service.project, service.region) == ("hospital-project", "europe-west1")
    assert service.template_location == TEMPLATE.split("=")[1]
    assert service.dataflow_kms_key.endswith("cryptoKeys/k")
    assert (worker.sdk_container_image, worker.max_num_workers) == (IMAGE, 4)
    assert worker.use_public_ips is False
    assert found.view_as(StandardOptions).streaming
    assert PipelineOptionsValidator(found, DataflowRunner()).validate() == []


@each_row(
    ("arguments", "told"),
    [
        (LOCATIONS, "Missing required option: project"),
        (("--project=1234", *LOCATIONS), "Invalid Project ID"),
        (("--project=hospital-project", "--temp_location=/tmp/x"), "Invalid GCS path"),
        ((*SERVICE, "--job_name=Not A Name"), "Invalid job_name"),
        ((*SERVICE, "--num_workers=5", "--max_num_workers=4"), "num_workers"),
        (SERVICE, "would start workers without tracecloak"),
    ],
)
def test_what_dataflow_would_refuse_is_refused_before_anything_is_spent(
    with_client: None, arguments: Sequence[str], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        check_ready(options("DataflowRunner", *arguments, DRY, must_end=False))


def test_a_missing_client_of_dataflow_is_told_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, CLIENT, raising=False)
    for name in ("google.auth", "google.auth.credentials"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r"google\.auth\S*, which is not"):
        check_ready(options("DataflowRunner", *ORDINARY, DRY, must_end=False))


BEGUN = Receipt("r", "/out", "", "", "fingerprint", "2026-11-23")
# Nobody here can read it, so that it cannot be in what is built.
KEY = KeyReference("file:gs://hospital-secrets/release.key")


def job_of(tmp_path: Path) -> Job:
    plan = read_plan(None, of_release(tmp_path, hospital_files(tmp_path, 5)))
    folder = ReleaseFolder(plan.keys.output, "r")
    spec = ReleaseRun(plan.method, plan.params, "r", plan.noise_digest, key=KEY)
    manifest = manifest_of(begun(plan, version()))
    target = Target(spec, folder, manifest, plan.keys.formats, plan.keys.parts)
    dead_letter = DeadLetter(str(tmp_path / "rejects"), plan.max_error_ratio)
    return Job(source_of(plan), dead_letter, target, plan.keys.shards)


def build_window(pipeline: beam.Pipeline, tmp_path: Path) -> None:
    """What a window reads before its release: which cases count."""
    window = MONTHS.numbered(0)
    part = WindowPart(MONTHS, window, KEY, False, "gs://keys/found", "gs://keys/units")
    build_units(pipeline, replace(job_of(tmp_path), part=part))


def build_stream(pipeline: beam.Pipeline, tmp_path: Path) -> None:
    second = 1_000_000
    rule = ClosingRule(("A", "B"), 10 * second, 10 * second, 60 * second, second, 5, 60 * second)
    messages = pipeline | ReadFromPubSub(
        subscription="projects/hospital-project/subscriptions/events", with_attributes=True
    )
    decoded = messages | DecodeMessages(MessageFormat(ColumnMapping(timestamp_unit="us")))
    _ = decoded[EVENTS] | AssembleCases(rule, KEY, 10)


BUILD: dict[str, Callable[[beam.Pipeline, Path], None]] = {
    "batch": lambda pipeline, folder: build_release(pipeline, job_of(folder)),
    "window": build_window, "stream": build_stream,
}  # fmt: skip


def check_graph(graph: beam_runner_api_pb2.Pipeline) -> None:
    """Workers have our image, and every step is one that a service knows."""
    docker = [
        beam_runner_api_pb2.DockerPayload.FromString(found.payload).container_image
        for found in graph.components.environments.values()
        if found.urn == "beam:env:docker:v1"
    ]
    assert docker
    assert set(docker) == {IMAGE}
    steps = {
        step.spec.urn
        for step in graph.components.transforms.values()
        if not step.subtransforms and set(step.outputs.values()) - set(step.inputs.values())
    }
    # Of a pickled one, or one without a name, another language's runner could make nothing.
    assert not steps & {python_urns.PICKLED_TRANSFORM, python_urns.GENERIC_COMPOSITE_TRANSFORM}
    assert all(urn.startswith("beam:transform:") for urn in steps)


@pytest.mark.parametrize("kind", BUILD)
def test_the_pipelines_are_built_for_dataflow(tmp_path: Path, with_client: None, kind: str) -> None:
    """Catches what cannot be sent: a secret, an object that cannot be pickled, another image."""
    arguments = [*ORDINARY, DRY, *(["--streaming"] if kind == "stream" else [])]
    found = options("DataflowRunner", *arguments, must_end=False)
    check_ready(found)
    pipeline = beam.Pipeline(options=found)
    BUILD[kind](pipeline, tmp_path)
    environment = DockerEnvironment.from_container_image(IMAGE)
    check_graph(pipeline.to_runner_api(default_environment=environment))


@pytest.mark.parametrize("kind", BUILD)
def test_the_job_that_dataflow_would_be_given_is_described(tmp_path: Path, kind: str) -> None:
    """By Beam's own runner, as far as it goes without the service; as a template for the stream."""
    pytest.importorskip("google.cloud.dataflow", reason="needs the extra gcp")
    more = ["--streaming", TEMPLATE] if kind == "stream" else []
    found = options("DataflowRunner", *ORDINARY, DRY, *more, must_end=False)
    check_ready(found)
    pipeline = beam.Pipeline(options=found)
    BUILD[kind](pipeline, tmp_path)
    job = pipeline.run().job
    check_graph(job.proto_pipeline)
    client = importlib.import_module(CLIENT)
    environment = client.Environment([], found, "8", "gs://staged", job.proto_pipeline).proto
    (pool,) = environment.worker_pools
    assert {image.container_image for image in pool.sdk_harness_container_images} == {IMAGE}
    assert pool.ip_configuration.name == "WORKER_IP_PRIVATE"
    assert (pool.machine_type, pool.autoscaling_settings.max_num_workers) == ("n2-highmem-4", 4)
    assert environment.service_account_email == "w@hospital-project.example"
    assert environment.service_kms_key_name.endswith("cryptoKeys/k")
    described = json.loads(job.json())
    assert described["name"] == "tracecloak-1"
    assert described["type"] == f"JOB_TYPE_{'STREAMING' if kind == 'stream' else 'BATCH'}"
    told = dict(environment.sdk_pipeline_options["options"])
    assert told.get("template_location") == (TEMPLATE.split("=")[1] if kind == "stream" else None)


@pytest.mark.slow
def test_workers_tracebacks_do_not_reach_the_terminal(tmp_path: Path) -> None:
    """They can hold data. With --traceback they are asked for, and come."""
    log = tmp_path / "log.csv"
    log.write_text("case_id,activity,timestamp\nsecret,A,no time\n", encoding="utf-8")
    told = []
    for more in ((), ("--traceback",)):
        done = subprocess.run(
            [
                sys.executable, "-m", "tracecloak", "release", "--log", log, "--output",
                tmp_path / "out", "--key_store", tmp_path / "keys", "--method", "amun",
                "--guessing_advantage", "0.2", "--direct_running_mode", "multi_processing",
                "--direct_num_workers", "2", "--new_ledger", *more,
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )  # fmt: skip
        assert done.returncode == 3
        assert "of the records are malformed" in done.stderr.splitlines()[-1]
        told.append(done.stderr)
    assert "Traceback" not in told[0]
    assert "Traceback" in told[1]
