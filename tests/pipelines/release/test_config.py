"""The configuration: its schema and the code agree; flags as texts; schedules, groups of names."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import jsonschema
import pydantic
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.tiers import each_row
from tracecloak.anonymizers.registry import METHODS, method_named
from tracecloak.pipelines.configuration.config import (
    Columns,
    ReleaseConfig,
    json_schema,
    parse_where,
)
from tracecloak.pipelines.configuration.flags import flag_text, given_value, read_groups
from tracecloak.pipelines.configuration.plan import load, resolve
from tracecloak.pipelines.configuration.shared_keys import (
    ScheduleConfig,
    check_composes,
    check_ends_are_read,
)
from tracecloak.pipelines.runners.flags import beam_flags
from tracecloak.pipelines.stream.config import stream_json_schema
from tracecloak.schemas.calendar.local_time import DAY_US
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import Guarantee
from tracecloak.schemas.windows import Schedule

ROOT = Path(__file__).parents[3]
MINIMAL: dict[str, Any] = {"log": "a.csv", "method": "amun", "output": "out"}

GOOD: list[dict[str, Any]] = [
    MINIMAL,
    {**MINIMAL, "log": ["a.csv", "b.csv"], "formats": ["csv"], "release_id": "x"},
    {**MINIMAL, "params": {"guessing_advantage": 0.2, "mode": "filtering"}},
    {**MINIMAL, "params": {"start_precision_days": "authors", "saturated_epsilon": 0.7}},
    {**MINIMAL, "where": [{"column": "activity", "begins_with": "A_"}]},
    {**MINIMAL, "where": [{"column": "lifecycle", "equals": "complete"}]},
    {**MINIMAL, "columns": {"case_id": "c", "timestamp_unit": "ms", "time_zone": "Europe/Paris"}},
    {**MINIMAL, "header": ["a", "b"], "delimiter": ";", "max_error_ratio": 0},
    {**MINIMAL, "quote_char": "none", "escape_char": "\\", "skip_lines": 3, "comment": "//"},
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
    {**MINIMAL, "skip_lines": -1},
    {**MINIMAL, "columns": {"timestamp_unit": "ps"}},
]


def written_schema(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "schemas" / "files" / f"{name}.schema.json").read_text())


WRITTEN = written_schema("release")


def described(schema: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The keys with their descriptions, of the configuration and of all that it refers to."""
    parts = {"": schema, **schema.get("$defs", {})}
    return {
        name: {key: found.get("description", "") for key, found in part["properties"].items()}
        for name, part in parts.items()
        if "properties" in part
    }


def test_the_json_schemas_in_the_tree_are_those_of_the_code() -> None:
    """By their keys: how a library words a type may change between its versions."""
    for name, schema in (("release", json_schema()), ("stream", stream_json_schema())):
        assert described(written_schema(name)) == described(schema), "run: make schema"


