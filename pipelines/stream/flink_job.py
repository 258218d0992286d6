"""The job of a stream on Flink, by Flink's REST interface: stopped with a savepoint, or cancelled.

Beam's job server has no savepoint, and does not say what Flink calls a job; a job is found by its
name, which is that of the epoch.
"""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

from tracecloak.schemas.errors import TracecloakError

_ASK_SECONDS = 30.0
_STOP_SECONDS = 300.0
_LOOK_SECONDS = 0.5
_ACTIVE = ("CREATED", "RUNNING", "RESTARTING")


def stop_with_savepoint(address: str, name: str) -> list[str]:
    """Stops the jobs of a name; nothing that they have not decided is published.

    Args:
        address: HOST:PORT or URL of Flink's REST interface.
        name: Of the jobs.

    Returns:
        Where their state is, a path for each job.

    Raises:
        TracecloakError: Flink does not answer, or a job could not be stopped; it goes on then.
    """
    places = []
    for job in _jobs(address, name):
        begun = _ask(address, f"/jobs/{job}/stop", {"drain": False})
        path = f"/jobs/{job}/savepoints/{begun['request-id']}"
        deadline = time.monotonic() + _STOP_SECONDS
        while (answer := _ask(address, path))["status"]["id"] != "COMPLETED":
            if time.monotonic() > deadline:
                break
            time.sleep(_LOOK_SECONDS)
        place = answer.get("operation", {}).get("location")
        if place is None:
            raise TracecloakError(
                f"Flink has not stopped job {job} with a savepoint, and the job may go on: look at "
                "it in Flink, and name a folder for savepoints with state.savepoints.dir"
            )
        places.append(str(place))
    return places


def cancel(address: str, name: str) -> None:
    """Ends the jobs of a name, whose stream is over.

    Raises:
        TracecloakError: Flink does not answer.
    """
    for job in _jobs(address, name):
        _ask(address, f"/jobs/{job}?mode=cancel", method="PATCH")


def _jobs(address: str, name: str) -> list[str]:
    jobs = _ask(address, "/jobs/overview")["jobs"]
    return [job["jid"] for job in jobs if job["name"] == name and job["state"] in _ACTIVE]


def _ask(
    address: str, path: str, body: dict[str, Any] | None = None, method: str | None = None
) -> Any:
    url = (address if "://" in address else f"http://{address}").rstrip("/") + path
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=_ASK_SECONDS) as answer:
            return json.loads(answer.read() or b"null")
    except (OSError, ValueError) as error:
        raise TracecloakError(
            f"flink_master {address!r} does not answer as Flink's REST interface does: "
            f"{type(error).__name__}; the job goes on. Stop it in Flink with a savepoint"
        ) from None
