"""The Flex Template of Dataflow that makes a release, or the windows of a schedule.

A launcher of Google's runs this file. It has minutes, so it checks what it is given and hands over
a job of one step. The step runs `tracecloak release` on a worker, which takes as long as it takes:
in the memory of the worker, or with runner DataflowRunner as another job, for whose end it waits.

No disk of these machines stays. So keys and ledger must be in databases, as the same command then
finishes what was cut off and pays nothing more: when Dataflow tries the step again, and when the
template is started again. Parameters of a job are shown to whoever may look at jobs, so passwords
are in Secret Manager: `python launch.py secret NAME` prints one, for `key_encryption_key`.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, WorkerOptions

_LOG = logging.getLogger("tracecloak.template")
# Flags of Beam that a job which the command starts has from the job of the template.
PASSED_ON = (
    "project", "region", "temp_location", "service_account_email", "sdk_container_image", "network",
    "subnetwork", "dataflow_kms_key", "machine_type", "max_num_workers", "labels",
)  # fmt: skip
# Another process has the key store or the ledger, or a service does not answer: see exit code 75.
# A database lets the lock of a machine that is gone go after two minutes.
_RETRY_LATER, _TRIES, PAUSE_SECONDS = 75, 6, 60


@dataclass(frozen=True)
class Order:
    """What a worker runs; it has no secret.

    Attributes:
        configuration: Where the file is.
        flags: Of `tracecloak release`.
        password_secret: Full name of the version of the secret with the databases' password.
    """

    configuration: str
    flags: tuple[str, ...]
    password_secret: str


class RunCommand(beam.DoFn):  # type: ignore[misc]
    """Runs `tracecloak release` and waits for its end."""

    def __init__(self, read_secret: Callable[[str], str] | None = None) -> None:
        """Takes what reads secrets; by default it is Secret Manager that does."""
        self._read_secret = read_secret or of_secret_manager

    def process(self, order: Order) -> Iterator[int]:
        """Yields 0 once the release is there.

        Raises:
            RuntimeError: It is not; the text has the exit code and what the command wrote last.
        """
        environment = {**os.environ, "PGPASSWORD": self._read_secret(order.password_secret)}
        with tempfile.TemporaryDirectory() as folder:
            local = _copied(order.configuration, folder)
            command = [sys.executable, "-m", "tracecloak", "release", str(local), *order.flags]
            for attempt in range(_TRIES):
                if attempt:
                    time.sleep(PAUSE_SECONDS)
                # As JSON it writes nothing that is for operators alone.
                ended = subprocess.run(
                    [*command, "--json"],
                    cwd=folder,
                    env=environment,
                    capture_output=True,
                    text=True,
                )
                lines = ended.stderr.strip().splitlines() or ["nothing"]
                for line in lines:
                    _LOG.info(line)
                if ended.returncode != _RETRY_LATER:
                    break
        if ended.returncode:
            raise RuntimeError(f"tracecloak ended with {ended.returncode} and wrote: {lines[-1]}")
        yield ended.returncode


def main(arguments: Sequence[str]) -> int:
    """Hands the job over; returns an exit code.

    Args:
        arguments: Parameters of the template and flags of Beam.
    """
    from tracecloak.schemas.errors import TracecloakError

    if arguments[:1] == ["secret"]:
        sys.stdout.write(of_secret_manager(arguments[1]))
        return 0
    try:
        pipeline = built(arguments)
    except TracecloakError as error:
        sys.stderr.write(f"tracecloak: {error}\n")
        return error.exit_code
    pipeline.run()
    return 0


def built(arguments: Sequence[str]) -> beam.Pipeline:
    """Returns the pipeline of the job, once everything is checked that can be without a charge.

    Raises:
        UsageError: Something is missing, or would stay on a machine that is thrown away.
    """
    from tracecloak.pipelines.budget.database_store import require_lasting
    from tracecloak.pipelines.configuration.plan import load
    from tracecloak.pipelines.runners.on_beam import check_ready, pipeline_options
    from tracecloak.schemas.errors import UsageError
    from tracecloak.transforms.files import is_on_this_machine

    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--configuration", required=True)
    parser.add_argument("--ledger_password_secret", required=True)
    parser.add_argument("--release_id")
    parser.add_argument("--window")
    given, others = parser.parse_known_args(list(arguments))
    if (given.release_id is None) == (given.window is None):
        raise UsageError(
            "give release_id or window: by a name another start recognises its release, and "
            "without one it could be charged again"
        )
    FileSystems.set_options(PipelineOptions(others))
    name = "window" if given.release_id is None else "release_id"
    value = str(getattr(given, name))
    with tempfile.TemporaryDirectory() as folder:
        config = load(str(_copied(given.configuration, folder)), {name: value})
    for key, place in (("key_store", config.key_store), ("output", config.output)):
        if is_on_this_machine(place or ""):
            raise UsageError(
                f"{key} is on a disk of the template's worker, which is thrown away: another start "
                "would be charged again. Give a key_store as postgresql+psycopg://USER@HOST/NAME "
                "and an output as gs://BUCKET/FOLDER"
            )
    require_lasting(config)
    options = pipeline_options("DataflowRunner", others, must_end=False)
    check_ready(options)
    flags = [f"--{name}={value}"]
    if config.runner == "DataflowRunner":
        flags += passed_on(options)
    worker = options.view_as(WorkerOptions)
    worker.num_workers = worker.max_num_workers = 1
    pipeline = beam.Pipeline(options=options)
    order = Order(given.configuration, tuple(flags), given.ledger_password_secret)
    _ = pipeline | "Order" >> beam.Create([order]) | "Release" >> beam.ParDo(RunCommand())
    return pipeline


def passed_on(options: PipelineOptions) -> list[str]:
    """Returns the flags of a job that the command starts, from those of the template's job."""
    given = options.get_all_options()
    flags = []
    for name in PASSED_ON:
        values = given[name] if isinstance(given[name], list) else [given[name]]
        flags += [f"--{name}={value}" for value in values if value is not None]
    if given["use_public_ips"] is False:
        flags.append("--no_use_public_ips")
    return [*flags, f"--labels=started-by={given['job_name']}"]


def of_secret_manager(name: str) -> str:
    """Returns the content of a version of a secret, by its full name."""
    from google.cloud import secretmanager

    answer = secretmanager.SecretManagerServiceClient().access_secret_version(name=name)
    return str(answer.payload.data.decode())


def _copied(configuration: str, folder: str) -> Path:
    from tracecloak.transforms.files import open_raw

    local = Path(folder) / "release.yaml"
    with open_raw(configuration) as stream:
        local.write_bytes(stream.read())
    return local


if __name__ == "__main__":
    # By its name: workers import the step from there, too.
    sys.exit(importlib.import_module("launch").main(sys.argv[1:]))
