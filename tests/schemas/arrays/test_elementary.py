"""Elementary functions: how far they are off, what they give at the edges, and their very bits."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
import pytest

from tracecloak.schemas.arrays import elementary

_EXACTLY: dict[str, Callable[[Decimal], Decimal]] = {
    "exp": lambda x: x.exp(),
    "expm1": lambda x: x.exp() - 1,
    "log": lambda x: x.ln(),
    "log1p": lambda x: (x + 1).ln(),
}
_MOST_OFF = {"exp": 1, "expm1": 3, "log": 1, "log1p": 3}
_EDGES = (
    0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324, 1e-310, 2.0**-1022, 1.0, -1.0, -2.0,
    2.0**-54, -(2.0**-53), 709.78, 709.79, 745.1, 745.2, 746.0, -708.5, -740.0, -745.1, -745.2,
    -1e300, 1e300, math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0), math.sqrt(0.5),
)  # fmt: skip


def arguments(name: str, n: int) -> np.ndarray:
    """Some from everywhere, and some from where digits are lost most easily."""
    draw = random.Random(name)
    if name.startswith("exp"):
        found = [draw.uniform(-700, 709) for _ in range(n)]
        found += [draw.uniform(-2, 2) for _ in range(n)]
        found += [math.ldexp(draw.uniform(-1, 1), -draw.randrange(60)) for _ in range(n)]
    else:
        most = 100 if name == "log1p" else 1000
        found = [math.ldexp(draw.uniform(0.5, 1), draw.randrange(-most, most)) for _ in range(n)]
        found += [draw.uniform(0.5, 2) for _ in range(n)]
        near = [math.ldexp(draw.uniform(-1, 1), -draw.randrange(1, 60)) for _ in range(n)]
        found += near if name == "log1p" else [1 + x for x in near if 1 + x != 1]
    return np.array(found)


@pytest.mark.parametrize("name", _EXACTLY)
def test_it_is_off_by_no_more_places_than_it_says(name: str) -> None:
    given = arguments(name, 500)
    found = getattr(elementary, name)(given)
    with localcontext() as context:
        context.prec = 120 if name == "log1p" else 60  # 1 + x has many digits where x is tiny
        for x, value in zip(given.tolist(), found.tolist(), strict=True):
            right = _EXACTLY[name](Decimal(x))
            off = abs(Decimal(value) - right) / Decimal(math.ulp(float(right)))
            assert off < _MOST_OFF[name], (x, value)


@pytest.mark.parametrize("name", _EXACTLY)
def test_at_the_edges_it_is_what_numpy_says(name: str) -> None:
    given = np.array(_EDGES)
    found = getattr(elementary, name)(given)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(given)
    np.testing.assert_allclose(found, expected, rtol=1e-15, atol=1e-323)
    zeros = expected == 0  # whose sign is compared, too
    np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))
    infinite = ~np.isfinite(expected)
    np.testing.assert_array_equal(found[infinite], expected[infinite])


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("exp", "07137e8900ff14d9"),
        ("expm1", "76ae25c463ca4fc9"),
        ("log", "2f5754d14719288e"),
        ("log1p", "bbd8ef77b818aac6"),
        ("power", "b59e8ea87c3f63ce"),
        ("product", "aecc0dd803229c55"),
    ],
)
def test_the_bits_are_these_on_every_machine(name: str, begin: str) -> None:
    if name in _EXACTLY:
        given = np.concatenate([arguments(name, 3000), [x for x in _EDGES if x == x]])
        found = getattr(elementary, name)(given)
    elif name == "power":
        found = elementary.power(np.abs(arguments("exp", 500)), arguments("expm1", 500) % 3)
    else:
        numbers = arguments("log1p", 400)[400:]
        found = elementary.product(numbers[:20], numbers.reshape(20, -1))
    found = np.where(np.isnan(found), 0.5, found)  # whose sign nobody promises
    assert hashlib.sha256(found.tobytes()).hexdigest()[:16] == begin


def test_steps_are_evenly_spaced_in_the_logarithm_and_their_ends_exact() -> None:
    steps = elementary.geometric_steps(1e6, 3e14, 30)
    assert (steps[0], steps[-1]) == (1e6, 3e14)
    np.testing.assert_allclose(steps, np.geomspace(1e6, 3e14, 30), rtol=1e-13)
