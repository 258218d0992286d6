"""The configuration: its schema and the code agree; what changes bytes changes the digest."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.release.config import (
    Columns,
    ReleaseConfig,
    json_schema,
    load,
    parse_where,
)
from tracecloak.pipelines.runners.flags import BEAM_FLAGS
from tracecloak.schemas.errors import UsageError

ROOT = Path(__file__).parents[3]
MINIMAL: dict[str, Any] = {"input": "a.csv", "method": "amun", "output": "out"}

GOOD: list[dict[str, Any]] = [
    MINIMAL,
    {**MINIMAL, "input": ["a.csv", "b.csv"], "formats": ["csv"], "release_id": "x"},
    {**MINIMAL, "params": {"guessing_advantage": 0.2, "mode": "filtering"}},
    {**MINIMAL, "params": {"start_precision_days": "authors", "saturated_epsilon": 0.7}},
    {**MINIMAL, "where": [{"column": "activity", "begins_with": "A_"}]},
    {**MINIMAL, "where": [{"column": "lifecycle", "equals": "complete"}]},
    {**MINIMAL, "columns": {"case_id": "c", "timestamp_unit": "ms", "time_zone": "Europe/Paris"}},
    {**MINIMAL, "header": ["a", "b"], "delimiter": ";", "max_error_ratio": 0},
]
BAD: list[dict[str, Any]] = [
    {},
    {**MINIMAL, "metod": "amun"},
    {**MINIMAL, "method": "nope"},
    {**MINIMAL, "params": {"guessing_advantage": 2}},
    {**MINIMAL, "params": {"epsilon": 1}},
    {**MINIMAL, "columns": {"case": "c"}},
    {**MINIMAL, "where": [{"equals": "x"}]},
    {**MINIMAL, "max_error_ratio": 1.5},
    {**MINIMAL, "shards": 0},
    {**MINIMAL, "columns": {"timestamp_unit": "ns"}},
]


WRITTEN = json.loads((ROOT / "schemas" / "files" / "release.schema.json").read_text())


def described(schema: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The keys with their descriptions, of the configuration and of all that it refers to."""
    parts = {"": schema, **schema["$defs"]}
    return {
        name: {key: found.get("description", "") for key, found in part["properties"].items()}
        for name, part in parts.items()
    }


def test_the_json_schema_in_the_tree_is_that_of_the_code() -> None:
    """By its keys: how a library words a type may change between its versions."""
    assert described(WRITTEN) == described(json_schema()), "run: make schema"


@pytest.mark.parametrize("schema", [WRITTEN, json_schema()], ids=["in the tree", "of the code"])
@pytest.mark.parametrize("body", GOOD)
def test_what_the_schema_takes_the_code_takes(body: dict[str, Any], schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(schema).validate(body)
    _ = ReleaseConfig(**body).method_params


@pytest.mark.parametrize("schema", [WRITTEN, json_schema()], ids=["in the tree", "of the code"])
@pytest.mark.parametrize("body", BAD)
def test_what_the_schema_refuses_the_code_refuses(
    body: dict[str, Any], schema: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(body)
    config = tmp_path / "c.yaml"
    config.write_text(yaml.safe_dump(body))
    with pytest.raises(UsageError):
        load(str(config), {})


def test_no_option_of_ours_is_one_of_beams() -> None:
    from tracecloak.anonymizers.registry import METHODS
    from tracecloak.pipelines.release.config import Columns

    ours = {*ReleaseConfig.model_fields, *Columns.model_fields} - {"runner"}
    for method in METHODS.values():
        ours |= set(method.Params.model_fields)
    assert not {f"--{name}" for name in ours} & BEAM_FLAGS


def test_the_digest_follows_what_changes_bytes_and_nothing_else() -> None:
    base = ReleaseConfig(**MINIMAL)
    for change in (
        {"params": {"guessing_advantage": 0.2}},
        {"columns": {"time_zone": "Asia/Tokyo"}},
        {"where": [{"column": "a", "equals": "b"}]},
        {"formats": ["csv"]},
        {"parts": 3},
        {"encoding": "latin-1"},
    ):
        assert ReleaseConfig(**{**MINIMAL, **change}).digest != base.digest
    for change in ({"output": "b"}, {"runner": "InMemory"}, {"shards": 3}, {"max_error_ratio": 1}):
        assert ReleaseConfig(**{**MINIMAL, **change}).digest == base.digest
    # A profile and its choices spelled out are one configuration in effect, but not one request.
    spelled = {"params": {"compression": "noise"}}
    assert ReleaseConfig(**{**MINIMAL, **spelled}).digest == base.digest


@pytest.mark.parametrize(
    ("text", "column", "equals", "begins_with"),
    [
        ("lifecycle = complete", "lifecycle", "complete", None),
        ("activity^=A_", "activity", None, "A_"),
        ("case:type = a, b", "case:type", "a, b", None),
        ("x = a=b", "x", "a=b", None),
    ],
)
def test_filters_are_read_from_text(
    text: str, column: str, equals: str | None, begins_with: str | None
) -> None:
    found = parse_where(text)
    assert (found["column"], found.get("equals"), found.get("begins_with")) == (
        column,
        equals,
        begins_with,
    )


@pytest.mark.parametrize("name", sorted(METHODS))
def test_no_parameter_of_a_method_has_the_name_of_another_flag(name: str) -> None:
    params = set(METHODS[name].Params.model_fields)
    assert not params & (set(ReleaseConfig.model_fields) | set(Columns.model_fields))


def test_names_in_place_of_the_vocabularys_file_are_told_how_to_be_given() -> None:
    flags = {"input": "x.csv", "output": "y", "method": "private-dfg", "epsilon": "1"}
    with pytest.raises(UsageError, match="or give their names as JSON"):
        load(None, {**flags, "vocabulary": "register,triage"})
    found = load(None, {**flags, "vocabulary": ["register", "triage"]})
    assert found.params["vocabulary"] == ["register", "triage"]