@each_row("body", GOOD)
def test_what_the_schema_takes_the_code_takes(body: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(WRITTEN).validate(body)
    _ = ReleaseConfig(**body).method_params


@each_row("body", BAD)
def test_what_the_schema_refuses_the_code_refuses(body: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(WRITTEN).validate(body)
    config = tmp_path / "c.yaml"
    config.write_text(yaml.safe_dump(body))
    with pytest.raises(UsageError):
        load(str(config), {})


@each_row(
    ("header", "delimiter", "names"),
    [
        ("Vorgang;Schritt;Zeitpunkt", ";", ("Vorgang", "Schritt", "Zeitpunkt")),
        ("a\tb, c\t", "\t", ("a", "b, c", "")),
        ("a, b", ";", ("a", "b")),
        ("a, b;c", ",", ("a", "b;c")),
        ("a;b,c", None, ("a;b", "c")),
        (["a;b", "c,d"], ";", ("a;b", "c,d")),
    ],
)
def test_the_names_of_columns_are_separated_as_in_the_file(
    header: Any, delimiter: str | None, names: tuple[str, ...]
) -> None:
    assert ReleaseConfig(**MINIMAL, header=header, delimiter=delimiter).header == names


def test_yaml_takes_values_for_numbers_and_dates_and_they_are_what_stands_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "release.yaml"
    path.write_text(
        yaml.safe_dump(MINIMAL) + "where:\n"
        "  - {column: day, at_least: 2026-11-01, below: 2026-12-01T06:00:00+01:00}\n"
        "  - {column: n, above: 7, at_most: 7.5}\n"
        "  - {column: n, equals: 5}\n"
        "  - {column: n, equals: [5.0, 1.5, 05, '05', \"'5'\", true, 2026-11-01, x]}\n"
        "  - {column: n, equals: \"5, 'a, b', c\"}\n"
    )
    day, n, *others = load(str(path), {}).where
    assert (day.at_least, day.below) == ("2026-11-01", "2026-12-01T06:00:00+01:00")
    assert (n.above, n.at_most) == ("7", "7.5")
    assert day.sentence_part == "is >= 2026-11-01 and < 2026-12-01T06:00:00+01:00"
    assert [one.equals for one in others] == [
        ("5",), ("5", "1.5", "5", "05", "'5'", "true", "2026-11-01", "x"), ("5", "'a, b'", "c"),
    ]  # fmt: skip


@each_row(
    ("text", "literals"),
    [
        ("n = 5, 6", ("5", "6")), ("n = 'a, b' , c", ("'a, b'", "c")), ('n = "5"', ('"5"',)),
        ("n = O'Neil, 'tis", ("O'Neil", "'tis")), ("n = 'a' b, c", ("'a' b", "c")), ("n = ", ()),
    ],
)  # fmt: skip
def test_a_comma_in_quotes_is_part_of_a_literal(text: str, literals: tuple[str, ...]) -> None:
    assert ReleaseConfig(**MINIMAL, where=[parse_where(text)]).where[0].equals == literals


# The same rule as one expression, which takes cubic time in the number of blanks.
_FILTER = re.compile(r"^\s*(?P<column>.+?)\s*(?P<sign>\^=|>=|<=|!=|==|=|>|<)\s*(?P<value>.*?)\s*$")


@settings(deadline=None)
@given(st.text(st.sampled_from("ab^=<>! \t\u2003"), max_size=9))
@example(" = b")
@example("a != b")
@example("a == b")
def test_a_filter_is_a_column_a_sign_and_a_value(text: str) -> None:
    match = _FILTER.match(text)
    if match is None or not match["column"].strip() or match["sign"] in ("!=", "=="):
        with pytest.raises(UsageError, match="where must be"):
            parse_where(text)
    else:
        meaning = {"=": "equals", "^=": "begins_with", ">=": "at_least", ">": "above"}
        meaning |= {"<=": "at_most", "<": "below"}
        assert parse_where(text) == {
            "column": match["column"],
            meaning[match["sign"]]: match["value"],
        }


@each_row("name", sorted(METHODS))
def test_no_parameter_of_a_method_has_the_name_of_another_flag(name: str) -> None:
    params = set(METHODS[name].Params.model_fields)
    ours = {*ReleaseConfig.model_fields, *Columns.model_fields}
    # Two published methods had a query before a log could be one's result. With them the flag is
    # theirs, and the other stands in the configuration file, as the page on queries says.
    assert params & ours == ({"query"} if name in ("pripel", "sapa") else set())
    assert not {f"--{one}" for one in (params | ours) - {"runner"}} & beam_flags()


# --- values as texts of flags and back ------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)  # fmt: skip


class Some(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(use_attribute_docstrings=True)

    names: tuple[str, ...] | None = None
    """Names."""
    parts: dict[str, Any] = {"a": 1}
    """Parts."""


FIELDS = Some.model_fields


@given(st.lists(st.text()), st.dictionaries(st.text(), JSON))
def test_texts_and_mappings_come_back_from_their_flags(
    names: list[str], parts: dict[str, Any]
) -> None:
    for name, value in (("names", names), ("parts", parts)):
        assert given_value(name, flag_text(value), FIELDS[name]) == value


# --- the file of public groups -------------------------------------------------------------------

GROUPS = {"A1": "A", "A2": "A", "B, one": "B"}


def written(folder: Path, text: str, name: str = "groups.csv") -> str:
    path = folder / name
    path.write_bytes(text.encode())
    return str(path)


@each_row(
    "text",
    [
        'activity,group\nA1,A\nA2,A\n"B, one",B\n',
        '\ufeffactivity,group\r\nA1,A\r\n\r\nA2,A\r\n"B, one",B',
        'group,activity\nA,A1\nA,A2\nB,"B, one"\n',
        '{"A1": "A", "A2": "A", "B, one": "B"}',
        '\n {"A1": "A", "A2": "A", "B, one": "B"}\n',
    ],
)
def test_csv_and_json_say_the_same(text: str, tmp_path: Path) -> None:
    assert read_groups(written(tmp_path, text)) == GROUPS


@each_row(
    ("text", "said"),
    [
        ("", "columns activity and group"),
        ("activity,grp\nA1,A\n", "columns activity and group"),
        ("activity,group,group\nA1,A,B\n", "each once"),
        ("activity,group\n", "has no activity"),
        ("activity,group\nA1\n", "line 2 .* as many columns"),
        ("activity,group\nA1,A\nA1,B\n", "line 3 .* names an activity again"),
        ('activity,group\n"A1,A\n', "line 2"),
        ('{"A1": 3}', "an object of the group"),
        ('{"A1": "A", "A1": "B"}', "twice"),
        ("{", "groups"),
    ],
)
def test_what_is_no_file_of_groups_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        read_groups(written(tmp_path, text))


def test_the_flag_names_the_file_and_the_operator_is_told_of_names_that_do_not_match(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = written(tmp_path, "A1\nA2\nC\n", "names.txt")
    groups = written(tmp_path, "activity,group,note\nA1,A,x\nA2,A,\ngone,A,\n")
    with caplog.at_level(logging.WARNING, logger="tracecloak.operator"):
        config = load(
            None,
            {
                "method": "joint-variants", "log": "log.csv", "output": str(tmp_path),
                "release_id": "r", "epsilon": "1", "vocabulary": names, "groups": groups,
            },
        )  # fmt: skip
    assert config.params["groups"] == {"A1": "A", "A2": "A", "gone": "A"}
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert "the columns note are not read" in text
    assert "a group by itself is 'C'" in text and "'gone', which no declared activity is" in text


# --- the section `schedule` -----------------------------------------------------------------------

LEAST: dict[str, Any] = {
    "origin": "2026-01-01", "period": "month", "max_lifetime": "90d", "horizon": 24,
}  # fmt: skip


def loaded(folder: Path, schedule: str | dict[str, Any], **keys: Any) -> ReleaseConfig:
    """The configuration of a file that has this section, as a mapping or as YAML."""
    body = {k: v for k, v in {**MINIMAL, "dataset": "visits", **keys}.items() if v is not None}
    section = schedule if isinstance(schedule, str) else yaml.safe_dump(schedule)
    indented = "".join(f"  {line}\n" for line in section.splitlines())
    path = folder / "release.yaml"
    path.write_text(f"{yaml.safe_dump(body)}schedule:\n{indented}")
    return load(str(path), {})


def test_what_a_file_says_becomes_a_schedule(tmp_path: Path) -> None:
    text = """
origin: 2026-01-01
period: week
time_zone: Europe/Amsterdam
max_lifetime: 90d
gap: 36h
end_activity: Discharge home
release_delay: 2d
horizon: 52
partition: day
partition_spread: 3d
"""
    config = loaded(tmp_path, text)
    assert resolve(config).schedule == Schedule(
        "visits", "2026-01-01", "week", "Europe/Amsterdam", "close", 90 * DAY_US, 3 * DAY_US // 2,
        ("Discharge home",), 2 * DAY_US, 52,
    )  # fmt: skip
    assert config.schedule is not None
    assert (config.schedule.partition, config.schedule.partition_spread) == ("day", 3 * DAY_US)


@each_row(
    ("changes", "keys", "said"),
    [
        ({}, {"dataset": None}, r"schedule\.dataset: required"),
        ({"dataset": "claims"}, {}, r"schedule\.dataset is 'claims', and dataset .* 'visits'"),
        ({"max_lifetime": None}, {}, r"schedule\.max_lifetime: required"),
        ({"max_lifetime": 90}, {}, r"schedule\.max_lifetime: must be a number with a unit.*got 90"),
        ({"horizon": 0}, {}, r"schedule\.horizon: must be between 1 and 100,000 windows, got 0"),
        ({"period": "90m"}, {}, r"schedule\.period: '90m' is no period"),
        ({"by": "first_event", "gap": "1d"}, {}, r"schedule\.gap: .*leave it out"),
        ({"partition_spread": "3d"}, {}, r"schedule: partition_spread needs partition"),
        ({"lifetime": "90d"}, {}, r"schedule\.lifetime: unknown key"),
    ],
)
def test_a_wrong_section_is_told_before_anything_is_read(
    changes: dict[str, Any], keys: dict[str, Any], said: str, tmp_path: Path
) -> None:
    section = {k: v for k, v in {**LEAST, **changes}.items() if v is not None}
    with pytest.raises(UsageError, match=said):
        loaded(tmp_path, section, **keys)


def promise(**changes: Any) -> Guarantee:
    """A rigorous promise for a case that is added or removed, or another."""
    given = {"kind": "rigorous", "unit": "case", "adjacency": "add_remove"}
    return Guarantee(
        **{**given, "epsilon": 1.0, "delta": 0.0, "claim": "", "reality": "", **changes}
    )


@each_row("change", [{"adjacency": "replace_one"}, {"unit": "event"}])
def test_a_promise_that_says_nothing_of_two_windows_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"schedule: theirs protects .* two windows"):
        check_composes("theirs", promise(**change))
    none = {"kind": "published", "epsilon": None, "delta": None}
    for taken in (promise(), promise(unit="individual"), promise(**change, **none)):
        check_composes("theirs", taken)


def test_such_a_method_is_refused_with_its_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replacing = promise(adjacency="replace_one")
    monkeypatch.setattr(type(method_named("amun")), "guarantee", lambda *_: replacing)
    with pytest.raises(UsageError, match="schedule: amun protects a case that is"):
        loaded(tmp_path, LEAST)


def test_an_end_activity_outside_of_a_closed_vocabulary_is_refused() -> None:
    schedule = ScheduleConfig.model_validate({**LEAST, "end_activity": ["B", "Z"]})
    with pytest.raises(UsageError, match="'Z' is not in the closed vocabulary"):
        check_ends_are_read(schedule, ["A", "B"])
    check_ends_are_read(schedule, ["A", "B", "Z"])
