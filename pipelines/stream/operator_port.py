"""The port of whoever is on call for a stream: /healthz, /readyz and /metrics over HTTP."""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app

from tracecloak.pipelines.stream.health import Told
from tracecloak.schemas.errors import UsageError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: probes come every few seconds."""


@contextlib.contextmanager
def serving(
    address: str, port: int, told: Callable[[], Told], registry: CollectorRegistry
) -> Iterator[None]:
    """Serves health and metrics while the block runs.

    Args:
        address: Of this machine.
        port: The port there.
        told: Returns how the stream stands now.
        registry: Of the metrics, which have the OpenMetrics form for whoever accepts it.

    Raises:
        UsageError: The port cannot be had.
    """
    metrics = make_wsgi_app(registry)

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        if environ["PATH_INFO"] == "/metrics":
            answer: list[bytes] = metrics(environ, start_response)
            return answer
        now = told()
        are_well = {"/healthz": now.is_alive, "/readyz": not now.reasons}
        is_well = are_well.get(environ["PATH_INFO"])
        status = {None: "404 Not Found", True: "200 OK", False: "503 Service Unavailable"}[is_well]
        body = {"paths": [*are_well, "/metrics"]} if is_well is None else now.to_json()
        start_response(status, [("Content-Type", "application/json")])
        return [json.dumps(body).encode() + b"\n"]

    try:
        server = make_server(address, port, app, server_class=_Server, handler_class=_Silent)
    except OSError as error:
        raise UsageError(
            f"operator_port {port} of operator_address {address} cannot be had: {error.strerror}. "
            "Name another one"
        ) from None
    with server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
