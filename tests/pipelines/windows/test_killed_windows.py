"""A release of a window that is killed at any step is paid once, and no unit counts twice.

Between the killed run and the next one another window is released. So units that the killed run had
claimed, or had not yet, meet those of the other one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.windows.test_releases_of_windows import Lake
from tests.support.ledgers import windowed
from tests.support.releasing import Commands, Ended, check_whole, ledger_entries, manifest
from tests.support.tiers import at_night
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.balance import charges
from tracecloak.pipelines.ledger.case_registry import Claimed, units_of
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger
from tracecloak.pipelines.ledger.snapshot import problems

FIRST, SECOND, OTHER = b"1" * 32, b"2" * 32, b"3" * 32

# The steps of a release in their order. Before the draw it is made anew by the next run.
BEFORE_DRAW = (
    "after key", "before charge", "after charge", "before claim", "before insert 2",
    "after insert 2", "before units", "after units", "after insert 3", "after claim",
    "before count", "after count",
    "before draw", "before insert 4",
)  # fmt: skip
AFTER_DRAW = (
    "after draw", "before decide variants", "after decide variants", "before write", "after write",
    "before commit", "before rename", "after rename", "before latest", "before ledger",
    "after ledger", "before key's end", "after key's end",
)  # fmt: skip
BY_DAY = {"after units", "after claim", "after draw"}


class Windows:
    """Two windows of one lake, and a case that moves from the first to the second."""

    def __init__(self, folder: Path, commands: Commands) -> None:
        self.lake = Lake(folder)
        self._commands = commands

    def run(self, window: str, secret: bytes, at: str = "") -> Ended:
        return self._commands.run(
            "release", self.lake.config, "--window", window, at=at, secret=secret
        )

    def check(self) -> None:
        """Both windows are there, each paid once, with no unit in common."""
        entries = ledger_entries(self.lake.folder / "keys")
        assert problems(entries) == []
        last = charges(entries)
        counting = {c: w for c, w in windowed(entries).items() if last[c].action != "void"}
        assert sorted(w.window.label for w in counting.values()) == ["2026-01", "2026-02"]
        assert {last[charge].action for charge in counting} == {"commit"}
        assert self.lake.spent == "3"
        for of_window in counting.values():
            assert of_window.claim is not None
        ledger = OfficersLedger(KeyStore(self.lake.folder / "keys").ledger_url)
        one, other = (
            claim.units for claim in units_of(ledger, entries) if isinstance(claim, Claimed)
        )
        assert len(one.digests) and len(other.digests)
        assert not one.holds(other.digests).any()
        for window in ("2026-01", "2026-02"):
            check_whole(self.lake.released(window))


@pytest.mark.parametrize(
    "at", [at if at in BY_DAY else at_night(at) for at in (*BEFORE_DRAW, *AFTER_DRAW)]
)
def test_a_killed_window_is_paid_once_and_shares_no_unit(
    tmp_path: Path, commands: Commands, at: str
) -> None:
    windows = Windows(tmp_path, commands)
    assert windows.run("2026-01", FIRST, f"kill {at}").code == -9
    assert windows.run("2026-02", OTHER).code == 0
    ended = windows.run("2026-01", SECOND)
    assert ended.code == 0, ended.text
    windows.check()
    # By the key one sees whose noise it is: the next run has another one, and does not draw anew.
    used = manifest(windows.lake.released("2026-01"))["randomness"]["key_fingerprint"]
    assert used == ReleaseKey(FIRST).fingerprint


@pytest.mark.parametrize("at", ["after units", "after charge"])
def test_before_the_draw_other_input_begins_anew(
    tmp_path: Path, commands: Commands, at: str
) -> None:
    windows = Windows(tmp_path, commands)
    assert windows.run("2026-01", FIRST, f"kill {at}").code == -9
    windows.lake.move_a_case()
    assert windows.run("2026-02", OTHER).code == 0
    assert windows.run("2026-01", SECOND).code == 0
    windows.check()


def test_after_the_claim_what_moved_meanwhile_is_not_counted_elsewhere_until_it_is_given_back(
    tmp_path: Path, commands: Commands
) -> None:
    windows = Windows(tmp_path, commands)
    assert windows.run("2026-01", FIRST, "kill after claim").code == -9
    windows.lake.move_a_case()
    ended = windows.run("2026-02", OTHER)
    assert ended.code == 0
    [kept] = (windows.lake.folder / "keys" / "operator").glob("ward-2026-02-*/operator.log")
    assert "as they counted in other windows: 1" in kept.read_text()
    assert windows.run("2026-01", SECOND).code == 0
    windows.check()
