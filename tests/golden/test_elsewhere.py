"""A release has the same bytes on whatever processor, wherever modules lie: see elsewhere.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.golden.elsewhere import digests_elsewhere, expected_of, move, other_code
from tests.golden.releases import scenarios

# Floats matter most to these: times, and weights of cases that agree with noisy counts.
FEW = ("private-log 1", "joint-variants 0")
ALL = tuple(name for name in scenarios() if not name.startswith("sample "))
# What says all parameters, and so has one more where there is one more.
SAY_ALL = ("manifest.json", "report.html", "statement.md")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("names", "ways", "has_other_code"),
    [
        (FEW, ["numbers"], True),
        *((ALL, *how) for how in ((["numbers"], False), ([], True), (["modules"], False))),
    ],
    ids=["some", "numbers", "code", "modules"],
)
@pytest.mark.slow
def test_releases_are_the_same_elsewhere(
    names: tuple[str, ...], ways: list[str], has_other_code: bool
) -> None:
    """Catches noise of a last digit, of a class's place, and of a default."""
    found = digests_elsewhere(names, ways, other_code() if has_other_code else {})
    expected = expected_of(names)
    for name in names:
        if ways == ["modules"]:
            if "manifest.json" in expected[name] and not name.startswith("stream of"):
                assert found[name]["manifest.json"] != expected[name]["manifest.json"], "a control"
            found[name], expected[name] = _bytes(found[name]), _bytes(expected[name])
        assert found[name] == expected[name], name


def _bytes(digests: dict[str, Any]) -> dict[str, Any]:
    return {path: of for path, of in digests.items() if path.rpartition("/")[2] not in SAY_ALL}


def test_moved_functions_are_others_in_the_last_place_only() -> None:
    """The control: the setting does something."""
    given: Any = np.linspace(0.1, 9, 1000)
    found = move(np.log)(given)
    assert 300 < (found != np.log(given)).sum() < 700
    np.testing.assert_allclose(found, np.log(given), rtol=3e-16)
    numbers = [move(math.log)(x) for x in given.tolist()]
    assert set(map(type, numbers)) == {float}
    assert 300 < sum(a != math.log(x) for a, x in zip(numbers, given.tolist(), strict=True)) < 700
