"""What a release and a stream are told apart by: every key is in the digest, or says why not."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any, ClassVar

import pydantic
import pytest

from tests.support.examples import examples_of
from tests.support.keys import release_key
from tests.support.logs import trace_batch
from tests.support.tiers import each_row
from tracecloak.anonymizers.contract.case_digests import noise_digest
from tracecloak.anonymizers.logs.params import GENERATORS
from tracecloak.anonymizers.registry import METHODS, method_named
from tracecloak.anonymizers.streams import log_steps
from tracecloak.anonymizers.streams.dfg_steps import DfgSteps
from tracecloak.anonymizers.variants.generator import VariantGenerator
from tracecloak.anonymizers.variants.sparse_histogram import SparseHistogram
from tracecloak.pipelines.configuration import config as release_module
from tracecloak.pipelines.configuration.config import About, Columns, ReleaseConfig, Where
from tracecloak.pipelines.configuration.plan import ReleasePlan, read_plan, resolve
from tracecloak.pipelines.configuration.shared_keys import ScheduleConfig
from tracecloak.pipelines.embedded.anonymize import AnonymizeEventLog
from tracecloak.pipelines.stream import config as stream_module
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import _origin
from tracecloak.pipelines.stream.plan import digest_of as stream_digest
from tracecloak.pipelines.stream.plan import resolve as stream_plan
from tracecloak.schemas import plugins
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.streams.stream_caps import ClosedCases

# --- Every key ------------------------------------------------------------------------------------

SCHEDULE = {
    "dataset": "ward", "origin": "2026-01-01", "period": "month", "max_lifetime": "90d",
    "horizon": 12,
}  # fmt: skip
RELEASE: dict[str, Any] = {
    "log": "a.csv", "output": "out", "method": "private-dfg",
    "params": {"epsilon": "1", "vocabulary": ["A", "B"]},
    "columns": {"individual_id": "person"},
}  # fmt: skip
STREAM: dict[str, Any] = {
    "release_id": "r", "epoch": "e", "input_topic": "kafka://a:1/in", "output": "out",
    "epsilon": "1", "vocabulary": ["A", "B"], "period": "1h", "horizon": 24,
    "start": "2026-11-22", "gap": "30m", "max_lifetime": "1d",
}  # fmt: skip
REGISTRY = {"schema": "confluent-avro", "schema_registry": "http://a:1"}
PEOPLE = {"columns": {"individual_id": "person"}}

LOG_PARAMS = {"first_date": "2026-01-01", "last_date": "2026-02-01"}
# Keys that are in no digest: the file's own digest and the key of the noise have the first two; of
# the others, why a change changes no byte.
BESIDE_IT = {
    "by the digest of its file": {"log"},
    "in the key of the noise by itself": {"release_id", "epoch"},
    "says where files are, and not what is in them": {
        "output", "staging_area", "dead_letter", "key_store", "worker_keys", "key_encryption_key",
        "database", "book", "book_key", "input_subscription", "input_topic", "kafka_properties",
        "schema_registry", "schema_registry_properties", "output_table", "output_topic",
        "reject_topic",
    },
    "says who pays, or who may, and not for what; the data set of a schedule is part of that": {
        "ledger", "new_ledger", "account", "accounts", "dataset", "deployment_key",
        "cases_kept_days", "kafka_token",
    },
    "says what runs it, and a release is the same bytes whatever runs it": {
        "shards", "jobs", "runner", "memory", "workers",
    },
    "decides before the release whether there is one": {
        "expected_cases", "expected_variants", "even_if_unusable",
    },
    "what is signed is there before": {"sign"},
    "says when a step appears, or that the input ends, not what is in it": {
        "clock_topic", "publish_on_drain", "stuck_after",
    },
    "says what whoever is on call is told": {
        "operator_port", "operator_address", "operator_names", "health_file", "metrics",
        "metrics_for",
    },
}  # fmt: skip
# Of each key a change of it.
OF_BOTH: Mapping[str, Mapping[str, Any]] = {
    **{name: {name: "x"} for name in (
        "output", "release_id", "staging_area", "dead_letter", "key_store", "worker_keys",
        "account", "accounts", "dataset",
    )},
    "where": {"where": [{"column": "a", "equals": "b"}]},
    "key_encryption_key": {"key_encryption_key": "env:X"},
    "ledger": {"ledger": "sqlite:///x"},
    "new_ledger": {"new_ledger": True},
    "shards": {"shards": 3},
}  # fmt: skip
RELEASE_CHANGES: Mapping[str, Mapping[str, Any]] = {
    **OF_BOTH,
    **{name: {name: value} for name, value in {
        "log": "b.csv", "query": "SELECT 1", "database": "env:X", "input_format": "csv",
        "delimiter": ";", "encoding": "latin-1", "header": ["a", "b"], "quote_char": "none",
        "escape_char": "\\", "skip_lines": 3, "comment": "#", "unnamed_traces": "digest",
        "int96_timestamps": "local", "columns": {"individual_id": "other"}, "rename": {"a": "A"},
        "drop_duplicates": True, "method": "variant-histogram", "formats": ["csv"],
        "params": {"epsilon": "2", "vocabulary": ["A", "B"]}, "page": "shared",
        "about": {"title": "Ward"}, "max_error_ratio": 0.5, "deployment_key": "env:X",
        "book": "x", "book_key": "env:X", "jobs": 2, "cases_kept_days": 0, "expected_cases": 9,
        "even_if_unusable": True, "sign": "key.pem", "runner": "InMemory", "memory": "1GiB",
        "workers": 3, "parts": 3,
    }.items()},
    "schedule": {"schedule": SCHEDULE, "window": "2026-01"},
    "window": {"schedule": SCHEDULE, "window": "2026-02"},
    "expected_variants": {"expected_cases": 9, "expected_variants": 5},
}  # fmt: skip
STREAM_CHANGES: Mapping[str, Mapping[str, Any]] = {
    **OF_BOTH,
    **{name: {name: value} for name, value in {
        "epoch": "other", "input_topic": "kafka://b:1/in", "kafka_properties": "x",
        "kafka_token": "msk", "clock_topic": "x", "columns": {"activity": "what"},
        "event_id": "x", "id_attribute": "x", "time_attribute": "x", "clock": "publishing",
        "product": "variants", "view": "total", "epsilon": "2", "delta": "1e-7", "max_cases": 9,
        "vocabulary": ["A", "C"], "closed_vocabulary": True, "max_trace_length": 51,
        "l2_clip": "3", "period": "2h", "horizon": 25, "start": "2026-11-23", "gap": "31m",
        "max_lifetime": "2d", "max_disorder": "1s", "end_activity": "A", "tombstone": "8d",
        "release_delay": "61s", "publish_on_drain": True, "formats": ["json"],
        "output_table": "delta:/tables/steps", "output_topic": "kafka://a:1/out",
        "reject_topic": "projects/p/topics/t", "operator_port": 9464,
        "operator_address": "0.0.0.0", "operator_names": "ward.monitoring.svc",
        "health_file": "x", "metrics": "x.prom", "metrics_for": "operator", "stuck_after": "9m",
        "runner": "FlinkRunner",
    }.items()},
    "input_subscription": {
        "input_topic": None, "input_subscription": "projects/p/subscriptions/s",
    },
    "inputs": {"input_topic": None, "inputs": [{"input_topic": "kafka://b:1/in"}]},
    "message_schema": {"schema": "json"},
    "schema_registry": REGISTRY,
    "schema_registry_properties": {**REGISTRY, "schema_registry_properties": "x"},
    "operation": {"operation": "op", "operation_events": ["c"]},
    "operation_events": {"operation": "op", "operation_events": ["c", "r"]},
    "sliding_steps": {"view": "sliding", "sliding_steps": 3},
    "allow_large_delta": {"delta": "1e-4", "max_cases": 9, "allow_large_delta": True},
    "guarantee": {**PEOPLE, "guarantee": "w_event", "w_event_steps": 3},
    "w_event_steps": {**PEOPLE, "guarantee": "w_event", "w_event_steps": 4},
    "max_cases_per_individual": {**PEOPLE, "max_cases_per_individual": 2},
    "log_params": {"product": "log", "log_params": LOG_PARAMS},
}  # fmt: skip


def release(**changes: Any) -> ReleasePlan:
    return resolve(ReleaseConfig(**{**RELEASE, **changes})).of_named_window()


def stream(**changes: Any) -> StreamConfig:
    return StreamConfig(**{**STREAM, **changes})


def digest(**changes: Any) -> str:
    return stream_digest(stream(**changes))


@pytest.mark.parametrize(
    ("kind", "changes", "in_digest"),
    [
        (ReleaseConfig, RELEASE_CHANGES, release_module.IN_DIGEST),
        (StreamConfig, STREAM_CHANGES, stream_module.IN_DIGEST),
    ],
)
def test_every_key_is_in_the_digest_or_says_why_not(
    kind: type[pydantic.BaseModel], changes: Mapping[str, Any], in_digest: tuple[str, ...]
) -> None:
    assert set(changes) == set(kind.model_fields)
    assert set(changes) - set[str]().union(*BESIDE_IT.values()) == set(in_digest)


def test_a_key_of_a_release_changes_the_digest_as_the_table_says() -> None:
    for name, change in RELEASE_CHANGES.items():
        before = release(schedule=SCHEDULE, window="2026-01") if name == "window" else release()
        after = release(**change)
        assert (after.digest != before.digest) == (name in release_module.IN_DIGEST), name


def test_a_key_of_a_stream_changes_the_digest_as_the_table_says() -> None:
    beside: Mapping[str, Mapping[str, Any]] = {
        "guarantee": PEOPLE,
        "w_event_steps": {**PEOPLE, "guarantee": "w_event", "w_event_steps": 3},
        "max_cases_per_individual": PEOPLE,
        "schema_registry": {**REGISTRY, "schema_registry": "http://b:1"},
        "schema_registry_properties": REGISTRY,
        "operation": {"operation": "other", "operation_events": ["c"]},
        "operation_events": {"operation": "op", "operation_events": ["c"]},
        "log_params": {
            "product": "log", "log_params": {**LOG_PARAMS, "last_date": "2026-03-01"},
        },
    }  # fmt: skip
    for name, change in STREAM_CHANGES.items():
        before, after = digest(**beside.get(name, {})), digest(**change)
        assert (after != before) == (name in stream_module.IN_DIGEST), name


PARTS: Mapping[type[pydantic.BaseModel], tuple[str, Mapping[str, Any]]] = {
    Columns: (
        "columns",
        {
            **dict.fromkeys(
                ("case_id", "activity", "timestamp", "individual_id", "resource"), "x"
            ),
            "lifecycle": "x", "start_timestamp": "x", "order": "x",
            "time_zone": "Asia/Tokyo", "timestamp_format": "%Y", "timestamp_unit": "s",
            "whole_numbers": ["case_id"], "start_transitions": ["x"], "complete_transitions": ["x"],
        },
    ),
    About: (
        "about",
        dict.fromkeys(
            ("title", "data_subjects", "data_period", "controller", "contact", "purpose"), "x"
        ),
    ),
}  # fmt: skip


@each_row("kind", PARTS)
def test_every_key_of_a_section_is_in_the_digest(kind: type[pydantic.BaseModel]) -> None:
    section, changes = PARTS[kind]
    assert set(changes) == set(kind.model_fields)
    # Transitions need a lifecycle, whose starts private-log releases.
    usual = {"lifecycle": "phase"} if kind is Columns else {}
    digests = {
        release(method="private-log", **{section: {**usual, **change}}).digest
        for change in [{}, *({name: value} for name, value in changes.items())]
    }
    assert len(digests) == len(changes) + 1


def test_every_key_of_a_filter_and_of_a_schedule_is_in_the_digest() -> None:
    signs = set(Where.model_fields) - {"column"}
    filters = [{"column": "x", sign: "1"} for sign in signs] + [{"column": "y", "equals": "1"}]
    assert len({release(where=[one]).digest for one in filters}) == len(filters) == 7
    changes: dict[str, Any] = {
        "dataset": "x", "origin": "2025-12-01", "period": "2 months", "time_zone": "Asia/Tokyo",
        "by": "first_event", "max_lifetime": "91d", "gap": "30d", "end_activity": "A",
        "horizon": 13,
    }  # fmt: skip
    # When a window is due, and which files need not be opened: not what is in it.
    not_in_it = {"release_delay", "partition", "partition_spread"}
    assert {*changes, *not_in_it} == set(ScheduleConfig.model_fields)
    digests = set()
    for change in [{}, *({name: value} for name, value in changes.items())]:
        plan = release(schedule={**SCHEDULE, **change})
        assert plan.schedule is not None
        digests.add(plan.of_window(plan.schedule.numbered(1)).digest)
    assert len(digests) == 1 + len(changes)


# --- Keys at their defaults -----------------------------------------------------------------------


def _defaults(kind: type[pydantic.BaseModel]) -> dict[str, Any]:
    """The defaults of a model's fields as somebody would write them."""
    found = kind.model_construct().model_dump(mode="json", warnings=False)
    return {
        name: found[name] for name, field in kind.model_fields.items() if not field.is_required()
    }


