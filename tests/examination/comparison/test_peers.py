"""Peers: TraVaS' bound is the paper's, and Private-PGM measures and pays what it says."""

from __future__ import annotations

import importlib
import math
import sys
from fractions import Fraction

import numpy as np
import pytest

from tests.support.keys import randomness
from tests.support.logs import histogram
from tracecloak.anonymizers.accounting.calibration import truncated_noise_bound
from tracecloak.examination.comparison.contenders import (
    Pgm,
    PrivatePgm,
    Registered,
    chosen_methods,
    chosen_peers,
    require_mbi,
)
from tracecloak.examination.measure.utility import aligned_variants, total_variation
from tracecloak.schemas.errors import UsageError

NAMES = ["A", "B", "C"]
COUNTS = {("A", "B", "C"): 400, ("A", "C"): 200, ("B",): 100}


@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
def test_travas_bounds_its_noise_as_the_paper_says(epsilon: str) -> None:
    """K = ceil(ln((e^eps + 2 delta - 1) / ((e^eps + 1) delta)) / eps) of Desfontaines et al."""
    [(name, own)] = chosen_methods([], ["travas"]).items()
    assert name == "travas" and isinstance(own, Registered)
    params = own.parameters(epsilon, "1e-6", ("A",), 3)
    assert (params.noise, own.method.name) == ("truncated", "variant-histogram")
    e, delta = float(epsilon), 1e-6
    k = math.ceil(math.log((math.exp(e) + 2 * delta - 1) / ((math.exp(e) + 1) * delta)) / e)
    assert truncated_noise_bound(Fraction(epsilon), Fraction(1, 10**6)) == k


def pgm(epsilon: str = "1", max_length: int = 3) -> PrivatePgm:
    return PrivatePgm(histogram(COUNTS, NAMES), len(NAMES), max_length, epsilon, "1e-6")


def test_the_marginals_are_those_of_neighbouring_positions() -> None:
    """Without noise, as a case is in one cell of each: A B, A C and B end; B C, C end, end end."""
    found = pgm("100000").measured(randomness())
    assert pgm().marginals == ((0, 1), (1, 2))
    first, second = (cells.reshape(4, 4) for cells in found)
    exact = np.zeros((2, 4, 4))
    exact[0, 0, 1], exact[0, 0, 2], exact[0, 1, 3] = 400, 200, 100
    exact[1, 1, 2], exact[1, 2, 3], exact[1, 3, 3] = 400, 200, 100
    assert np.abs(first - exact[0]).max() < 20 and np.abs(second - exact[1]).max() < 20
    assert pgm(max_length=1).marginals == ((0,),)


def test_the_noise_is_as_wide_as_that() -> None:
    """2,000 marginals of 16 cells: the deviation within 4 %, and half the noise as a control."""
    noisy = np.concatenate(
        [np.concatenate(pgm().measured(randomness(release_id=str(i)))) for i in range(300)]
    ).reshape(300, -1)
    own = pgm().scale[0] / pgm().scale[1]
    assert noisy.std(axis=0).mean() == pytest.approx(own, rel=0.04)
    assert noisy.std(axis=0).mean() != pytest.approx(own / 2, rel=0.04)


def test_a_peer_without_its_library_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(UsageError, match=r"private-pgm needs mbi.*run pip install mbi, or leave"):
        chosen_peers(["travas", "private-pgm"])
    assert chosen_peers(["travas"]) == ("travas",)
    with pytest.raises(UsageError, match="private-pgm, palsyn, got 'pripel'"):
        chosen_peers(["pripel"])
    with pytest.raises(UsageError, match="'travas' is there twice"):
        chosen_peers(["travas", "travas"])
    with pytest.raises(UsageError, match="travas is one of --peers"):
        chosen_methods(["travas"])


def test_private_pgm_refuses_a_budget_that_it_cannot_keep() -> None:
    Pgm().check("1", "1e-6")
    with pytest.raises(UsageError, match="delta"):
        Pgm().check("1", "0")
    with pytest.raises(UsageError, match="epsilon"):
        Pgm().check("-1", "1e-6")


@pytest.mark.filterwarnings("ignore")  # of jax
@pytest.mark.skipif(importlib.util.find_spec("mbi") is None, reason="mbi is no extra")
def test_private_pgm_comes_near_a_log_at_a_large_epsilon() -> None:
    require_mbi()
    found = pgm("100").release(randomness())
    own = histogram(COUNTS, NAMES)
    assert found.n_cases == pytest.approx(own.n_cases, abs=10)
    before, after, _ = aligned_variants(own, found)
    assert total_variation(before, after) < 0.05
