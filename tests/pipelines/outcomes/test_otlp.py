"""Metrics by OpenTelemetry's protocol: what a collector gets, and what is refused before."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tracecloak.pipelines.outcomes.metrics import Readings
from tracecloak.pipelines.outcomes.otlp import check_otlp, push_once, pushing
from tracecloak.schemas.errors import UsageError

service = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")

READINGS = Readings(
    "ward@1", "hospital", "ward",
    {"stream_ready": 1, "stream_open_cases": 3, "stream_rejects_total": {"no case id": 2}},
)  # fmt: skip


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    bodies: list[bytes] = []

    class Taker(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Taker) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/metrics", bodies
        finally:
            server.shutdown()


def numbers(body: bytes) -> dict[str, list[float]]:
    request = service.ExportMetricsServiceRequest.FromString(body)
    (resource,) = request.resource_metrics
    (scope,) = resource.scope_metrics
    return {
        metric.name: [p.as_double for p in metric.gauge.data_points]
        if metric.HasField("gauge")
        else [p.as_double for p in metric.sum.data_points]
        for metric in scope.metrics
    }


def test_a_collector_gets_what_its_audience_may_read() -> None:
    with collector() as (endpoint, bodies):
        push_once(lambda: READINGS, "public", endpoint)
        push_once(lambda: READINGS, "operator", endpoint)
    public, operator = map(numbers, bodies)
    assert public == {"tracecloak_stream_ready": [1]}
    assert operator == {
        "tracecloak_stream_ready": [1],
        "tracecloak_stream_open_cases": [3],
        "tracecloak_stream_rejects_total": [2],
    }


def test_a_run_that_goes_on_sends_again_and_again_and_at_its_end() -> None:
    ready = [0]
    with collector() as (endpoint, bodies):
        readings = lambda: replace(READINGS, values={"stream_ready": ready[0]})  # noqa: E731
        with pushing(readings, "public", endpoint, every_seconds=0.05):
            end = time.monotonic() + 10
            while len(bodies) < 2 and time.monotonic() < end:
                time.sleep(0.01)
            ready[0] = 1
    sent = [numbers(body)["tracecloak_stream_ready"] for body in bodies]
    assert len(sent) >= 3 and sent[0] == [0] and sent[-1] == [1]


def test_numbers_of_the_data_stay_on_the_machine() -> None:
    check_otlp("https://collector.example/v1/metrics", "public")
    check_otlp("http://127.0.0.1:4318/v1/metrics", "operator")
    with pytest.raises(UsageError, match="is on another machine: name a collector on 127"):
        check_otlp("https://collector.example/v1/metrics", "operator")
    with pytest.raises(UsageError, match="must be an address such as"):
        check_otlp("collector:4318", "public")