# What a method makes of other parameters, and has in their place from then on.
FILLED_IN = {"amun-rigorous": {"epsilon"}, "pripel-rigorous": {"max_trace_length"}}


@each_row("name", METHODS)
def test_what_is_given_as_by_default_is_as_if_it_were_left_out(name: str) -> None:
    method = METHODS[name]
    later = pydantic.create_model("Later", __base__=method.Params, min_count=(int, 0))
    for example in examples_of(method):
        params = method.Params(**example)
        written = {**_defaults(method.Params), **params.model_dump(mode="json")}
        assert method.Params(**written).given() == params.given()
        assert set(params.given()) - set(example) <= FILLED_IN.get(name, set())
        assert later(**example).given() == params.given()
        assert later(**example, min_count=0).given() == params.given()
        assert later(**example, min_count=1).given() == {**params.given(), "min_count": 1}


def test_the_defaults_of_a_part_are_given_with_it() -> None:
    params: dict[str, Any] = {"epsilon": "1", "max_prefix_length": 3, "p_harmful": 1}

    def given(**more: Any) -> Any:
        attributes = {"case:age": {"bounds": [0, 40], **more}}
        return METHODS["pripel"].Params(**params, attributes=attributes).given()["attributes"]

    assert given() == given(n_bins=20) == {
        "case:age": {"bounds": [0, 40], "n_bins": 20, "whole": False}
    }  # fmt: skip
    assert given(n_bins=40) != given()


