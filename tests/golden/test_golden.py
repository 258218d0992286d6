"""No release changes by a byte unless somebody means it: see releases.py and `make golden`."""

from __future__ import annotations

import sys
import typing
from pathlib import Path
from typing import Any

import pytest

from tests.golden import releases
from tests.support.examples import examples_of
from tests.support.releasing import fix_key
from tests.support.tiers import at_night
from tracecloak.anonymizers.registry import METHODS
from tracecloak.transforms.publish.release_folder import ReleaseFolder

RECORDED = releases.recorded()
SCENARIOS = releases.scenarios()


def test_everything_that_there_is_was_recorded() -> None:
    assert set(RECORDED["digests"]) == set(SCENARIOS)


# Their noise, their files and their order are those of others that are made every time.
AT_NIGHT = {
    "stream of graphs without delta", "stream of graphs in total", "stream of variants in total",
    "stream of graphs of individuals",
}  # fmt: skip


def is_further_example(name: str) -> bool:
    """Of a method's examples the third, and so on."""
    number = name.rpartition(" ")[2]
    return releases.WITH not in name and number.isdigit() and int(number) > 1


@pytest.mark.parametrize(
    "name",
    [
        at_night(name) if name in AT_NIGHT or is_further_example(name) else name
        for name in SCENARIOS
    ],
)
def test_the_release_is_the_recorded_one(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the byte under the versions that were recorded, and else by rows and texts.

    Catches any change of what is released: of noise, of an order, of a name, of a number's digits.
    """
    if ("embedding" in name or name == "pretsa 1") and sys.version_info >= (3, 14):
        pytest.skip("gensim is not there for this Python")
    fix_key(monkeypatch)
    check(tmp_path, name)


@pytest.mark.parametrize("method", [m if m == "private-log" else at_night(m) for m in METHODS])
def test_a_release_that_is_cut_off_is_finished_with_the_recorded_bytes(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each method; catches a decision that is made anew, under the key of the second run."""
    for secret in (b"k" * 32, b"other" * 7):
        fix_key(monkeypatch, secret[:32])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ReleaseFolder, "commit", pytest.fail)
            assert list(SCENARIOS[f"{method} 0"](tmp_path)) == [releases.EXIT_CODE]
    check(tmp_path, f"{method} 0")


def check(folder: Path, name: str) -> None:
    """Makes a release, and compares it with the recorded one."""
    found, expected = releases.as_json(SCENARIOS[name](folder)), RECORDED["digests"][name]
    if releases.versions() != RECORDED["versions"]:
        # Of equally good layouts of a picture, scipy's solver takes another one in each version.
        found, expected = (
            {path: digests[-1] for path, digests in both.items() if not path.endswith(".svg")}
            for both in (found, expected)
        )
    assert found == expected


def _choices(annotation: Any) -> set[str | bool]:
    """The names and truth values among which a parameter chooses."""
    if annotation is bool:
        return {True, False}
    inner = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        return set(inner)
    return {choice for one in inner for choice in _choices(one)}


# The days of a week do the same each, and who may have a large delta has it by its number.
_NO_CHOICES = {"working_days", "allow_large_delta"}


def test_every_choice_of_a_parameter_is_in_a_release() -> None:
    """Catches a step that can change under the same version, as no recorded release takes it.

    Methods that have a parameter of the same class take the same steps for it.
    """
    declared, released = set(), set()
    for name, method in METHODS.builtins.items():
        first, *others = examples_of(method)
        further = [{**first, **change} for change in releases.FURTHER.get(name, ())]
        params = [method.Params(**example).resolved() for example in (first, *others, *further)]
        for key, field in method.Params.model_fields.items():
            choices = _choices(field.annotation) if key not in _NO_CHOICES else set()
            owner = next(k for k in method.Params.__mro__ if key in vars(k).get(_OWN, {}))
            where = f"{owner.__name__}.{key}"
            declared |= {(where, choice) for choice in choices}
            released |= {(where, c) for c in choices if any(one.get(key) == c for one in params)}
    assert len(declared) > 80
    assert declared - released == set()


_OWN = "__annotations__"


def test_another_row_is_another_digest() -> None:
    """The control: bytes and rows are both looked at."""
    assert releases.as_json({"a": releases.Digests("1", "2")}) == {"a": ["1", "2"]}
    from tests.golden.releases import digests_of

    first = digests_of({"log.csv": b"a\n1\n", "manifest.json": b'{"tool": 1, "x": 2}'})
    same = digests_of({"log.csv": b"a\n1\n", "manifest.json": b'{"tool": 7, "x": 2}'})
    other = digests_of({"log.csv": b"a\n2\n", "manifest.json": b'{"tool": 1, "x": 3}'})
    assert first == same
    assert all(first[path] != other[path] for path in first)
