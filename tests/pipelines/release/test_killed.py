"""A command killed at any step (SIGKILL) leaves all of a release or nothing, and never unpaid.

The killed run and the next one are given different keys. So a second draw, which would put noise
for the same cases into the world twice, shows: it has other bytes, and another fingerprint in the
ledger. The account's cap is what one release costs, so a second charge shows as exit code 4.
"""

import functools
import hashlib
import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.releasing import (
    Commands,
    Ended,
    check_finished,
    check_whole,
    counting_charges,
    csv_log,
    digests,
    ledger_entries,
    manifest,
    small_rows,
    visible,
)
from tests.support.tiers import at_night
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.pipelines.ledger.snapshot import problems

FIRST, SECOND = b"1" * 32, b"2" * 32

METHODS = {
    "variant-histogram": ("--epsilon", "1", "--delta", "1e-5"),
    "private-dfg": (
        "--epsilon", "1", "--delta", "1e-5", "--l2_clip", "4", "--vocabulary", "names.txt",
        "--durations",
    ),
    "amun": ("--mode", "sampling"),
}  # fmt: skip


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    csv_log(folder / "log.csv", list(small_rows(60)))
    (folder / "names.txt").write_text("A\nB\nC\n")
    (folder / "accounts.yaml").write_text(
        "accounts:\n"
        "  capped: {epsilon: 1, delta: 1e-5, unit: case}\n"
        "  free: {epsilon: null, delta: null, unit: case}\n"
    )
    return folder


class Releases:
    """Runs the release of one method, to one place."""

    def __init__(self, commands: Commands, inputs: Path, folder: Path, method: str) -> None:
        self._commands = commands
        self._inputs = inputs
        self.method = method
        self.out, self.keys = folder / "out", folder / "keys"
        self.release = self.out / "run_id=r"

    def run(self, secret: bytes, at: str = "", runner: str = "InMemory") -> Ended:
        flags = [
            self._inputs / flag if flag == "names.txt" else flag for flag in METHODS[self.method]
        ]
        return self._commands.run(
            "release", "--log", self._inputs / "log.csv", "--output", self.out, "--key_store",
            self.keys, "--method", self.method, *flags, "--release_id", "r", "--runner", runner,
            "--parts", 2, "--accounts", self._inputs / "accounts.yaml", "--account",
            "free" if self.method == "amun" else "capped",
            at=at, secret=secret,
        )  # fmt: skip

    def check_paid_once(self) -> None:
        """The ledger is sound and says exactly once what the visible release costs."""
        assert problems(ledger_entries(self.keys)) == []
        (charge,) = counting_charges(self.keys)
        said = manifest(self.release)
        assert charge.key_fingerprint == said["randomness"]["key_fingerprint"]
        assert charge.config_digest == said["config_digest"]
        if self.method != "amun":
            assert (charge.epsilon, charge.delta) == ("1", "0.00001")
            assert (said["guarantee"]["epsilon"], said["guarantee"]["delta"]) == (1, 1e-5)

    def check_finished(self, secret: bytes) -> None:
        self.check_paid_once()
        assert check_finished(self.out, self.keys) == ReleaseKey(secret).fingerprint
        actions = [entry.action for entry in ledger_entries(self.keys)]
        assert actions == ["reserve", "draw", "commit"]


Expected = Callable[[str, bytes], dict[str, str]]


