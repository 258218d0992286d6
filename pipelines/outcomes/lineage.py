"""Events of OpenLineage: that a release or a stream began, and how it ended, for data catalogues.

Catalogues such as Marquez and DataHub draw from them which data set was made from which other. A
run is here one try to make one release, so each run has one START, and one COMPLETE or FAIL unless
it was killed. Its job is that of the data set, its inputs are the folders and files that the
configuration names, and its output is the folder of the release. A facet `tracecloak_release` says
what the release promises, of which window it is, and with which exit code the run ended.

A run of a stream is one process: it has RUNNING events by the clock, and ends with COMPLETE if
its budget is spent, ABORT if it was stopped, and FAIL otherwise. It reads and writes topics, too.

No number that was counted on a log is in an event, and no text of an error, which is for the
operator. Events follow version 2-0-2 of the specification (https://openlineage.io/spec/2-0-2/).
"""

from __future__ import annotations

import contextlib
import datetime
import http.client
import json
import logging
import os
import re
import time
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.published.manifest import TOOL_VERSION, Guarantee
from tracecloak.transforms.files import require_folder_of

Kind = Literal["START", "RUNNING", "COMPLETE", "ABORT", "FAIL"]

_LOG = logging.getLogger("tracecloak")
_KEY = "OPENLINEAGE_API_KEY"
_WAITS_S = 5.0
_PRODUCER = f"urn:tracecloak:{TOOL_VERSION}"
_SPECIFICATION = "https://openlineage.io/spec/2-0-2/OpenLineage.json"
_NOMINAL_TIME = "https://openlineage.io/spec/facets/1-0-1/NominalTimeRunFacet.json"
_JOB_TYPE = "https://openlineage.io/spec/facets/2-0-4/JobTypeJobFacet.json"
_RUNS = uuid.uuid5(uuid.NAMESPACE_URL, "urn:tracecloak:runs")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://([^/]*)/?(.*)", re.DOTALL)
_PUBSUB = "pubsub"
PROMISED = ("kind", "unit", "adjacency", "epsilon", "delta", "sentence")
"""What is told of a guarantee."""
_WILDCARD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class LineageRun:
    """One try to make one release, or one process of a stream.

    Attributes:
        dataset: Name of the data set; empty: it has none, and the job is named after the release.
        release_id: Name of the release.
        output: Folder of releases, absolute.
        inputs: Paths of the configuration: files, folders or globs, or the database that is asked;
            never the files found there. Of a stream the topics: kafka://HOST:PORT/NAME, or
            pubsub:///PROJECT/topics/NAME, or with subscriptions in place of topics.
        method: Name of the method.
        guarantee: What the release promises.
        began_us: When the try began, microseconds since 1970.
        window: Label of the window that it is of; empty: of none.
        begin_us: Where that window begins; None: there is none.
        end_us: Where it ends.
        outputs: Where a stream publishes, in the form of inputs; a release has its folder at its
            end.
        is_stream: Whether it is of a stream.
    """

    dataset: str
    release_id: str
    output: str
    inputs: tuple[str, ...]
    method: str
    guarantee: Guarantee
    began_us: int
    window: str = ""
    begin_us: int | None = None
    end_us: int | None = None
    outputs: tuple[str, ...] = ()
    is_stream: bool = False

    @property
    def run_id(self) -> str:
        """A UUID of the release and the moment at which the try began."""
        return str(uuid.uuid5(_RUNS, f"{self.output}\n{self.release_id}\n{self.began_us}"))


def event_of(run: LineageRun, kind: Kind, at_us: int, exit_code: int | None = None,
             folder: str | None = None) -> dict[str, Any]:  # fmt: skip
    """Returns an event as JSON values.

    Args:
        run: What it is about.
        kind: What happened.
        at_us: When, microseconds since 1970.
        exit_code: Which one the try ended with; None: it has begun.
        folder: Where the release lies, once it does.
    """
    release: dict[str, Any] = {
        "release_id": run.release_id,
        "method": run.method,
        "guarantee": {name: getattr(run.guarantee, name) for name in PROMISED},
    }
    if run.window:
        release["window"] = run.window
    if exit_code is not None:
        release["exit_code"] = exit_code
    facets = {"tracecloak_release": _facet(f"{_SPECIFICATION}#/$defs/RunFacet", release)}
    if run.begin_us is not None and run.end_us is not None:
        times = {"nominalStartTime": _moment(run.begin_us), "nominalEndTime": _moment(run.end_us)}
        facets["nominalTime"] = _facet(f"{_NOMINAL_TIME}#/$defs/NominalTimeRunFacet", times)
    processing, kind_of_job = ("STREAMING", "STREAM") if run.is_stream else ("BATCH", "RELEASE")
    job_type = {"processingType": processing, "integration": "TRACECLOAK", "jobType": kind_of_job}
    outputs = run.outputs if folder is None else (*run.outputs, folder)
    return {
        "eventType": kind,
        "eventTime": _moment(at_us),
        "producer": _PRODUCER,
        "schemaURL": f"{_SPECIFICATION}#/$defs/RunEvent",
        "run": {"runId": run.run_id, "facets": facets},
        "job": {
            "namespace": "tracecloak",
            "name": f"{kind_of_job.lower()}.{run.dataset or run.release_id}",
            "facets": {"jobType": _facet(f"{_JOB_TYPE}#/$defs/JobTypeJobFacet", job_type)},
        },
        "inputs": [_dataset(path) for path in run.inputs],
        "outputs": [_dataset(place) for place in outputs],
    }


