"""Whatever a configuration file can say of a method or of a stream's product, flags can say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.examples import examples_of
from tests.support.releasing import csv_log, small_rows, tracecloak
from tests.support.tiers import at_night
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.configuration.plan import ReleasePlan
from tracecloak.pipelines.planning.plan import Plan
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.plan import params_of
from tracecloak.pipelines.stream.run import StreamOutcome


def plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def in_line(name: str, value: Any, folder: Path) -> str:
    """What is plain as it is; lists and mappings as JSON."""
    return json.dumps(value) if isinstance(value, list | tuple | dict) else plain(value)


def as_yaml(name: str, value: Any, folder: Path) -> str:
    """The same as in a configuration file."""
    if not isinstance(value, list | tuple | dict):
        return plain(value)
    return yaml.safe_dump(json.loads(json.dumps(value)), default_flow_style=True, width=10**6)


def of_file(name: str, value: Any, folder: Path) -> str:
    """Lists and mappings from files of their own."""
    if not isinstance(value, list | tuple | dict):
        return plain(value)
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(value))))
    return f"@{folder / name}.yaml"


def by_commas(name: str, value: Any, folder: Path) -> str:
    """Lists of what has no commas between commas; activities and models from their files."""
    if name == "vocabulary":
        (folder / "names.txt").write_text("\n".join(value))
        return str(folder / "names.txt")
    if name == "model":
        (folder / "model.json").write_text(json.dumps(value))
        return str(folder / "model.json")
    if isinstance(value, list | tuple) and not any("," in plain(part) for part in value):
        return ", ".join(map(plain, value))
    return in_line(name, value, folder)


FORMS = pytest.mark.parametrize("form", [in_line, as_yaml, of_file, by_commas])


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], ReleasePlan]:
    """What the command `plan` makes of a command line."""
    log = csv_log(tmp_path / "log.csv", list(small_rows()))
    seen: list[ReleasePlan] = []
    monkeypatch.setattr(
        "tracecloak.pipelines.screen.release_text.planned",
        lambda plan, goal: seen.append(plan) or Plan((), (), (), is_refused=False),
    )

    def run(flags: list[str]) -> ReleasePlan:
        assert tracecloak("plan", "--log", log, "--output", tmp_path / "out", *flags) == 0
        return seen.pop()

    return run


@FORMS
def test_every_example_is_the_same_as_flags_and_as_a_mapping(
    form: Callable[[str, Any, Path], str],
    tmp_path: Path,
    planned: Callable[[list[str]], ReleasePlan],
) -> None:
    examples = [(name, one) for name in METHODS for one in examples_of(METHODS[name])]
    for name, given in examples:
        flags = [f"--{key}={form(key, value, tmp_path)}" for key, value in given.items()]
        if "max_cases_per_individual" in given:
            flags.append("--individual_id=person")
        found = planned(["--method", name, *flags]).params
        assert found == METHODS[name].Params(**given)


@FORMS
def test_the_parameters_of_a_streams_products_are_the_same_as_flags_and_in_a_file(
    form: Callable[[str, Any, Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[StreamConfig] = []

    def run(config: StreamConfig, _: object) -> StreamOutcome:
        seen.append(config)
        return StreamOutcome("nowhere", is_spent=True)

    monkeypatch.setattr("tracecloak.pipelines.stream.run.run_stream", run)
    common = {
        "release_id": "ward", "epoch": "1", "input_topic": "projects/p/topics/t",
        "output": str(tmp_path / "out"), "epsilon": "1", "vocabulary": ["A", "B"], "period": "1h",
        "horizon": 24, "start": "2026-11-22", "gap": "30m", "max_lifetime": "1d",
        "end_activity": ["A", "B"],
    }  # fmt: skip
    further = {
        "working_days": ["mon", "tue"],
        "holidays": ["2026-01-01"],
        "budget_split": {"variants": 0.5},
        "first_date": "2026-01-01",
        "last_date": "2026-12-31",
    }
    for product in (
        {"product": "dfg", "view": "sliding", "sliding_steps": 7, "l2_clip": 4},
        {"product": "variants", "guarantee": "w_event", "w_event_steps": 2,
         "columns": {"individual_id": "person"}},
        {"product": "log", "formats": ["parquet", "csv"], "log_params": further},
    ):  # fmt: skip
        whole: dict[str, Any] = {**common, **product}
        (tmp_path / "ward.yaml").write_text(yaml.safe_dump(whole))
        assert tracecloak("stream", tmp_path / "ward.yaml") == 0
        flags = {**whole, **whole.pop("log_params", {}), **whole.pop("columns", {})}
        flags = {n: v for n, v in flags.items() if n not in ("log_params", "columns")}
        typed = [
            f"--{n}={','.join(v) if n == 'formats' else form(n, v, tmp_path)}"
            for n, v in flags.items()
        ]
        assert tracecloak("stream", *typed) == 0
        assert params_of(seen.pop()) == params_of(seen[-1])
        seen.pop()


@pytest.mark.parametrize(
    ("flag", "value", "told"),
    [
        ("size_bounds", "@broken.yaml", "is no YAML"),
        ("size_bounds", "[5, 20", "size_bounds: what begins with [ must be JSON, or YAML"),
        ("size_bounds", "5", "size_bounds"),
        ("size_bounds", "@none.yaml", "size_bounds: file 'none.yaml' cannot be read"),
        ("vocabulary", '{"A": 1, "A": 2}', "vocabulary: key given twice: A"),
        ("vocabulary", "{A: 1, A: 2}", "key given twice: A"),
    ],
)
def test_a_text_that_stands_for_nothing_is_told_with_its_flag(
    flag: str, value: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.yaml").write_text("[5, 20")
    value = value.replace("@broken", f"@{tmp_path}/broken")
    given = ["--log", "x", "--output", "out", "--method", "dpim", "--epsilon", 1]
    assert tracecloak("plan", *given, f"--{flag}", value) == 2
    assert told in capsys.readouterr().err


# One by day for each kind of promise and of release but whole logs, whose plans take long.
_BY_DAY = (
    "private-dfg", "process-tree", "variant-histogram", "amun", "pretsa", "tlkc",
)  # fmt: skip


@pytest.mark.parametrize("name", [n if n in _BY_DAY else at_night(n) for n in METHODS])
def test_a_plan_has_the_parameters_as_a_configuration_file_has_them(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    log.write_text(
        "case_id,activity,timestamp,person,org:resource,case:age,cost:units,case:diagnosis\n"
        "c,A,2026-01-01T00:00:00Z,p,R1,3,4,A\n"
    )
    for given in examples_of(METHODS[name]):
        (tmp_path / "release.yaml").write_text(
            json.dumps({"method": name, "params": dict(given), "log": str(log), "output": "out"})
        )
        unit = ["--individual_id=person"] if "max_cases_per_individual" in given else []
        few = ["--expected_cases", 10]  # so that it does not take long
        assert tracecloak("plan", tmp_path / "release.yaml", *unit, *few, "--full") in (0, 9)
        text = capsys.readouterr().out
        assert not re.search(r"\bNone\b|\bTrue\b|\bFalse\b|\('", text)
        params = METHODS[name].Params(**given).expecting(10).resolved()
        lines = text.partition("Does (")[2].splitlines()[1:]
        beginnings = ("\n".join(lines[:n]) for n in range(len(lines)))
        assert params in map(yaml.safe_load, beginnings)
