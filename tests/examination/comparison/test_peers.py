"""Peers: TraVaS' bound is the paper's, and Private-PGM measures and pays what it says."""

from __future__ import annotations

import importlib
import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from docs.hooks import results as pages_of_results
from docs.hooks.comparison_tables import log_lines
from tests.support.keys import randomness
from tests.support.logs import histogram
from tests.support.releasing import csv_log, tracecloak
from tracecloak.anonymizers.accounting.calibration import truncated_noise_bound
from tracecloak.examination.comparison.contenders import (
    Pgm,
    PrivatePgm,
    Registered,
    chosen_methods,
    chosen_peers,
    require_mbi,
)
from tracecloak.examination.comparison.original import COLUMNS
from tracecloak.examination.comparison.report import LogResults, Results, recordings
from tracecloak.examination.measure.utility import variant_distance
from tracecloak.schemas.errors import UsageError

NAMES = ["A", "B", "C"]
COUNTS = {("A", "B", "C"): 400, ("A", "C"): 200, ("B",): 100}


def test_travas_bounds_its_noise_as_the_paper_says() -> None:
    """K = ceil(ln((e^eps + 2 delta - 1) / ((e^eps + 1) delta)) / eps) of Desfontaines et al."""
    [(name, own)] = chosen_methods([], ["travas"]).items()
    assert name == "travas" and isinstance(own, Registered)
    params = own.parameters("1", "1e-6", ("A",), 3)
    assert (params.noise, own.method.name) == ("truncated", "variant-histogram")
    for e, delta in ((0.1, 1e-6), (1.0, 1e-6), (4.0, 1e-6)):
        k = math.ceil(math.log((math.exp(e) + 2 * delta - 1) / ((math.exp(e) + 1) * delta)) / e)
        assert truncated_noise_bound(Fraction(str(e)), Fraction(1, 10**6)) == k


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
    with pytest.raises(UsageError, match=r"private-pgm needs mbi.*run pip install"):
        chosen_peers(["travas", "private-pgm"])
    assert chosen_peers(["travas"]) == ("travas",)
    with pytest.raises(UsageError, match="private-pgm, palsyn, got 'pripel'"):
        chosen_peers(["pripel"])
    with pytest.raises(UsageError, match="'travas' is there twice"):
        chosen_peers(["travas", "travas"])
    with pytest.raises(UsageError, match="travas is one of the peers"):
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
    assert variant_distance(own, found) < 0.05


COMPARED = pages_of_results.comparison().model_copy(update={"recorded": ("palsyn",)})
LOGS = {log.name: log for log in COMPARED.logs}
ROW = "| palsyn (recorded) |"


def page_of(log: LogResults) -> str:
    return "\n".join(log_lines(COMPARED, log, "## Epsilon"))


def section_of(page: str, heading: str) -> str:
    (section,) = (text for text in page.split("## Epsilon ") if text.startswith(heading + "\n"))
    return section


def cells_of(section: str, name: str) -> list[str]:
    (line,) = (line for line in section.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


# --- where it stands ------------------------------------------------------------------------------


def test_a_row_stands_beside_those_of_its_log_and_epsilon() -> None:
    """With its figures, and below the table with what its epsilon leaves out."""
    for one in recordings()["palsyn"].figures:
        section = section_of(page_of(LOGS[one.log]), f"{one.epsilon}: logs with times")
        cells = cells_of(section, "palsyn (recorded)")
        assert cells[1] == one.delta and cells[-1] == "-"  # seconds are of another machine
        for cell, name in zip(cells[2:-1], COMPARED.columns("log")[:-1], strict=True):
            quartiles = one.figures[name]
            assert quartiles is not None
            shown = float(cell.split(" ")[0].replace(",", ""))
            assert shown == pytest.approx(quartiles[0], rel=0.05, abs=6e-4), name
        for clause in recordings()["palsyn"].unaccounted:
            assert clause in section


def test_a_recorded_row_is_never_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures that no method reaches, at an epsilon that is no true one."""
    recording = recordings()["palsyn"]
    figures = dict.fromkeys(COLUMNS["log"], (0.0, 0.0, 0.0))
    perfect = [one.model_copy(update={"figures": figures}) for one in recording.figures]
    better = recording.model_copy(update={"figures": tuple(perfect)})
    log = LOGS["bpic2013_closed"]
    (own,) = (one for one in log.releases if (one.method, one.epsilon) == ("private-log", "1"))
    second = own.model_copy(update={"method": "another-log"})
    two = log.model_copy(update={"releases": (own, second)})
    monkeypatch.setattr("docs.hooks.comparison_tables.recordings", lambda: {"palsyn": better})
    section = section_of(page_of(two), "1: logs with times")
    assert cells_of(section, "palsyn (recorded)")[2] == "0.000"
    assert "**" in cells_of(section, "private-log")[2]


# --- the command ----------------------------------------------------------------------------------


def test_a_recorded_peer_is_asked_for_by_name_and_not_run(tmp_path: Path) -> None:
    assert list(chosen_methods(["privtree"], ["palsyn", "travas"])) == ["privtree", "travas"]
    events = [(f"c{i}", name, f"2026-01-01T10:{step:02d}:00+00:00")
              for i in range(30) for step, name in enumerate("AB")]  # fmt: skip
    log = csv_log(tmp_path / "hospital.csv", events)
    flags = ("--methods", "privtree", "--peers", "palsyn", "--epsilons", 1, "--repetitions", 1)
    assert tracecloak("compare", "--log", log, "--output", tmp_path / "page.html", *flags) == 0
    results = Results.model_validate_json((tmp_path / "page.json").read_text(encoding="utf-8"))
    assert results.recorded == ("palsyn",)
    assert {release.method for release in results.logs[0].releases} == {"privtree"}
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "`palsyn` cannot run in this process, and no figures of it are recorded" in page
    assert '"recorded":[],' in page
    assert "palsyn is recorded, not run here, and stands at the epsilon that it declares" in page
