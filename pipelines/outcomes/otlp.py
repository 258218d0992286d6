"""Metrics by OpenTelemetry's protocol, for what nobody can scrape in time, such as a pod that ends.

OpenTelemetry's own exporter sends them over HTTP. It takes headers, such as those of a token, from
the environment variable OTEL_EXPORTER_OTLP_HEADERS. It is an extra, as most hosts have Prometheus.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tracecloak.pipelines.outcomes.metric_table import METRICS, Audience, Metric
from tracecloak.schemas.errors import UsageError, missing_extra

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation

    from tracecloak.pipelines.outcomes.metrics import Readings

LOOPBACK = ("127.0.0.1", "localhost", "::1")
# A collector that is away delays the end of a run by so much.
_LONGEST_SECONDS = 3.0


def check_otlp(endpoint: str, audience: Audience) -> None:
    """Makes sure that metrics can be sent to an address, as far as it can be told before.

    Raises:
        UsageError: It is no address, numbers of the data would leave this machine, or the exporter
            is not installed.
    """
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"otlp_endpoint must be an address such as http://127.0.0.1:4318/v1/metrics, got "
            f"{endpoint!r}"
        )
    if audience == "operator" and parts.hostname not in LOOPBACK:
        raise UsageError(
            f"metrics_for operator tells numbers of the data, and otlp_endpoint {endpoint!r} is on "
            "another machine: name a collector on 127.0.0.1, or leave out metrics_for"
        )
    try:
        import opentelemetry.exporter.otlp.proto.http.metric_exporter  # noqa: F401
    except ImportError:
        raise missing_extra(
            "otlp_endpoint", "opentelemetry-exporter-otlp-proto-http", "otlp"
        ) from None


def push_once(read: Callable[[], Readings], audience: Audience, endpoint: str) -> None:
    """Sends the metrics once; where nobody answers there is a warning, and no run fails for it."""
    with pushing(read, audience, endpoint, every_seconds=None):
        pass


@contextlib.contextmanager
def pushing(
    read: Callable[[], Readings], audience: Audience, endpoint: str, every_seconds: float | None
) -> Iterator[None]:
    """Sends the metrics while the block runs, and at its end.

    Args:
        read: Returns the metrics of now.
        audience: Whose metrics are sent.
        endpoint: Address that takes them.
        every_seconds: How often; None: at the end alone.
    """
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource

    exporter = OTLPMetricExporter(endpoint=endpoint, timeout=_LONGEST_SECONDS)
    every_ms = float("inf") if every_seconds is None else every_seconds * 1e3
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=every_ms)
    # Resource.create would add what the environment says, which is meant.
    resource = Resource.create({"service.name": "tracecloak"})
    provider = MeterProvider([reader], resource, shutdown_on_exit=False)
    meter = provider.get_meter("tracecloak")
    for metric in METRICS:
        make = meter.create_observable_counter if metric.is_counter else (
            meter.create_observable_gauge
        )  # fmt: skip
        make(
            f"tracecloak_{metric.name}",
            [_observing(metric, read, audience)],
            metric.unit,
            metric.meaning,
        )
    try:
        yield
    finally:
        if every_seconds is None:  # else the thread that sends does so once more at its end
            provider.force_flush(int(_LONGEST_SECONDS * 1e3))
        provider.shutdown(timeout_millis=_LONGEST_SECONDS * 1e3)


def _observing(
    metric: Metric, read: Callable[[], Readings], audience: Audience
) -> Callable[[CallbackOptions], Iterator[Observation]]:
    def observe(_: CallbackOptions) -> Iterator[Observation]:
        from opentelemetry.metrics import Observation

        for one, labels, number in read().of(audience):
            if one is metric:
                yield Observation(number, labels)

    return observe