def _facet(schema: str, values: dict[str, Any]) -> dict[str, Any]:
    return {"_producer": _PRODUCER, "_schemaURL": schema, **values}


def _moment(time_us: int) -> str:
    moment = datetime.datetime.fromtimestamp(time_us / 1e6, datetime.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _dataset(path: str) -> dict[str, str]:
    """Names a path as OpenLineage does: gs://lake and claims, or file and /lake/claims.

    A glob stands for the folder in front of its first wildcard, and a table for itself at whatever
    version: one of Iceberg is named by its catalogue.
    """
    from tracecloak.transforms.lakes.tables import TABLES, address_of, is_address

    if is_address(path):
        table = address_of(path)
        if not TABLES.named(table.kind).is_folder:
            catalogue, _, name = table.place.partition(".")
            return {"namespace": f"{table.kind}://{catalogue}", "name": name}
        path = table.place
    address = _SCHEME.fullmatch(path.strip())
    if address is None:
        return {"namespace": "file", "name": _without_wildcards(str(Path(path).absolute())) or "/"}
    scheme, host, name = address.groups()
    if scheme == _PUBSUB:  # pubsub:///PROJECT/topics/NAME
        project, kind, called = name.split("/", 2)
        return {"namespace": _PUBSUB, "name": f"{kind.removesuffix('s')}:{project}:{called}"}
    return {"namespace": f"{scheme}://{host}", "name": _without_wildcards(name) or "/"}


def _without_wildcards(path: str) -> str:
    wildcard = _WILDCARD.search(path)
    if wildcard is not None:
        path = path[: wildcard.start()].rpartition("/")[0]
    return path.rstrip("/")


@contextlib.contextmanager
def events_sent(run: LineageRun, to: str) -> Iterator[Callable[[Kind, str | None], None]]:
    """Sends START, and when the block ends how it ended.

    Args:
        run: What they are about.
        to: As `check_lineage` takes it.

    Yields:
        A function to call with COMPLETE or ABORT, and the folder of a release, once that is known.
    """
    noted: list[tuple[Kind, str | None]] = [("COMPLETE", None)]
    send(event_of(run, "START", run.began_us), to)
    code = TracecloakError.exit_code
    try:
        yield lambda kind, folder: noted.append((kind, folder))
        code = 0
    except TracecloakError as error:
        code = error.exit_code
        raise
    finally:
        kind, folder = noted[-1]
        send(event_of(run, "FAIL" if code else kind, now_us(), code, folder), to)


def now_us() -> int:
    """Returns the microseconds since 1970."""
    return time.time_ns() // 1_000


def check_lineage(to: str) -> None:
    """Makes sure that events can go somewhere, before anything is spent.

    Raises:
        UsageError: `to` is an address of another kind, or a file whose folder is not there.
    """
    if _is_address(to):
        return
    if "://" in to:
        raise UsageError(
            f"lineage: {to!r} must be a file of this machine or an address of http:// or https://"
        )
    require_folder_of("lineage", to)


def _is_address(to: str) -> bool:
    parts = urllib.parse.urlsplit(to)
    return parts.scheme in ("http", "https") and bool(parts.netloc)


def send(event: dict[str, Any], to: str) -> None:
    """Adds an event to a file, or sends it to an address, which has five seconds to take it.

    Where OPENLINEAGE_API_KEY is set, an address gets it as a bearer token, as from other programs
    that send such events. If it is not taken, that is a warning: no release fails for it.

    Args:
        event: As `event_of` makes it.
        to: As `check_lineage` takes it.
    """
    data = json.dumps(event, ensure_ascii=False).encode()
    try:
        if _is_address(to):
            token = os.environ.get(_KEY)
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            headers["Content-Type"] = "application/json"
            request = urllib.request.Request(to, data, headers, method="POST")
            urllib.request.build_opener(_NoRedirects).open(request, timeout=_WAITS_S).close()
        else:
            # A line is added by one call, so that lines of several processes do not mix.
            line = data + b"\n"
            descriptor = os.open(to, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                if os.write(descriptor, line) < len(line):
                    raise OSError("the disk is full")
            finally:
                os.close(descriptor)
    except (OSError, ValueError, http.client.HTTPException) as error:
        # A status of HTTP, or a class.
        reason = getattr(error, "code", None) or type(error).__name__
        # What may hold a token is left out.
        place = to.partition("?")[0] if _is_address(to) else to
        _LOG.warning("lineage: %s took no event (%s)", place, reason)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET without the event, and may take a token elsewhere."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str,
        headers: http.client.HTTPMessage, newurl: str,
    ) -> None:  # fmt: skip
        return None
