"""The section `schedule`: what a file says of windows, what is refused, and that it is no flag."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.tiers import each_row
from tracecloak.pipelines.configuration.config import (
    ReleaseConfig,
    load,
)
from tracecloak.pipelines.configuration.shared_keys import (
    ScheduleConfig,
    check_composes,
    check_ends_are_read,
)
from tracecloak.schemas.calendar.local_time import DAY_US
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import Guarantee
from tracecloak.schemas.windows import Schedule

LEAST: dict[str, Any] = {
    "origin": "2026-01-01",
    "period": "month",
    "max_lifetime": "90d",
    "horizon": 24,
}
RELEASE: dict[str, Any] = {
    "log": "a.csv",
    "method": "amun",
    "output": "out",
    "params": {"guessing_advantage": 0.2},
    "dataset": "visits",
}


def loaded(folder: Path, schedule: str | dict[str, Any], **keys: Any) -> ReleaseConfig:
    """The configuration of a file that has this section, as a mapping or as YAML."""
    body = {k: v for k, v in {**RELEASE, **keys}.items() if v is not None}
    section = schedule if isinstance(schedule, str) else yaml.safe_dump(schedule)
    indented = "".join(f"  {line}\n" for line in section.splitlines())
    path = folder / "release.yaml"
    path.write_text(f"{yaml.safe_dump(body)}schedule:\n{indented}")
    return load(str(path), {})


def made(config: ReleaseConfig) -> Schedule:
    assert config.schedule is not None
    return config.schedule.made(config.dataset)


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
    assert made(config) == Schedule(
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
        ({"horizon": None}, {}, r"schedule\.horizon: required"),
        ({"origin": None}, {}, r"schedule\.origin: required"),
        ({"period": None}, {}, r"schedule\.period: required"),
        ({"max_lifetime": 90}, {}, r"schedule\.max_lifetime: must be a number with a unit.*got 90"),
        ({"horizon": 0}, {}, r"schedule\.horizon: must be between 1 and 100,000 windows, got 0"),
        ({"horizon": "many"}, {}, r"schedule\.horizon: must be a whole number, got 'many'"),
        ({"period": "90m"}, {}, r"schedule\.period: '90m' is no period"),
        ({"by": "start"}, {}, r"schedule\.by: must be 'close' or 'first_event', got 'start'"),
        ({"time_zone": "Mars"}, {}, r"schedule\.time_zone: 'Mars' is no time zone"),
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
    replacing = property(lambda config: promise(adjacency="replace_one"))
    monkeypatch.setattr(ReleaseConfig, "guarantee", replacing)
    with pytest.raises(UsageError, match="schedule: amun protects a case that is"):
        loaded(tmp_path, LEAST)


def test_an_end_activity_outside_of_a_closed_vocabulary_is_refused() -> None:
    schedule = ScheduleConfig.model_validate({**LEAST, "end_activity": ["B", "Z"]})
    with pytest.raises(UsageError, match="'Z' is not in the closed vocabulary"):
        check_ends_are_read(schedule, ["A", "B"])
    check_ends_are_read(schedule, ["A", "B", "Z"])
