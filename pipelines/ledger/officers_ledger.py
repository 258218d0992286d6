"""What people do to a ledger by hand, each with their name and why: caps, ends, and acceptance.

What a ledger has forgotten and a key store's copy has: how it comes to count again.

Nothing is given back: charges of the copy count as spent again, and declarations hold again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.ledger.balance import ChargeState, advance, charge_states
from tracecloak.pipelines.ledger.cache import Copy, LedgerCache, differs_text
from tracecloak.pipelines.ledger.caps import ANY_STORE, Account, awaited_stores, check_declared
from tracecloak.pipelines.ledger.entries import (
    NO_COLUMNS,
    Charge,
    Declaration,
    Entry,
    Step,
    require_text,
    signed,
)
from tracecloak.pipelines.ledger.ledger import Ledger, steps_of
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot, may_follow
from tracecloak.schemas.errors import UsageError


@dataclass(frozen=True)
class Accepted:
    """What an entry `accept` ended.

    Attributes:
        complaints: What ledger and key store did not agree on.
        again: What was written into the ledger again, as it is now in it.
        awaited: Key stores for which a restored ledger still waits.
    """

    complaints: Sequence[str]
    again: Sequence[Entry]
    awaited: Sequence[str] = ()


class OfficersLedger(Ledger):
    """A ledger as its officer has it, who declares, ends and accepts; see `Ledger`."""

    _may_begin_beside_caps = True

    def forfeit(
        self, output: str, release_id: str, key_fingerprint: str, by: str, reason: str
    ) -> None:
        """Gives up a release that is not finished: it stays spent, and draws nothing any more.

        Args:
            output: The folder of all releases.
            release_id: The release's name.
            key_fingerprint: Tells release keys apart.
            by: Who gives it up.
            reason: Why.

        Raises:
            UsageError: There is no open charge of it, or nobody and no reason is named.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        self._end(
            "forfeit",
            (output, release_id, key_fingerprint),
            f"release {release_id!r} in {output} has no open reservation in {self.place}; "
            "`tracecloak ledger list-unfinished` lists those that have one",
            signed(by, reason),
        )

    def withdraw(self, output: str, release_id: str, by: str, reason: str) -> None:
        """Notes that a committed release is taken back; it stays spent. Once noted, does nothing.

        Args:
            output: The folder of all releases.
            release_id: The release's name, under whatever keys it was made.
            by: Who takes it back.
            reason: Why.

        Raises:
            UsageError: There is no committed charge of it, or nobody and no reason is named.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        states = self.states(output, release_id)
        is_open = [state.last for state in states if state.last.is_open]
        if "@" in release_id:
            # An epoch is committed as it begins. Who was cut off in between may be gone for ever.
            for entry in is_open:
                self.commit(*entry.keyed_release)
        remedy = (
            "it is not finished; run it again, or give it up with `tracecloak ledger forfeit`"
            if is_open
            else "correct output, release_id or ledger; `tracecloak ledger show` lists all, "
            "each epoch of a stream as NAME@EPOCH"
        )
        self._end(
            "withdraw",
            (output, release_id, None),
            f"release {release_id!r} in {output} is not committed in {self.place}: {remedy}",
            signed(by, reason),
        )

    def _end(
        self,
        action: Literal["forfeit", "withdraw"],
        release: tuple[str, str, str | None],
        refusal: str,
        details: Mapping[str, str],
    ) -> None:
        """Ends charges, each of which can be ended so by `may_follow`.

        Args:
            action: What is noted. Once noted, nothing is noted again.
            release: The folder of all releases, the release's name, and the fingerprint of its key;
                None: whatever its key.
            refusal: What to say if none can be ended so, and none was before.
            details: Who ends them, and why.
        """

        def steps(past: LedgerSnapshot) -> list[Step]:
            self.check_sound(past)
            states = past.states(*release)
            found = [one for one in states if may_follow(action, one.last.action)]
            if not found and all(one.last.action != action for one in states):
                raise UsageError(refusal)
            return steps_of(action, found, details)

        self.append(steps)

    def declare_account(self, account: Account, by: str, reason: str) -> None:
        """Declares what an account may spend; an earlier declaration of it holds no longer.

        As soon as a ledger declares an account, no other that it does not declare can pay.

        Raises:
            UsageError: A cap is no exact decimal, or nobody and no reason is named.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        if account.note:
            require_text("note", account.note)
        facts = {"max_cases": account.max_cases, "note": account.note}
        caps = {"epsilon": account.epsilon_cap, "delta": account.delta_cap}
        columns = {
            "account": account.name,
            "unit": account.unit,
            **{name: None if cap is None else decimal_text(cap) for name, cap in caps.items()},
        }
        self.declare("account", columns, {n: f for n, f in facts.items() if f}, by, reason)

    def bind_dataset(self, dataset: str, account: str, by: str, reason: str) -> None:
        """Binds a data set to one account: releases that name it under another are refused.

        Raises:
            UsageError: The account is not declared where others are, a name is no text, or nobody
                and no reason is named.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        require_text("dataset", dataset)
        require_text("account", account)
        self.declare("dataset", {"account": account}, {"dataset": dataset}, by, reason)

    def declare(
        self,
        action: Declaration,
        columns: Mapping[str, Any],
        details: Mapping[str, Any],
        by: str,
        reason: str,
    ) -> None:
        """Declares something that is no charge.

        Args:
            action: What. `erase`: that notes on releases' cases are erased, before they are.
                `positions`: that somebody sets the positions of a stream, before they are, and not
                where to.
            columns: Those of the entry that are not empty.
            details: What else it has.
            by: Who declares it.
            reason: Why.

        Raises:
            UsageError: Nobody and no reason is named, or the account of a data set is not declared
                where others are.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        facts = {**details, **signed(by, reason)}

        def steps(past: LedgerSnapshot) -> list[Step]:
            self.check_sound(past)
            if action == "dataset":
                check_declared(past.declared, columns["account"])
            return [(action, {**NO_COLUMNS, **columns}, facts)]

        self.append(steps)

    def accept(self, by: str, reason: str, lost_stores: Sequence[str] = ()) -> Accepted:
        """Notes what happened to a ledger or a key store that has forgotten something.

        What the key store's copy has beyond the ledger counts again: charges as spent, and
        declarations. Nothing is given back. A ledger that was restored waits for each key store
        that paid with it before; this one answers for itself, and for those that are lost.

        Args:
            by: Who accepts.
            reason: Why.
            lost_stores: Key stores that can say nothing any more, by their names in the ledger.

        Raises:
            UsageError: Neither has forgotten anything, or nobody and no reason is named, or a
                restored ledger waits for other key stores.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        memory, details = self.memory, signed(by, reason)
        nothing = UsageError(f"{self.place} and the key store agree: there is nothing to accept")
        if memory is None:
            raise nothing
        copies, differs = memory.copies(), memory.differs_from(self.entries())
        complaints: list[str] = []

        def steps(past: LedgerSnapshot) -> list[Step]:
            nonlocal complaints
            self.check_sound(past)
            complaints = memory.complaints(past, copies)
            if differs and not complaints:
                complaints = [differs_text(self.place)]
            if not complaints:
                raise nothing
            ends: dict[str, Any] = {}  # what ends the complaints
            for copy in memory.lost(past, copies)[-1:]:
                ends["lost"] = {"seq": copy.head.seq, "hash": copy.head.hash}
            if (noted := memory.noted(past)) > memory.store.generation():
                ends |= {"store": memory.store.identity(), "generation": noted}
            awaited, store = awaited_stores(past.declared), memory.store.identity()
            answers = self._answers(awaited, store, lost_stores)
            if awaited and not answers and len(complaints) == 1:
                raise UsageError(f"this key store paid nothing with it before. {complaints[0]}")
            if answers:
                ends["answers"] = answers
            accept: Step = "accept", NO_COLUMNS, {**ends, **details}
            return [accept, *recovered_steps(memory, past, copies)]

        _, *again = self.append(steps)
        entries = self.entries()
        memory.accept(entries)
        return Accepted(complaints, again, awaited_stores(entries))

    def _answers(self, awaited: Sequence[str], store: str, lost_stores: Sequence[str]) -> list[str]:
        """Returns which of the key stores that a restored ledger waits for have answered.

        Raises:
            UsageError: A store that is named as lost is none of them.
        """
        for lost in lost_stores:
            if lost not in awaited:
                known = ", ".join(awaited) or "none"
                raise UsageError(
                    f"lost_stores: {self.place} does not wait for key store {lost!r}; it waits for "
                    f"{known}"
                )
        return [name for name in (store, ANY_STORE) if name in awaited] + list(lost_stores)


def recovered_steps(
    memory: LedgerCache, past: LedgerSnapshot, copies: Sequence[Copy]
) -> list[Step]:
    """Returns what to write into a ledger so that it knows again what the copy knows.

    What counts as spent in the copy counts again, and what was declared later than what the
    ledger has is declared again. Nothing is taken away. Of several copies that know more, it is
    the one that knows most.

    What a window counted is claimed again, too. Where others claimed units of the same scope
    while that was forgotten, one unit may be in two windows: so it adds up from then on.
    """
    entries, lost = past.entries(), memory.lost(past, copies)
    seen = memory.seen(lost[-1].name if lost else memory.file)
    declared = _declarations(entries)
    states, known = charge_states(seen), charge_states(entries)
    overtaken = _scopes_claimed_since(known, states)
    steps: list[Step] = [
        (entry.action, asdict(entry), {**entry.facts, "again": True})
        for name, entry in _declarations(seen).items()
        if name not in declared or declared[name].recorded_at < entry.recorded_at
    ]
    for entry in seen:
        facts = {**entry.facts, "again": True}
        state = states.get(entry.charge)
        if entry.decided is not None:
            if past.decided(entry.keyed_release, entry.decided[0]) is not None:
                continue
        elif state is None or "void" in (state.last.action, entry.action):
            continue
        elif entry.seq < state.reserved.seq or not may_follow(
            entry.action, known[entry.charge].last.action if entry.charge in known else None
        ):
            continue
        elif entry.action == "claim" and state.window and state.window.scope in overtaken:
            facts |= replace(state.window, adds_up=True).facts()
        steps.append((entry.action, asdict(entry), facts))
        advance(known, entry)
    return steps


def _declarations(entries: Sequence[Entry]) -> dict[tuple[str, str], Entry]:
    """Returns the last declaration of each account and each data set."""
    return {
        (entry.action, str(entry.facts.get("dataset", "")) or entry.account): entry
        for entry in entries
        if entry.action in ("account", "dataset")
    }


def _scopes_claimed_since(
    known: Mapping[Charge, ChargeState], seen: Mapping[Charge, ChargeState]
) -> set[str]:
    """Returns the scopes in which a ledger has claims that were not seen of it."""
    claims, old = (
        {
            (charge, one.claim.units_sha256, one.window.scope)
            for charge, one in states.items()
            if one.claim is not None and one.window is not None
        }
        for states in (known, seen)
    )
    return {scope for _, _, scope in claims - old}
