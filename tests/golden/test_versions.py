"""A method is what was recorded of its version: see versions.py and `make golden`."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.golden import versions
from tests.golden.releases import recorded as golden
from tests.golden.versions import TABLES, current, merged, names_given, recorded
from tests.support.tiers import each_row
from tracecloak.anonymizers.amun.params import PROFILES
from tracecloak.anonymizers.registry import METHODS
from tracecloak.schemas.events.declarations import Declaration
from tracecloak.schemas.plugins import Plugins

ROOT = Path(__file__).parents[2]
ROOMS = [ROOT / r for r in ("schemas", "anonymizers", "transforms", "pipelines", "examination")]
NOW = current(golden()["digests"])


@each_row("name", NOW)
def test_a_method_is_what_was_recorded_of_its_version(name: str) -> None:
    """Catches a default or a step up to the noise that changed under the same version."""
    known = recorded()[name]
    merged({name: known}, {name: NOW[name]})
    [version] = NOW[name]
    assert set(known) == {str(number) for number in range(1, int(version) + 1)}
    assert known[version] == NOW[name][version]


def test_no_method_that_was_recorded_is_forgotten() -> None:
    """Catches a name that can be given again: one that is removed goes to `REMOVED`."""
    assert set(recorded()) == set(NOW)


@each_row("table", TABLES)
def test_a_name_that_a_table_had_is_there_or_removed(table: Plugins[Any]) -> None:
    """Catches a name that another distribution can be given, as nobody remembers it.

    One that goes is named in `removed` of its table; one that comes is recorded.
    """
    assert table.builtins.keys() | table.removed == set(names_given()[table.group])


def test_every_table_is_recorded() -> None:
    """The control: there is no other table of names."""
    files = (p for room in ROOMS for p in room.rglob("*.py") if p.name != "plugins.py")
    made = [p for p in files if re.search(r"\bPlugins(\[.*\])?\(", p.read_text("utf-8"))]
    assert len(made) == len(TABLES) == len(names_given())


@pytest.mark.parametrize(
    "part", ["defaults", "defaults of parts", "profiles", "resolved", "steps", "released"]
)
def test_whoever_changes_a_part_raises_the_version(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: of the same version nothing may change, and the file stays as it is."""
    changed, [now] = copy.deepcopy(NOW), NOW["private-log"]
    changed["private-log"][now][part] = "other"
    told = rf"private-log is not what version {now} .*\({part}\): raise"
    with pytest.raises(ValueError, match=told):
        merged(NOW, changed)
    raised: dict[str, Any] = {str(int(now) + 1): changed["private-log"][now]}
    found = merged(NOW, {**changed, "private-log": raised})
    assert found["private-log"] == {now: NOW["private-log"][now], **raised}
    monkeypatch.setattr(versions, "RECORDED", tmp_path / "defaults.json")
    monkeypatch.setattr(versions, "NAMES", tmp_path / "names.json")
    monkeypatch.setattr(type(METHODS["amun"]), "version", 2)
    versions.record(golden()["digests"])
    assert set(recorded()["amun"]) == {"2"}


def test_whoever_changes_a_profile_or_a_default_of_a_part_raises_the_version() -> None:
    """Catches two builds whose profiles differ, and whose noise is the same."""
    for profile in PROFILES:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(PROFILES, profile, replace(PROFILES[profile], time_precision_us=3))
            with pytest.raises(ValueError, match=r"amun is not what version 1 .*\((pro|res)"):
                merged(recorded(), current(golden()["digests"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Declaration.model_fields["n_bins"], "default", 40)
        with pytest.raises(ValueError, match=r"version 1 .*\(defaults of parts\)"):
            merged(recorded(), current(golden()["digests"]))


def test_what_is_new_is_added_under_the_same_version() -> None:
    """A parameter that is neutral by default, a part of one, and another release change nothing."""
    known = copy.deepcopy(NOW)
    for part in ("defaults", "profiles", "released"):
        known["amun"]["1"][part].popitem()
    known["pripel"]["1"]["defaults of parts"]["Declaration"].popitem()
    known["amun"]["1"]["resolved"].pop()
    assert known != NOW and merged(known, NOW) == NOW
    with pytest.raises(ValueError, match=r"\(defaults, profiles, resolved, released\)"):
        merged({"amun": NOW["amun"]}, {"amun": known["amun"]})  # what is gone is no addition


def test_another_row_is_another_release_and_another_word_is_none() -> None:
    """The control of what a version's releases are compared by."""
    digests = copy.deepcopy(golden()["digests"])
    digests["amun 0"]["statement.md"] = ["other"]
    assert current(digests) == NOW
    path = next(path for path in digests["amun 0"] if path.endswith(".parquet"))
    digests["amun 0"][path] = ["same bytes", "other rows"]
    assert {name for name, body in current(digests).items() if body != NOW[name]} == {"amun"}
