"""Whatever the processor, a release has the same bytes: see processors.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.golden.processors import digests_elsewhere, expected_of, move
from tests.golden.releases import scenarios

# Floats matter most to these: times, and weights of cases that agree with noisy counts.
_FEW = ("private-log 1", "joint-variants 0")
_ALL = tuple(name for name in scenarios() if not name.startswith("sample "))
_OTHERS = {"other code": {"is_other_code": True}, "moved": {"is_moved": True}}


def check(names: tuple[str, ...], **other: bool) -> None:
    found, expected = digests_elsewhere(names, **other), expected_of(names)
    assert [name for name in names if found[name] != expected[name]] == []


def test_some_releases_are_the_same_on_another_processor() -> None:
    check(_FEW, is_other_code=True, is_moved=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("other", _OTHERS.values(), ids=_OTHERS)
def test_every_release_is_the_same_on_another_processor(other: dict[str, bool]) -> None:
    check(_ALL, **other)


def test_moved_functions_are_others_in_the_last_place_only() -> None:
    """The control: the setting does something."""
    given: Any = np.linspace(0.1, 9, 1000)
    found = move(np.log)(given)
    assert 300 < (found != np.log(given)).sum() < 700
    np.testing.assert_allclose(found, np.log(given), rtol=3e-16)
    assert move(np.log)(2.0) == pytest.approx(np.log(2.0))
    numbers = [move(math.log)(x) for x in given.tolist()]
    assert set(map(type, numbers)) == {float}
    assert 300 < sum(a != math.log(x) for a, x in zip(numbers, given.tolist(), strict=True)) < 700