def test_a_release_and_a_stream_have_the_digest_of_what_is_not_as_by_default() -> None:
    kinds: list[tuple[Any, dict[str, Any], Any]] = [
        (ReleaseConfig, RELEASE, lambda config: resolve(config).digest),
        (StreamConfig, STREAM, stream_digest),
    ]
    for kind, body, digest_of in kinds:
        later: Any = pydantic.create_model("Later", __base__=kind, later=(int, 7))
        assert digest_of(later(**body)) == digest_of(kind(**body))
        defaults = {n: v for n, v in _defaults(kind).items() if v is not None and n not in body}
        for name in {"message_schema", "max_disorder", "release_delay"} & set(defaults):
            del defaults[name]  # as they are dumped nobody can write them
        assert len(defaults) > 10
        assert digest_of(kind(**{**body, **defaults})) == digest_of(kind(**body))


_OF_LOG: dict[str, Any] = {
    "epsilon": "1", "vocabulary": ["A", "B"], "max_trace_length": 5, "first_date": "2026-01-01",
    "last_date": "2026-02-01",
}  # fmt: skip


@each_row(
    ("method", "one", "other"),
    [
        ("private-log", {"epsilon": 1}, {"epsilon": "1.0"}),
        ("private-log", {"delta": "1e-7"}, {"delta": 0.0000001}),
        ("private-log", {"budget_split": "variants=0.5,starts=0.2"},
         {"budget_split": {"starts": 0.20, "variants": ".5"}}),
        ("private-log", {"working_days": "tue,mon,mon"}, {"working_days": ["mon", "tue"]}),
        ("private-log", {"working_days": []}, {}),
        ("private-log", {"working_days": "mon,tue,wed,thu,fri,sat,sun"}, {}),
        ("private-log", {"working_hours": "08-18"}, {"working_hours": "8-18"}),
        ("private-log", {"working_hours": "0-24"}, {}),
        ("private-log", {"holidays": ["2026-01-02", "2026-01-01"]},
         {"holidays": "2026-01-01,2026-01-02,2026-01-01"}),
        ("private-log", {"attributes": {"case:x": {"bounds": [0, 10]}}},
         {"attributes": {"case:x": {"bounds": [0.0, 10.0], "whole": False}}}),
        ("private-log", {"attributes": {"x": {"values": ["1"]}, "y": {"values": ["2"]}}},
         {"attributes": {"y": {"values": [2]}, "x": {"values": [1]}}}),
        ("amun", {"guessing_advantage": 0.4}, {"guessing_advantage": "0.40"}),
        ("amun", {"log_start": "2026-01-01T00:00:00Z"}, {"log_start": "2026-01-01T02:00:00+02:00"}),
    ],
)  # fmt: skip
def test_two_spellings_of_a_value_are_one(
    method: str, one: dict[str, Any], other: dict[str, Any]
) -> None:
    first = _OF_LOG if method == "private-log" else {}
    configs = [release(method=method, params={**first, **more}) for more in (one, other)]
    assert configs[0].digest == configs[1].digest
    assert configs[0].params == configs[1].params
    by_default = release(method=method, params=first).digest
    assert (configs[0].digest == by_default) == (one in ({"epsilon": 1}, {}) or other == {})


