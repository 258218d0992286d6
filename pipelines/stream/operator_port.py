"""A port for operators and their programs: requests by trusted names alone, within time limits.

A page of another name, which its owner lets resolve to this machine (DNS rebinding), must not read
what is served here. So a request must name an IP address, localhost or a declared name. The port
of a stream serves /healthz, /readyz and /metrics.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Self

from tracecloak.schemas.errors import UsageError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


MAX_SECONDS = 10.0
"""How long a connection may take from its beginning to its end, however little it sends at once."""
MAX_CONNECTIONS = 64
"""How many connections are open; a further one ends the oldest."""
_POLL_SECONDS = 0.1
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]*)?")


def host_refusal(hosts: list[str], names: Iterable[str]) -> HTTPStatus | None:
    """Returns the status that refuses a request, or None.

    Args:
        hosts: The values of its header Host.
        names: Names that are accepted beside localhost, in small letters and without a dot at the
            end. The port is not compared, as it may be forwarded.
    """
    match = _HOST.fullmatch(hosts[0].strip()) if len(hosts) == 1 else None
    if match is None:
        return HTTPStatus.BAD_REQUEST
    try:
        ipaddress.ip_address(match[1] or match[2])
    except ValueError:
        is_known = (match[2] or "").lower().removesuffix(".") in ("localhost", *names)
        return None if is_known else HTTPStatus.MISDIRECTED_REQUEST
    return None


class PortHandler(BaseHTTPRequestHandler):
    """Answers one request a connection that is not refused; subclasses have `do_GET`."""

    server: Port
    server_version = "tracecloak"
    sys_version = ""

    def parse_request(self) -> bool:
        """Reads the request line and the headers, and refuses what does not name this machine."""
        if not super().parse_request():
            return False
        refusal = host_refusal(self.headers.get_all("Host", []), self.server.names)
        if not self.path.startswith("/"):  # the URI of a proxy's request, which names another host
            refusal = HTTPStatus.BAD_REQUEST
        if refusal is not None:
            self.answer(refusal, "text/plain", b"name this machine by an IP address or localhost\n")
        return refusal is None

    def answer(self, status: HTTPStatus, kind: str, body: bytes, **headers: str) -> None:
        """Sends an answer; names of headers have _ for -."""
        self.send_response(status)
        headers = {"Content_Type": kind, "Content_Length": str(len(body)), **headers}
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: probes come every few seconds."""


class Port(socketserver.ThreadingTCPServer):
    """Serves while its block runs; neither slow clients nor many of them block the others."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 2 * MAX_CONNECTIONS

    def __init__(
        self, address: str, port: int, handler: type[PortHandler], names: Iterable[str] = ()
    ) -> None:
        """Takes the port; nothing answers yet.

        Args:
            address: Of this machine.
            port: 0: any free one.
            handler: What answers.
            names: See `host_refusal`.

        Raises:
            OSError: The port cannot be had.
        """
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.names = frozenset(name.lower().removesuffix(".") for name in names)
        self._open: dict[Any, float] = {}  # when each connection began, the oldest first
        super().__init__((address, port), handler)
        self._thread = threading.Thread(
            target=self.serve_forever, args=(_POLL_SECONDS,), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()
        self._end(len(self._open))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers in a thread of its own."""
        self._end(len(self._open) + 1 - MAX_CONNECTIONS)
        if len(self._open) < 2 * MAX_CONNECTIONS:  # those that were ended may take a moment
            self._open[request] = time.monotonic()
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def service_actions(self) -> None:
        """Ends connections that take too long; the server calls it several times a second."""
        began = list(self._open.values())
        self._end(sum(time.monotonic() - one > MAX_SECONDS for one in began))

    def close_request(self, request: Any) -> None:
        """Forgets a connection."""
        self._open.pop(request, None)
        super().close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of a client that went away."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def _end(self, n: int) -> None:
        """Ends the oldest connections, whatever their threads wait for."""
        for request in list(self._open)[: max(n, 0)]:
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)


def serving(
    address: str,
    port: int,
    told: Callable[[], dict[str, Any]],
    registry: CollectorRegistry,
    names: Iterable[str] = (),
) -> Port:
    """Returns what serves health and metrics of a stream.

    Args:
        address: Of this machine.
        port: The port there.
        told: Returns how the stream stands now.
        registry: Of the metrics, which have the OpenMetrics form for whoever accepts it.
        names: See `host_refusal`.

    Raises:
        UsageError: The port cannot be had.
    """
    from prometheus_client import MetricsHandler

    class Handler(PortHandler, MetricsHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                MetricsHandler.do_GET(self)
                return
            now = told()
            are_well = {"/healthz": now["alive"], "/readyz": now["ready"]}
            status = HTTPStatus({None: 404, True: 200, False: 503}[are_well.get(path)])
            body = now if path in are_well else {"paths": [*are_well, "/metrics"]}
            self.answer(status, "application/json", json.dumps(body).encode() + b"\n")

    Handler.registry = registry
    try:
        return Port(address, port, Handler, names)
    except OSError as error:
        raise UsageError(
            f"operator_port {port} of operator_address {address} cannot be had: {error.strerror}. "
            "Name another one"
        ) from None
