"""The file of public groups: both of its forms, what is refused, and what the operator is told."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.support.tiers import each_row
from tracecloak.pipelines.configuration.config import load
from tracecloak.pipelines.configuration.flags import read_groups
from tracecloak.schemas.errors import UsageError

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
