"""Tables that other distributions add to: what is loaded when, whose a name is, and refusals."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from tracecloak.schemas import plugins
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.plugins import Plugins

GROUP = "tracecloak.things"
OURS = {"one": "plugin_of_ours:ONE", "two": "plugin_of_ours:TWO"}
Install = Callable[..., None]


_OTHERS = """
from types import SimpleNamespace
THREE = [3]
NAMED = SimpleNamespace(name="three")
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugin_of_ours.py").write_text("ONE, TWO = [1], [2]\n")
    (tmp_path / "plugin_of_others.py").write_text(_OTHERS)
    (tmp_path / "plugin_that_fails.py").write_text("raise RuntimeError('canary')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("plugin_of_ours", "plugin_of_others", "plugin_that_fails"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts entry points (name, place) of others in place of those that are installed."""

    def installed(*entries: tuple[str, str], group: str = GROUP) -> None:
        points = tuple(EntryPoint(name, place, group) for name, place in entries)
        monkeypatch.setattr(plugins, "_entry_points", lambda: points)

    installed()
    return installed


def things() -> Plugins[list[int]]:
    return Plugins("thing", GROUP, OURS)


def test_entries_are_loaded_when_they_are_asked_for_and_kept(install: Install) -> None:
    install(("three", "plugin_of_others:THREE"))
    table = things()
    assert list(table) == ["one", "two", "three"] and len(table) == 3
    assert "one" in table and "three" in table and "four" not in table
    assert not {"plugin_of_ours", "plugin_of_others"} & sys.modules.keys()
    assert table["two"] == [2]
    assert "plugin_of_others" not in sys.modules
    assert table["three"] == [3]
    assert table["three"] is table["three"] is table.named("three")


def test_an_entry_may_be_the_value_itself_and_values_are_made_once(install: Install) -> None:
    made: list[object] = []

    def noted(found: list[int]) -> tuple[int, ...]:
        made.append(found)
        return tuple(found)

    table: Plugins[tuple[int, ...]] = Plugins("thing", GROUP, {"own": (0,), **OURS}, make=noted)
    assert (table["own"], table["one"], table["one"]) == ((0,), (1,), (1,))
    assert made == [(0,), [1]]


def test_a_name_of_ours_that_others_claim_is_refused_to_whoever_asks_for_it(
    install: Install,
) -> None:
    """Catches a distribution whose method of the same name is silently another one."""
    table = things()
    assert table["one"] == [1]
    install(("one", "plugin_of_others:THREE"))
    told = "thing 'one' is offered by plugin_of_others:THREE, plugin_of_ours:ONE; uninstall"
    for ask in (table.named, table.__getitem__, things().__getitem__, lambda _: table.values()):
        with pytest.raises(UsageError, match=told):
            list(ask("one"))
    assert table["two"] == table.named("two") == [2]
    assert table.builtins == {"one": [1], "two": [2]}  # whatever others add
    assert list(table) == ["one", "two"]


@dataclass(frozen=True)
class Named:
    name: str


def test_an_entry_that_calls_itself_otherwise_is_refused(install: Install) -> None:
    """Catches a method whose releases and payments stand under a name that nobody can ask for."""
    install(("three", "plugin_of_others:NAMED"), ("four", "plugin_of_others:NAMED"))
    table: Plugins[Any] = Plugins("thing", GROUP, {"one": Named("one")}, own_name="name")
    assert table["one"].name == "one" and table["three"].name == "three"
    with pytest.raises(UsageError, match=r"thing 'four' of .*,"):
        table["four"]
    install(("five", "plugin_of_others:THREE"))
    kinds: Plugins[Any] = Plugins("thing", GROUP, {}, kind=Named)
    for of in (table, kinds):
        with pytest.raises(UsageError, match=r"'five' .* cannot be loaded"):
            of["five"]


def test_a_name_that_was_removed_is_given_to_nobody(install: Install) -> None:
    """Catches what was released under a name being taken for what another class makes."""
    install(("old", "plugin_of_others:THREE"), ("three", "plugin_of_others:THREE"))
    table: Plugins[list[int]] = Plugins("thing", GROUP, OURS, removed={"old": "one or two"})
    assert table["three"] == [3]
    with pytest.raises(UsageError, match="'old' of another distribution,"):
        table["old"]
    with pytest.raises(ValueError, match="thing 'one' was removed, and no name is"):
        Plugins("thing", GROUP, OURS, removed={"one": ""})


def test_a_name_that_two_claim_is_refused_when_it_is_used(install: Install) -> None:
    install(("three", "plugin_of_others:THREE"), ("three", "zoo.things:THREE"))
    table = things()
    assert list(table) == ["one", "two", "three"] and table["one"] == [1]
    with pytest.raises(UsageError, match=r"thing 'three' is offered by"):
        table["three"]


def _no_list(found: object) -> list[int]:
    if not isinstance(found, list):
        raise TypeError("canary")
    return found


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("no_such_module:X", "ModuleNotFoundError"),
        ("plugin_of_others:NONE", "AttributeError"),
        ("plugin_that_fails:X", "RuntimeError"),
        ("sys:path_hooks", None),  # the control: it is a list
        ("sys:version", "TypeError"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_its_place(
    install: Install, place: str, kind: str | None
) -> None:
    install(("bad", place))
    table: Plugins[list[int]] = Plugins("thing", GROUP, OURS, make=_no_list)
    assert table["one"] == [1]
    if kind is None:
        assert table["bad"] is sys.path_hooks
        return
    with pytest.raises(UsageError, match=rf"thing 'bad' .*{place}, cannot be loaded") as e:
        table["bad"]
    assert "canary" not in str(e.value)


def test_an_unknown_name_is_refused_with_those_that_there_are(install: Install) -> None:
    install(("three", "no_such_module:X"))
    with pytest.raises(UsageError, match="thing must be one of one, three, two,"):
        things().named("four")
    with pytest.raises(KeyError):
        things()["four"]
    assert things().get("four") is None
