"""Whether a ledger is sound: each entry follows the one before, and says what a ledger writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import get_args

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.ledger.entries import (
    ACTIONS,
    FIRST_HASH,
    NOTES,
    OPEN,
    UNDRAWN,
    Action,
    Charge,
    Entry,
    OfKey,
    parse_decimal,
)
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.guarantee import Adjacency, Unit


class Chain:
    """A chain of entries that is checked one after the other."""

    def __init__(
        self,
        previous: Entry | None = None,
        past: Sequence[Entry] = (),
        was_decided: Callable[[OfKey, int], bool] = lambda *_: False,
    ) -> None:
        """Begins after entries that were checked before.

        Args:
            previous: The last of them; None: there are none.
            past: Those of them, without steps, about the releases that are checked now.
            was_decided: Whether a step of an epoch is among them.
        """
        self._previous = previous
        self._was_decided = was_decided
        self._states: dict[Charge, list[Action]] = defaultdict(list)
        self._of_windows: set[Charge] = set()
        self._committed: set[OfKey] = set()
        self._decided: set[tuple[OfKey, int]] = set()
        for entry in past:
            self._note(entry)

    def problems(self, entries: Sequence[Entry]) -> list[str]:
        """Returns what is wrong with the next entries, a sentence each; nothing if they are sound.

        Args:
            entries: In the order of their seq.
        """
        faults = []
        for entry in entries:
            faults += [f"entry {entry.seq}: {what}" for what in self._problems_of(entry)]
            self._note(entry)
            self._previous = entry
        return faults

    def _note(self, entry: Entry) -> None:
        if not entry.is_of_charge:
            return
        self._states[entry.charge].append(entry.action)
        if entry.action == "commit":
            self._committed.add(entry.of_key)
        if entry.action == "reserve":
            is_of_window = entry.window is not None
            (self._of_windows.add if is_of_window else self._of_windows.discard)(entry.charge)

    def _problems_of(self, entry: Entry) -> list[str]:
        faults = []
        previous = self._previous
        if entry.seq != (1 if previous is None else previous.seq + 1):
            faults.append("entries before it are missing")
        if entry.hash != entry.digest():
            faults.append("it was changed: its hash is not the hash of its columns")
        if entry.previous_hash != (FIRST_HASH if previous is None else previous.hash):
            faults.append("it does not follow the entry before it")
        faults += _odd_columns(entry)
        if entry.decided is not None:
            faults += self._problems_of_step(entry.of_key, entry.decided[0])
        if not entry.is_of_charge:
            return faults
        charge = entry.charge
        past = self._states[charge]
        if not may_follow(entry.action, past):
            faults.append(f"{entry.action} {f'after {past[-1]}' if past else 'without reserve'}")
        if entry.action == "claim" and charge not in self._of_windows:
            faults.append("claim without a window")
        elif entry.action == "draw" and charge in self._of_windows and past[-1:] != ["claim"]:
            faults.append("draw without claim")
        return faults

    def _problems_of_step(self, of_key: OfKey, step: int) -> Iterator[str]:
        if of_key not in self._committed:
            yield "step without commit"
        if (of_key, step) in self._decided or self._was_decided(of_key, step):
            yield f"step {step} is decided twice"
        self._decided.add((of_key, step))


def problems(entries: Sequence[Entry], known_hash: str | None = None) -> list[str]:
    """Returns what is wrong with a ledger, a sentence each; nothing if it is sound.

    Args:
        entries: All entries in the order of their seq.
        known_hash: The hash of an entry as it was noted elsewhere at an earlier time.
    """
    faults = Chain().problems(entries)
    if known_hash is not None and known_hash not in {FIRST_HASH, *(e.hash for e in entries)}:
        faults.append(
            "the known hash is of no entry: entries were removed from the end, or the chain was "
            "computed anew"
        )
    return faults


def may_follow(action: Action, past: Sequence[Action]) -> bool:
    """Returns whether an action on a charge can come after those that were before."""
    if action == "reserve":
        return not past or past[-1] == "void"
    if action == "commit":
        # Also after void: one of two runs of a release may fail while the other one succeeds.
        return bool(past) and past[-1] not in ("commit", "withdraw")
    if action == "withdraw":
        return bool(past) and past[-1] == "commit"
    before = {"claim": ("reserve",), "forfeit": OPEN}.get(action, UNDRAWN)
    return bool(past) and past[-1] in before


def _odd_columns(entry: Entry) -> list[str]:
    faults = []
    for name in ("epsilon", "delta"):
        text = getattr(entry, name)
        if text is not None and (what := _odd_decimal(text)):
            faults.append(f"{name} {what}")
    if entry.action not in ACTIONS:
        faults.append(f"action is not one of {', '.join(ACTIONS)}")
    known = {"unit": get_args(Unit), "adjacency": get_args(Adjacency)}
    if entry.is_of_charge:
        if entry.epsilon is not None and entry.delta is None:
            faults.append("delta is missing")
        if entry.action == "claim" and entry.units_sha256 is None:
            faults.append("units is not a SHA-256")
        if entry.details and "window" in entry.facts and entry.window is None:
            faults.append("window is not valid")
    elif entry.action in NOTES:
        known = {}
        if entry.decided is None:
            faults.append("step or sha256 is not valid")
    else:
        faults += [f"{name} is missing" for name in ("by", "reason") if name not in entry.facts]
        known = {"unit": known["unit"]} if entry.action == "account" else {}
    for name, values in known.items():
        if getattr(entry, name) not in values:
            faults.append(f"{name} is not one of {', '.join(values)}")
    return faults


@lru_cache(maxsize=1024)
def _odd_decimal(text: str) -> str:
    """Returns what is wrong with an exact decimal; empty: nothing. Ledgers repeat the same few."""
    try:
        return "" if decimal_text(parse_decimal(text)) == text else "is not in its one form"
    except UsageError:
        return "is no decimal"
