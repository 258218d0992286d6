"""Decisions that are kept: what a repetition finds, and what it never takes for one."""

from __future__ import annotations

import pickle
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.support.keys import randomness, release_key
from tracecloak.anonymizers.contract.in_memory import decided
from tracecloak.anonymizers.contract.method import Decision
from tracecloak.anonymizers.rigorous.bought import VocabularyDecision
from tracecloak.pipelines.budget.draw_guard import draw_guard_of
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.transforms.batch.job import KeptDraws
from tracecloak.transforms.keys.wrapping import KeyReference


def decision(*names: str) -> VocabularyDecision:
    return VocabularyDecision(ActivityVocabulary.of(names))


@dataclass
class Kept:
    """Draws in a folder, and how often they were made and the gate was passed."""

    folder: Path
    key: KeyReference
    n_drawn: int = 0
    n_passed: int = 0

    def once(self, made: Decision, round_name: str = "one", digest: str = "input") -> Decision:
        draws = KeptDraws(str(self.folder), self.key, self._pass)
        return draws.once(round_name, randomness(input_digest=digest), self._drawing(made))

    def _drawing(self, made: Decision) -> Callable[[], Decision]:
        def draw() -> Decision:
            self.n_drawn += 1
            return made

        return draw

    def _pass(self) -> None:
        self.n_passed += 1


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    path = tmp_path / "key"
    path.write_text(release_key().hex())
    return Kept(tmp_path / "decisions", KeyReference(f"file:{path}", release_key().fingerprint))


def test_a_round_is_decided_once(kept: Kept) -> None:
    """Catches a second draw on a retry, whose counts might be others."""
    first = kept.once(decision("A", "B"))
    assert decided({"one": kept.once(decision("C"))}) == decided({"one": first})
    assert decided({"one": first}) == decided({"one": decision("A", "B")})
    assert (kept.n_drawn, kept.n_passed) == (1, 1)
    kept.once(decision("C"), "two")
    assert (kept.n_drawn, kept.n_passed) == (2, 2)
    (path, _) = kept.folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_gate_comes_before_the_draw(kept: Kept) -> None:
    def closed() -> None:
        raise UsageError("closed")

    draws = KeptDraws(str(kept.folder), kept.key, closed)
    with pytest.raises(UsageError, match="closed"):
        draws.once("one", randomness(), lambda: pytest.fail("drawn"))
    assert not kept.folder.exists()
    assert pickle.loads(pickle.dumps(KeptDraws("f", kept.key))) == KeptDraws("f", kept.key)  # noqa: S301


def test_another_input_is_refused(kept: Kept) -> None:
    """Catches equal noise on other sums, or a second draw of them for one payment."""
    kept.once(decision("A"))
    with pytest.raises(UsageError, match="round 'one' was decided on another input"):
        kept.once(decision("A"), digest="other")
    assert kept.n_drawn == 1


def test_what_somebody_wrote_there_is_no_decision(kept: Kept) -> None:
    """Catches bytes that are trusted because of where they lie."""
    kept.once(decision("A"))
    kept.once(decision("B"), "two")
    first, second = kept.folder.iterdir()
    whole = first.read_bytes()
    for wrong in (b"", whole[:-1], whole[:40] + b"\0" + whole[41:], second.read_bytes()):
        first.write_bytes(wrong)
        with pytest.raises(TracecloakError, match="is not what tracecloak wrote there"):
            for name in ("one", "two"):
                kept.once(decision("A"), name)
    assert kept.n_drawn == 2


def test_with_the_key_gone_or_another_one_nothing_is_drawn(kept: Kept, tmp_path: Path) -> None:
    """Catches a run that goes on, on a cluster say, after its release was given up."""
    (tmp_path / "key").write_text("ab" * 32)
    with pytest.raises(UsageError, match="whose release was abandoned"):
        kept.once(decision("A"))
    (tmp_path / "key").unlink()
    with pytest.raises(UsageError, match="no key of 64 hex digits"):
        kept.once(decision("A"))
    assert kept.n_drawn == 0


def test_later_noise_depends_on_what_was_decided_and_identities_do_not() -> None:
    first = randomness()
    cells = np.zeros((4, 2), np.uint64)
    names = ActivityVocabulary.of(("A", "B")).names
    assert decided({}) == ""
    assert first.after("") is first
    streams = [first, *(first.after(decided({"one": decision(x)})) for x in "AB")]
    streams.append(first.after(decided({"two": decision("A")})))
    drawn = {s.words("noise", cells).tobytes() for s in streams}
    assert len(drawn) == len(streams)
    assert len({s.identify("case", names).tobytes() for s in streams}) == 1
    again = first.after("x").after(decided({"one": decision("A")}))  # of all rounds, not a chain
    assert again.words("noise", cells).tobytes() == streams[1].words("noise", cells).tobytes()
    assert len({s.unit_stream.words("unit", cells).tobytes() for s in streams}) == 1


def test_a_gate_of_a_release_that_ended_is_closed(tmp_path: Path) -> None:
    """Catches a worker that draws after the command has given the reservation back."""
    store = KeyStore(tmp_path)
    key = store.reserve("out", "r", "in", "conf")
    gate = draw_guard_of(store, ("out", "r", key.fingerprint), "sqlite://")
    assert b"sqlite" not in pickle.dumps(gate)  # a URL can have a password
    store.forget("out", "r")
    with pytest.raises(UsageError, match="was ended meanwhile"):
        gate()
