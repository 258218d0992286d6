"""The configuration: its schema and the code agree; what changes bytes changes the digest."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.tiers import each_row
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.configuration.config import (
    Columns,
    ReleaseConfig,
    json_schema,
    load,
    parse_where,
)
from tracecloak.pipelines.runners.flags import beam_flags
from tracecloak.schemas.errors import UsageError

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


def test_no_option_of_ours_is_one_of_beams() -> None:
    from tracecloak.anonymizers.registry import METHODS
    from tracecloak.pipelines.configuration.config import Columns

    ours = {*ReleaseConfig.model_fields, *Columns.model_fields} - {"runner"}
    for method in METHODS.values():
        ours |= set(method.Params.model_fields)
    assert not {f"--{name}" for name in ours} & beam_flags()


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


@pytest.mark.by_day(8)
@each_row("name", sorted(METHODS))
def test_no_parameter_of_a_method_has_the_name_of_another_flag(name: str) -> None:
    params = set(METHODS[name].Params.model_fields)
    # Two published methods had a query before a log could be one's result. With them the flag is
    # theirs, and the other stands in the configuration file, as the page on queries says.
    known = {"query"} if name in ("pripel", "sapa") else set()
    assert params & (set(ReleaseConfig.model_fields) | set(Columns.model_fields)) == known
