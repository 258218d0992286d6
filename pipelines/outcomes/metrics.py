"""Results of a run as metrics for Prometheus and as rows of a table."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from tracecloak.pipelines.verification.log_forms import LogForm, forms_of
from tracecloak.pipelines.verification.verify import verify
from tracecloak.schemas.errors import GuaranteeError, UsageError
from tracecloak.transforms.files import require_folder_of, write_private
from tracecloak.transforms.lakes.tables import AppendedRelease, address_of

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as Family

    from tracecloak.pipelines.ledger.balance import Balance


# --- A finished release as rows of a table: its log is appended in one commit, once. --------------


@dataclass(frozen=True)
class Appended:
    """What became of an append.

    Attributes:
        release_id: The release's name.
        table: The address of the table.
        was_there: Whether the table had the release already, so that nothing was done.
    """

    release_id: str
    table: str
    was_there: bool


def append_release(folder: str, table: str) -> Appended:
    """Appends the log of a release to a table, unless the table has it.

    Args:
        folder: Of the release, which is verified first.
        table: Address of a table, without a version; it is made where there is none.

    Raises:
        InputSchemaError: There is no release.
        UsageError: It has no log in Parquet, or the address is of no table
            that can be written.
        GuaranteeError: The release does not pass `verify`.
        TracecloakError: As the kind of table raises.
    """
    address = address_of(table)
    append = address.append
    verified = verify(folder)
    received = verified.received
    if received is None or not verified.holds:
        raise GuaranteeError(f"{folder!r} does not pass `tracecloak verify`, which says why")
    logs = forms_of(received.folder, received.paths)
    if not logs or logs[0].kind != "parquet":
        raise UsageError(
            f"{folder!r} has no log in Parquet to append; release one with parquet in formats"
        )
    release_id = received.body["release_id"]
    fingerprint = received.body["randomness"]["key_fingerprint"]
    release = AppendedRelease(release_id, fingerprint, lambda: _rows(logs[0]))
    return Appended(release_id, str(address), not append(address.place, release))


def _rows(log: LogForm) -> pa.RecordBatchReader:
    """Returns the rows of a log in Parquet, in the order of the release."""
    schema = log.schema()
    return pa.RecordBatchReader.from_batches(schema, log.rows(schema))


# --- Metrics of releases and streams for Prometheus, by its own client library. -------------------
#     tracecloak_windows_released{config="ward.yaml",dataset="hospital"} 12.0
#     tracecloak_account_epsilon_remaining{account="ward"} 9.0
#
# A file is of one configuration, and in the text format that Prometheus's node exporter collects.
# By HTTP the same metrics have the OpenMetrics form where the reader asks for it. `METRICS` has
# all of them, and whom each is for.
#
# The exit code can depend on the log, as that of every command can.
#
# All metrics are one table, so that one thing has one name.
#
# Who watches a release need not be who may see its data. So every metric says whom it is for.
# `public` are what configuration, ledger and clock tell, and whether and when something ran.
# `operator` are numbers of the data: what was counted on it, and the bytes and durations that
# follow how much of it there is. They are told where `metrics_for` asks for them, and nowhere
# else.


_LOG = logging.getLogger("tracecloak")
_ENDING = ".prom"
_PREFIX = "tracecloak_"
_SUCCESS = "release_last_success_timestamp_seconds"

# A number, or for a metric with a further label a number for each value of it; None: nobody can
# tell, and the metric is left out.
Value = float | Fraction | Mapping[str, float] | None


@dataclass(frozen=True)
class Readings:
    """The metrics of one configuration at one moment.

    Attributes:
        config: The configuration as it was named.
        dataset: Name of the data set; empty: there is none, or the configuration is wrong.
        account: Name of the account that pays; likewise.
        values: By name in `METRICS`; what is missing nobody can tell.
    """

    config: str
    dataset: str
    account: str
    values: Mapping[str, Value] = field(default_factory=dict)

    def of(self, audience: Audience) -> Iterator[tuple[Metric, dict[str, str], float]]:
        """Yields what an audience may read: the metric, its labels and its value."""
        for metric in METRICS:
            value = self.values.get(metric.name)
            if value is None or metric.audience not in ("public", audience):
                continue
            labels = {name: getattr(self, name) for name in metric.labels}
            parts = value.items() if isinstance(value, Mapping) else [("", value)]
            for part, number in parts:
                yield metric, labels | ({metric.by: part} if metric.by else {}), float(number)


def account_values(balance: Balance) -> dict[str, Value]:
    """Returns the metrics of an account."""
    return {
        "account_epsilon_spent": balance.spent_epsilon,
        "account_delta_spent": balance.spent_delta,
        "account_epsilon_remaining": balance.remaining_epsilon,
        "account_delta_remaining": balance.remaining_delta,
    }


def run_values(exit_code: int, ended_s: float, elapsed_s: float) -> dict[str, Value]:
    """Returns the metrics of how a run ended.

    Args:
        exit_code: Of the run.
        ended_s: When, in seconds since 1970 UTC.
        elapsed_s: Seconds that it took.
    """
    values: dict[str, Value] = {
        "release_last_attempt_timestamp_seconds": ended_s,
        "release_last_exit_code": exit_code,
        "release_last_duration_seconds": elapsed_s,
    }
    return values if exit_code else {**values, _SUCCESS: ended_s}


def registry_of(read: Callable[[], Readings], audience: Audience) -> CollectorRegistry:
    """Returns a registry of the metrics and of nothing else.

    What the library collects of every process, such as its memory and its processor time, follows
    the data: it is not among them.

    Args:
        read: Called whenever somebody asks for the metrics, in a thread of the asker.
        audience: Whose metrics are shown.
    """
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector

    class Readers(Collector):
        """Reads the metrics anew whenever somebody asks for them."""

        def collect(self) -> Iterator[Family]:
            families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
            for metric, labels, number in read().of(audience):
                if metric.name not in families:
                    kind = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
                    families[metric.name] = kind(
                        _PREFIX + metric.name, metric.meaning, labels=list(labels), unit=metric.unit
                    )
                families[metric.name].add_metric(list(labels.values()), number)
            yield from families.values()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Readers())
    return registry


def check_metrics(path: str) -> None:
    """Makes sure that a file of metrics can be written, before anything is spent.

    Raises:
        UsageError: Its name does not end as the collector wants it, or its folder is not there.
    """
    if not path.endswith(_ENDING):
        raise UsageError(
            f"metrics: {path!r} must end in {_ENDING}, as the collector reads no other files"
        )
    require_folder_of("metrics", path)


def note_metrics(path: str, readings: Readings, audience: Audience = "public") -> None:
    """Writes the file in place of the one before; a reader sees one of them, whole.

    A run that failed keeps the time of the last one that ended well, which the file before has.
    If it cannot be written, that is a warning: no release fails for it.

    Args:
        path: Where it is. Only its owner can read it where it has numbers of the data.
        readings: What to write.
        audience: Whose metrics are in it.
    """
    try:
        configs, succeeded_s = _before(Path(path))
        if configs - {readings.config}:
            _LOG.warning(
                "metrics: %s holds those of another configuration and stays as it is; give each "
                "configuration a file of its own", path,
            )  # fmt: skip
            return
        values = {_SUCCESS: succeeded_s, **readings.values}
        text = metrics_text(replace(readings, values=values), audience)
        # The exporter is another user.
        write_private(Path(path).absolute(), text, mode=0o644 if audience == "public" else 0o600)
    except (OSError, ValueError) as error:
        _LOG.warning("metrics: %s could not be written (%s)", path, type(error).__name__)


def metrics_text(readings: Readings, audience: Audience = "public") -> bytes:
    """Returns the metrics in Prometheus's text format, which the node exporter reads.

    It does not read OpenMetrics.
    """
    from prometheus_client import generate_latest

    return generate_latest(registry_of(lambda: readings, audience))


def _before(path: Path) -> tuple[set[str], float | None]:
    """Returns whose metrics a file has, and when a run last ended well; nothing if it is none."""
    from prometheus_client.parser import text_string_to_metric_families

    if not path.exists():
        return set(), None
    families = list(text_string_to_metric_families(path.read_text("utf-8")))
    samples = [sample for family in families for sample in family.samples]
    times = (sample.value for sample in samples if sample.name == _PREFIX + _SUCCESS)
    return {s.labels["config"] for s in samples if "config" in s.labels}, next(times, None)


Audience = Literal["public", "operator"]

OF_CONFIG = ("config", "dataset")


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: As others read it; it ends in its unit, if it has one.
        meaning: A sentence.
        labels: Names of its labels.
        audience: Who may read it.
        unit: Of OpenMetrics, in the plural; empty: it is a number of things.
        is_counter: Whether it only grows while the process runs; its name ends in `_total` then.
        by: A further label, of which every value has a number of its own; empty: there is none.
    """

    name: str
    meaning: str
    labels: tuple[str, ...] = OF_CONFIG
    audience: Audience = "public"
    unit: str = ""
    is_counter: bool = False
    by: str = ""


METRICS: tuple[Metric, ...] = tuple(
    Metric(**{**row, "labels": tuple(row.get("labels", OF_CONFIG))})
    for row in json.loads((resources.files(__package__) / "metrics.json").read_text("utf-8"))
)
"""Every metric, without `tracecloak_`, which all of their names begin with."""