@pytest.fixture(scope="module")
def expected(
    commands: Commands, inputs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Expected:
    """The files of runs that nobody disturbed, by method and key; each is made when asked for."""

    @functools.cache
    def run(method: str, secret: bytes) -> dict[str, str]:
        whole = Releases(commands, inputs, tmp_path_factory.mktemp("whole"), method)
        assert whole.run(secret).code == 0
        whole.check_finished(secret)
        return digests(whole.release)

    return run


# --- The steps of a release, in their order -----------------------------------------------------

# The store's secret is private file 1, that of the deployment 2, the key 3, its receipt 4, the
# count of reservations 5, the gate 6. Renames: the release appears,
# latest points at it, the internal statement. Rows of the ledger, and copies of them: reserve,
# draw, commit; which cases were read is a row between the last two.
WITHOUT_KEY = ["before key", "before private file 3", "after private file 3"]
HIDDEN = [
    *("after private file 4", "after key"),
    *("before charge", "before private file 5", "after private file 5", "before insert 1"),
    *("after insert 1", "before copy 1", "after copy 1", "after charge"),
    *("before discard 1", "after discard 1", "before count 1", "after count 1"),
    *("before draw", "before insert 2", "after insert 2", "before copy 2", "after copy 2"),
    *("after draw",),
    *("before decide", "after decide", "before write 1", "before bytes 1", "after bytes 1"),
    *("after write 1", "before write 3", "after write 3", "before commit", "before rename 1"),
]
SHOWN = [
    *("after rename 1", "after commit", "before insert 3", "after insert 3"),
    *("before latest", "before rename 2", "after rename 2"),
    *("before ledger", "before insert 4", "after insert 4", "before copy 3", "after copy 3"),
    *("after ledger", "before clear", "after clear", "before receipt", "before key's end"),
    *("after key's end", "after receipt"),
    *("before statement", "after statement"),
]
# Kills before which the ledger does not know of the release.
UNCHARGED = [*WITHOUT_KEY, *HIDDEN[:7]]
KILLS = [*WITHOUT_KEY, *HIDDEN, *SHOWN]
# A key that nothing was charged for, a charge, what was decided, all files, the release, and its
# commit in the ledger.
SOME = [
    *("after private file 4", "after insert 1", "after decide"),
    *("before rename 1", "after rename 1", "after insert 4"),
]
BY_DAY = {
    *(("variant-histogram", "InMemory", kill) for kill in SOME),
    *(("private-dfg", "InMemory", kill)
      for kill in ("after insert 1", "before rename 1", "before ledger")),
    ("variant-histogram", "FnApiRunner", "before write 3"),
}  # fmt: skip
FILES = [
    *(f"{when} write {n}" for when in ("before", "after") for n in (2, 4, 5)),
    *(f"after bytes {n}" for n in (2, 3, 5, 8)),
]
ALL = [
    *((method, runner, kill) for method in ("variant-histogram", "private-dfg")
      for runner in ("InMemory", "FnApiRunner") for kill in (*KILLS, *FILES)),
    *(("amun", "InMemory", kill) for kill in (*SOME[:2], *SOME[3:], "before write 3",
                                              "before key's end", "before statement")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "runner", "kill"), [row if row in BY_DAY else at_night(*row) for row in ALL]
)
def test_a_killed_release_is_all_or_nothing_paid_once_and_completed_by_the_next_run(
    commands: Commands,
    inputs: Path,
    expected: Expected,
    tmp_path: Path,
    method: str,
    runner: str,
    kill: str,
) -> None:
    """Catches a second draw or charge after a kill, and what a kill leaves for good (a key, say).

    Of a method with a log, one without, and one without epsilon. `expected` is made of undisturbed
    runs, so the bytes are compared with what should have been.
    """
    releases = Releases(commands, inputs, tmp_path, method)
    assert expected(method, FIRST) != expected(method, SECOND)  # the control: keys show by bytes
    at = kill
    if kill.endswith("decide"):
        at = f"{kill} {'graph' if method == 'private-dfg' else 'variants'}"
    assert releases.run(FIRST, f"kill {at}", runner).code == -signal.SIGKILL

    # (a) What is visible is all of it, and paid for; what is not paid for is not visible.
    if kill in SHOWN:
        check_whole(releases.release)
        releases.check_paid_once()
        assert digests(releases.release) == expected(method, FIRST)
    else:
        assert visible(releases.out) == []
    assert len(counting_charges(releases.keys)) == (kill not in UNCHARGED)

    # (b) The next run completes the same release. Only where no key was reserved is there no other
    # way than a new one, and then nothing was charged, counted or drawn under the old one.
    secret = SECOND if kill in WITHOUT_KEY else FIRST
    ended = releases.run(SECOND, runner=runner)
    assert ended.code == 0, ended.text
    assert ("already released" in ended.text) == (kill in SHOWN)
    assert digests(releases.release) == expected(method, secret)

    # (c) It is charged once, and so it stays.
    releases.check_finished(secret)
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in visible(releases.out)}
    again = releases.run(SECOND)
    assert again.code == 0 and "already released" in again.text
    assert before == {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in visible(releases.out)}
    releases.check_finished(secret)


def test_a_run_killed_again_and_again_is_one_draw_and_one_charge(
    commands: Commands, inputs: Path, expected: Expected, tmp_path: Path
) -> None:
    releases = Releases(commands, inputs, tmp_path, "variant-histogram")
    assert releases.run(FIRST, "kill after key").code == -signal.SIGKILL
    for kill in ("after insert 1", "after charge", "after decide variants", "after rename 1",
                 "before ledger", "after insert 1", "before receipt", "before key's end",
                 "before statement"):  # fmt: skip
        assert releases.run(SECOND, f"kill {kill}").code == -signal.SIGKILL, kill
    assert releases.run(SECOND).code == 0
    assert digests(releases.release) == expected("variant-histogram", FIRST)
    releases.check_finished(FIRST)


def test_a_kill_at_no_step_is_none_and_the_checks_can_fail(
    commands: Commands, inputs: Path, tmp_path: Path
) -> None:
    """The control of this file: a wrong byte, an unpaid release and a second charge are noticed."""
    releases = Releases(commands, inputs, tmp_path, "variant-histogram")
    assert releases.run(FIRST, "kill before write 99").code == 0
    releases.check_finished(FIRST)
    with pytest.raises(AssertionError):
        releases.check_finished(SECOND)
    part = releases.release / "variants.json"
    text = part.read_bytes()
    part.write_bytes(text + b" ")
    assert hashlib.sha256(part.read_bytes()).hexdigest() not in json.dumps(
        manifest(releases.release)
    )
    with pytest.raises(AssertionError):
        check_whole(releases.release)
    part.write_bytes(text)
    (releases.keys / "ledger.db").unlink()
    with pytest.raises((AssertionError, ValueError)):
        releases.check_paid_once()