def test_defaults_that_follow_from_other_keys_of_a_stream_may_be_given() -> None:
    assert digest(max_trace_length=12) == digest(max_trace_length=12, l2_clip="4.2")
    assert digest(max_trace_length=12) != digest(max_trace_length=12, l2_clip="4.3")
    assert digest(**PEOPLE) == digest(**PEOPLE, max_cases_per_individual=1)
    assert digest() == digest(formats=["json", "parquet"])
    dates = {"first_date": "2026-01-01", "last_date": "2026-02-01"}
    logs = [
        digest(product="log", log_params={**dates, **more})
        for more in ({}, {"length_quantile": "0.950"}, {"length_quantile": "0.9"})
    ]
    assert logs[0] == logs[1] != logs[2]


def test_one_format_of_stamps_is_the_same_release_however_it_is_given() -> None:
    """Their order counts, as the first that fits reads a stamp."""
    given = ("%Y", ["%Y"], ["%Y", "%y"], ["%y", "%Y"])
    digests = [release(columns={"timestamp_format": one}).digest for one in given]
    assert digests[0] == digests[1] and len(set(digests)) == 3


# --- Versions -------------------------------------------------------------------------------------


def test_another_version_is_the_same_configuration_and_other_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config, steps = release(method="amun", params={}, columns={}), stream_plan(stream())
    before = (config.digest, steps.digest, config.noise_digest, steps.name.noise_digest)
    assert len(set(before)) == 4
    monkeypatch.setattr(type(method_named("amun")), "version", 2)
    monkeypatch.setattr(DfgSteps, "version", 2)
    steps = stream_plan(stream())  # what follows from a configuration is computed once
    after = (config.digest, steps.digest, config.noise_digest, steps.name.noise_digest)
    assert after[:2] == before[:2]
    assert not set(after[2:]) & set(before[2:])
    assert config.noise_digest == noise_digest(config.digest, 2)


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> type[VariantGenerator]:
    """A generator of variants of another distribution."""

    class Mine(SparseHistogram):
        name: ClassVar[str] = "mine"

    module: Any = ModuleType("kites")
    module.Mine = Mine
    monkeypatch.setitem(sys.modules, "kites", module)
    point = EntryPoint("mine", "kites:Mine", GENERATORS.group)
    monkeypatch.setattr(plugins, "_entry_points", lambda: (point,))
    monkeypatch.setattr(GENERATORS, "_made", dict(GENERATORS._made))
    return Mine


