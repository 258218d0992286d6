"""What runs it: whether the engine and its workers are there, and of which versions they are."""

from __future__ import annotations

import json
import platform
import re
import socket
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import tracecloak
from tracecloak.examination.doctor.setting import Said, Setting
from tracecloak.pipelines.runners.driver import driver_of
from tracecloak.pipelines.runners.names import FLINK, IN_MEMORY, LOCAL, is_local
from tracecloak.schemas.errors import RetryLater, UsageError

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

_ASK_SECONDS = 5.0


def look_at_engine(setting: Setting) -> Iterator[Said]:
    """Looks whether what runs the configuration is there, and of a version that goes with ours."""
    ours = f"tracecloak {tracecloak.__version__}, Python {platform.python_version()}"
    runner = setting.config.runner
    if runner == IN_MEMORY:
        driver_of(runner, setting.of_beam).check_ready()
    elif runner == LOCAL and setting.of_beam:
        raise UsageError(f"runner {LOCAL} takes nothing of Beam, got {setting.of_beam[0]}")
    elif runner == LOCAL and setting.stream is not None:
        from tracecloak.pipelines.stream.local_run import check_no_workers

        check_no_workers(setting.stream)
    if runner in (IN_MEMORY, LOCAL):
        yield "ok", f"runner {runner} is this process, of {ours}"
        return
    from tracecloak.pipelines.runners.options import check_ready, version

    options = _options_of(setting)
    check_ready(options)
    yield "ok", f"runner {runner} can be started by {ours}, Beam {version()}"
    if runner == FLINK:
        yield from _of_flink(options)
    if setting.probes and not is_local(runner) and runner != "DataflowRunner":
        from tracecloak.pipelines.runners.reach import check_workers_answer

        check_workers_answer(options)
        yield "ok", "a worker did a small job, and has the same versions"


def _options_of(setting: Setting) -> PipelineOptions:
    runner = setting.config.runner
    if setting.stream is not None:
        from tracecloak.pipelines.stream.run import require_reads, stream_options

        require_reads(setting.stream)
        return stream_options(runner, setting.of_beam)
    from tracecloak.pipelines.runners.options import pipeline_options

    return pipeline_options(runner, setting.of_beam)


def _of_flink(options: PipelineOptions) -> Iterator[Said]:
    from apache_beam.options.pipeline_options import FlinkRunnerOptions, PortableOptions

    portable = options.view_as(PortableOptions)
    addresses = [("job_endpoint", portable.job_endpoint)]
    if str(portable.environment_type).upper() == "EXTERNAL":
        addresses.append(("environment_config", portable.environment_config))
    for name, address in addresses:
        if address:
            _require_answer(name, address)
            yield "ok", f"{name} answers"
    flink = options.view_as(FlinkRunnerOptions)
    master = flink.flink_master
    if re.fullmatch(r"(https?://)?[^\[\]/]+:\d+/?", master or "") is None:
        return
    url = master if "://" in master else f"http://{master}"
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/v1/config", timeout=_ASK_SECONDS) as answer:
            theirs = str(json.load(answer)["flink-version"])
    except (OSError, ValueError, KeyError) as error:
        raise RetryLater(
            f"Flink does not answer at flink_master {master!r} ({type(error).__name__}); start it, "
            "or correct the address of its REST port"
        ) from None
    known = flink.PUBLISHED_FLINK_VERSIONS
    if not any(theirs.startswith(f"{one}.") for one in known):
        yield (
            "failure",
            f"Flink is {theirs}, and this Beam goes with {', '.join(known)}: take one of these",
        )
    else:
        yield "ok", f"Flink is {theirs}, with which this Beam goes"


def _require_answer(name: str, address: str) -> None:
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        host, port = parts.hostname or "", parts.port or 0
        socket.create_connection((host, port), _ASK_SECONDS).close()
    except (OSError, ValueError) as error:
        raise RetryLater(
            f"nobody answers at {name} {address!r} ({type(error).__name__}): start what is to run "
            "there, or correct the address"
        ) from None
