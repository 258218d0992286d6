"""What a ledger has forgotten and a key store's copy has: how it comes to count again.

Nothing is given back: charges of the copy count as spent again, and declarations hold again.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from tracecloak.pipelines.ledger.chain import may_follow
from tracecloak.pipelines.ledger.entries import Action, Charge, Entry, Step, decided_of, windowed
from tracecloak.pipelines.ledger.memory import Copy, LedgerMemory
from tracecloak.pipelines.ledger.past import Past

# How a charge came to be what it is, at least: `may_follow` leaves out what is there already.
_WAYS: Mapping[str, Sequence[Action]] = {
    "reserve": ("reserve",),
    "claim": ("reserve",),
    "draw": ("reserve", "draw"),
    "commit": ("reserve", "commit"),
    "forfeit": ("reserve", "forfeit"),
    "withdraw": ("reserve", "commit", "withdraw"),
}


def accepting(memory: LedgerMemory, past: Past, copies: Sequence[Copy]) -> dict[str, Any]:
    """Returns the details of an entry `accept`, which end the complaints."""
    noted = memory.noted(past)
    details: dict[str, Any] = {}
    for copy in memory.lost(past, copies)[-1:]:
        details["lost"] = {"seq": copy.head.seq, "hash": copy.head.hash}
    if noted > memory.store.generation():
        details |= {"store": memory.store.identity(), "generation": noted}
    return details


def accepted(memory: LedgerMemory, entries: Sequence[Entry]) -> None:
    """Makes a ledger with its entry `accept` the one that the key store remembers.

    Raises:
        KeyStoreError: The key store cannot be written.
    """
    memory.accept(entries)
    with contextlib.closing(memory.begun()) as past:
        memory.store.next_generation(at_least=memory.noted(past))


def forgotten(memory: LedgerMemory, past: Past, copies: Sequence[Copy]) -> list[Step]:
    """Returns what to write into a ledger so that it knows again what the copy knows.

    What counts as spent in the copy counts again, and what was declared later than what the
    ledger has is declared again. Nothing is taken away. Of several copies that know more, it is
    the one that knows most.

    What a window counted is claimed again, too. Where others claimed units of the same scope
    while that was forgotten, one unit may be in two windows: so it adds up from then on.
    """
    entries, lost = past.entries(), memory.lost(past, copies)
    seen = memory.entries_in(lost[-1].name if lost else memory.file)
    marked = {"again": True}
    steps: list[Step] = [
        (entry.action, asdict(entry), {**entry.facts, **marked})
        for name, entry in _declarations(seen).items()
        if name not in (now := _declarations(entries)) or now[name].recorded_at < entry.recorded_at
    ]
    pasts = _actions(entries)
    claims = {charge: one.claim for charge, one in windowed(seen).items()}
    overtaken = _scopes_claimed_since(entries, seen)
    for charge, actions in _actions(seen).items():
        reserved, last = _ends(seen, charge)
        claim, window = claims.get(charge), reserved.window
        known = pasts[charge]
        for action in _way(actions[-1], claim is not None):
            if may_follow(action, known):
                known.append(action)
                facts = reserved.facts if action == "reserve" else {}
                facts = last.facts if action == last.action != "reserve" else facts
                if action == "claim" and claim is not None:
                    facts = claim.facts
                    if window is not None and window.scope in overtaken:
                        facts = {**facts, **replace(window, adds_up=True).facts()}
                steps.append((action, asdict(last), {**facts, **marked}))
    of_keys = {entry.of_key for entry in seen if entry.decided is not None}
    decided = {of_key: decided_of(entries, of_key) for of_key in of_keys}
    for entry in seen:
        if entry.decided is not None and entry.decided[0] not in decided[entry.of_key]:
            steps.append((entry.action, asdict(entry), {**entry.facts, **marked}))
    return steps


def _declarations(entries: Sequence[Entry]) -> dict[tuple[str, str], Entry]:
    """Returns the last declaration of each account and each data set."""
    return {
        (entry.action, str(entry.facts.get("dataset", "")) or entry.account): entry
        for entry in entries
        if entry.action in ("account", "dataset")
    }


def _actions(entries: Sequence[Entry]) -> dict[Charge, list[Action]]:
    """Returns what happened to each charge, in order."""
    actions: dict[Charge, list[Action]] = defaultdict(list)
    for entry in entries:
        if entry.is_of_charge:
            actions[entry.charge].append(entry.action)
    return actions


def _way(last: Action, has_claim: bool) -> Sequence[Action]:
    """Returns how a charge came to be what it is, at least."""
    way = _WAYS.get(last, ())
    return ("reserve", "claim", *way[1:]) if way and has_claim else way


def _scopes_claimed_since(entries: Sequence[Entry], seen: Sequence[Entry]) -> set[str]:
    """Returns the scopes in which a ledger has claims that were not seen of it."""

    def claims(of: Sequence[Entry]) -> set[tuple[Charge, str | None, str]]:
        return {
            (charge, one.claim.units_sha256, one.window.scope)
            for charge, one in windowed(of).items()
            if one.claim is not None
        }

    return {scope for _, _, scope in claims(entries) - claims(seen)}


def _ends(entries: Sequence[Entry], charge: Charge) -> tuple[Entry, Entry]:
    """Returns the last entry that reserved a charge, and its last entry of all."""
    of_charge = [entry for entry in entries if entry.is_of_charge and entry.charge == charge]
    reserved = [entry for entry in of_charge if entry.action == "reserve"]
    return reserved[-1], of_charge[-1]