WITH_MINE: dict[str, Any] = {
    "method": "private-log",
    "params": {
        "epsilon": "8", "vocabulary": ["A", "B", "C"], "max_trace_length": 4, "variants": "mine",
        "first_date": "2020-01-01", "last_date": "2020-12-31",
    },
}  # fmt: skip


def test_the_version_of_a_generator_reaches_every_noise_that_it_is_part_of(
    mine: type[VariantGenerator], monkeypatch: pytest.MonkeyPatch
) -> None:
    of_log = {n: WITH_MINE["params"][n] for n in ("variants", "first_date", "last_date")}
    steps = stream_plan(stream(product="log", log_params=of_log))
    drawn: list[str] = []

    def anonymised(*given: Any) -> Any:
        drawn.append(given[5])
        raise InterruptedError

    monkeypatch.setattr(log_steps, "anonymise", anonymised)
    counted = Statistics({"cases": ClosedCases(trace_batch({"c": "A B"}))})
    origins = []
    for version in (1, 2):
        monkeypatch.setattr(mine, "version", version, raising=False)
        with pytest.raises(InterruptedError):
            steps.product.publish(0, counted, (), steps.name, release_key(1))
        made = AnonymizeEventLog("private-log", WITH_MINE["params"], release_id="r")
        drawn.append(made._plan.noise_digest)
        origins.append(_origin(steps))
    assert len(set(drawn)) == 4
    assert not origins[0].is_drawn_alike(origins[1])


@each_row(
    ("keys", "is_bound"),
    [
        ({}, False),
        ({"log": "log.JSONL.gz"}, True),
        ({"input_format": "jsonl"}, True),
        ({"time_zone": "Europe/Berlin"}, True),
        ({"timestamp_format": "%d.%m.%Y"}, True),
        ({"where": ["n = 5"]}, True),
        ({"log": "frame://events", "time_zone": "Europe/Berlin"}, False),
    ],
)
def test_noise_is_bound_to_how_files_are_read_where_that_changed(
    keys: dict[str, Any], is_bound: bool
) -> None:
    usual = {"method": "variant-histogram", "epsilon": "1", "log": "log.csv", "output": "out"}
    plan = read_plan(None, {**usual, "release_id": "x", **keys})
    inner, version = plan.method.inner_versions(plan.params), plan.method.version
    assert (plan.inner_versions == inner) != is_bound
    assert (plan.noise_digest == noise_digest(plan.digest, version, inner)) != is_bound
