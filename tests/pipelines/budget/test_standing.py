"""What a release is by ledger, folder and key: every combination, and what the next run does."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from docs.hooks.tables import code, plain
from tests.pipelines.budget.test_windows import chained
from tests.support.ledgers import begun_anew, reservation
from tests.support.releasing import ROOT, csv_log, ledger_entries, small_rows, tracecloak
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.pipelines.budget.registry import (
    TABLE,
    FolderState,
    LedgerState,
    State,
    ledger_state,
    state_of,
)
from tracecloak.pipelines.keys.key_store import KeyState, KeyStore
from tracecloak.pipelines.ledger.balance import charge_states
from tracecloak.pipelines.ledger.entries import Entry

LEDGER, FOLDER, KEY = get_args(LedgerState), get_args(FolderState), get_args(KeyState)
EVERY = list(itertools.product(LEDGER, FOLDER, KEY))


def test_the_documents_print_the_table_in_its_order() -> None:
    """Of 96 combinations each has its state by the page: catches a row that is lost or moved."""
    lines = []
    for row in TABLE:
        cells = [
            " or ".join(map(code, said)) or "any" for said in (row.ledger, row.folder, row.key)
        ]
        lines.append(f"| {row.state} | {' | '.join(cells)} | {plain(row.next_run)} |")
    page = (ROOT / "docs" / "reference" / "states.md").read_text()
    assert "\n".join(lines) + "\n\n" in page
    assert len({said: state_of(*said) for said in EVERY}) == 96


@pytest.mark.parametrize(
    ("actions", "says"),
    [
        ("reserve", "reserved"), ("reserve claim", "reserved"), ("reserve draw", "drawn"),
        ("reserve draw commit", "committed"), ("reserve void", "given back"),
        ("reserve draw forfeit", "given up"), ("reserve void reserve", "reserved"),
        ("reserve draw, reserve", "drawn"), ("reserve draw, reserve void", "drawn"),
        ("reserve draw commit, reserve draw", "committed"),
        ("reserve void, reserve", "reserved"), ("reserve draw forfeit, reserve", "reserved"),
        ("reserve draw commit withdraw, reserve", "withdrawn"),
    ],
)  # fmt: skip
def test_what_the_ledger_says_under_one_key_is_what_was_drawn(
    actions: str, says: LedgerState
) -> None:
    """Charges of one key are parted by commas; catches noise that a later charge hides."""
    entries = chained(
        *(
            (action, reservation(epsilon=str(1 + number)))
            for number, of_charge in enumerate(actions.split(", "))
            for action in of_charge.split()
        )
    )
    states = list(charge_states(entries).values())
    assert ledger_state(states, "k") == says
    assert ledger_state(states, "another") in ("nothing", "withdrawn")


# --- What the next run does ---------------------------------------------------------------------


class World:
    """One release, whose witnesses can be made to say anything."""

    def __init__(self, folder: Path) -> None:
        self.out, self.keys = folder / "out", folder / "keys"
        self.log = csv_log(folder / "log.csv", list(small_rows(20)))
        self.place = self.out / "run_id=r"
        with pytest.MonkeyPatch.context() as patch:
            key = ReleaseKey(b"k" * 32)
            patch.setattr(ReleaseKey, "generate", classmethod(lambda _: key))
            assert self.run() == 0
        self.reserved = ledger_entries(self.keys)[0]
        self.store = KeyStore(self.keys)
        self.key_path = self.store._path(str(self.out), "r", ".key")
        self.key_path.write_text(key.hex())

    def run(self) -> int:
        return tracecloak(
            "release", "--log", self.log, "--output", self.out, "--key_store", self.keys,
            "--method", "variant-histogram", "--epsilon", 8, "--delta", "1e-5", "--release_id",
            "r", "--runner", "InMemory", "--cases_kept_days", 0, "--parts", 1, "--formats",
            "parquet",
        )  # fmt: skip

    def say(self, ledger: LedgerState, folder: FolderState, key: KeyState) -> None:
        self._ledger_says(ledger)
        if folder == "nothing":
            shutil.rmtree(self.place)
        elif folder == "another's":
            path = self.place / "manifest.json"
            body = json.loads(path.read_text())
            body["randomness"]["key_fingerprint"] = "0" * 16
            path.write_text(json.dumps(body))
        if key != "there":
            self.key_path.unlink()
        if key == "none":
            self.key_path.with_suffix(".json").unlink()
        if ledger == "another ledger":
            self.key_path.with_suffix(".gate").write_text('{"ledger": "sqlite:////elsewhere.db"}')

    def _ledger_says(self, ledger: LedgerState) -> None:
        fresh = begun_anew(self.keys)
        keyed_release = self.reserved.keyed_release
        ways: dict[LedgerState, tuple[Callable[[], object], ...]] = {
            "drawn": (lambda: fresh.draw(*keyed_release),),
            "committed": (lambda: fresh.commit(*keyed_release),),
            "given back": (lambda: fresh.void(*keyed_release),),
            "given up": (lambda: fresh.forfeit(*keyed_release, "me", "a test"),),
            "withdrawn": (
                lambda: fresh.commit(*keyed_release),
                lambda: fresh.withdraw(*keyed_release[:2], "me", "a test"),
            ),
        }
        if ledger in ("nothing", "another ledger"):
            return
        columns = {name: getattr(self.reserved, name) for name in Entry.__dataclass_fields__}
        fresh.append(lambda _: [("reserve", columns, None)])
        for step in ways.get(ledger, ()):
            step()

    def actions(self) -> list[str]:
        return [entry.action for entry in ledger_entries(self.keys)]


# Exit code of the next run, what it adds to the ledger, and whether the release is there then.
NEXT: dict[State, tuple[int, list[str], bool]] = {
    "withdrawn": (2, [], False),
    "made elsewhere": (2, [], True),
    "released": (0, [], True),
    "another ledger": (2, [], False),
    "given up": (0, ["reserve", "draw", "commit"], True),
    "gone": (2, [], False),
    "key lost": (75, [], False),
    "new": (0, ["reserve", "draw", "commit"], True),
}
REAL = [
    said for said in EVERY
    if "parts" not in said and (said[0], said[2]) != ("another ledger", "none")
]  # fmt: skip
BY_DAY = [
    ("withdrawn", "nothing", "ended"), ("nothing", "another's", "there"),
    ("drawn", "this release", "there"), ("committed", "this release", "ended"),
    ("another ledger", "nothing", "there"), ("given up", "nothing", "there"),
    ("drawn", "nothing", "there"), ("reserved", "nothing", "there"),
    ("given back", "nothing", "there"), ("committed", "nothing", "ended"),
    ("drawn", "nothing", "ended"), ("nothing", "nothing", "none"), ("drawn", "nothing", "none"),
]  # fmt: skip


def next_of(ledger: LedgerState, state: State) -> tuple[int, list[str], bool]:
    if state == "visible":
        # A ledger that never knew of it cannot note it, which leaves the key for who names it.
        return (7, [], True) if ledger in ("nothing", "another ledger") else (
            0, [] if ledger == "committed" else ["commit"], True,
        )  # fmt: skip
    if state == "drawn":
        return 0, [] if ledger == "committed" else ["commit"], True
    if state == "reserved":
        added = ["draw", "commit"] if ledger == "reserved" else ["reserve", "draw", "commit"]
        return 0, added, True
    if state == "new" and ledger in ("reserved", "drawn", "committed"):
        return 75, [], False  # under a key that this key store never had
    return NEXT[state]


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(said, id=" ".join(said), marks=[] if said in BY_DAY else [pytest.mark.slow])
        for said in REAL
    ],
)
def test_the_next_run_does_what_the_table_says(
    tmp_path: Path, said: tuple[LedgerState, FolderState, KeyState]
) -> None:
    world = World(tmp_path)
    world.say(*said)
    before, state = world.actions(), state_of(*said)
    code, added, is_there = next_of(said[0], state)
    assert world.run() == code, state
    assert world.actions() == [*before, *added]
    if state != "withdrawn":  # of which files that stay are for the officer's command
        assert (world.place / "manifest.json").exists() == is_there
    if code == 0 and state not in ("made elsewhere", "withdrawn"):
        assert not list(world.keys.rglob("*.key"))
