"""Accounts, what is declared of them in a ledger, and whether one may pay for a release.

An accounts file holds caps beside those that the ledger declares, and of two caps the lower
counts. A release of one name in one output is paid once, and made by whoever began it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import yaml

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.ledger.balance import (
    NAMES,
    Balance,
    ChargeState,
    KnownCharge,
    Spent,
    added,
    balance_of,
    charge_states,
    increase,
)
from tracecloak.pipelines.ledger.database import MadeByAnother
from tracecloak.pipelines.ledger.entries import Entry, Reservation, odd_columns, parse_decimal
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot
from tracecloak.schemas.errors import BudgetExhausted, UsageError
from tracecloak.schemas.published.manifest import Unit
from tracecloak.schemas.texts import MAX_BYTES, StrictLoader, bounded_yaml

if TYPE_CHECKING:
    from tracecloak.anonymizers.accounting.account_caps import Loss

# --- Accounts: how much epsilon and delta the releases of one data set may spend together. --------
# Caps are declared in the ledger (`pipelines.ledger.caps`), where no pipeline can leave them out.
# An accounts file holds beside them, and of two caps the lower counts. It belongs to whoever
# answers for the privacy of the data; the pipeline only reads it.
#
#     accounts:
#       claims/2026:
#         epsilon: "10"       # cap on the sum over all releases; null: none
#         delta: "1e-5"       # likewise
#         unit: case          # whom the caps protect: case, individual or event
#         max_cases: 100000   # public bound on the number of cases, optional
#         note: approved on 2026-01-15, file 17   # optional
#
# Numbers are read as they are written and never as binary floating point: ten releases of 0.1 fit
# a cap of 1, and an eleventh does not.


_UNITS = get_args(Unit)
# How the releases of an account compose: their epsilons and deltas add up, or see `account_caps`.
Composition = Literal["sum", "gaussian"]


@dataclass(frozen=True)
class Account:
    """What the releases that name this account may spend together.

    Attributes:
        name: Its name in the accounts file.
        epsilon_cap: Largest sum of their epsilons, or None: no cap.
        delta_cap: Largest sum of their deltas, or None: no cap.
        unit: The unit of privacy that the caps are about; releases with another are refused.
        max_cases: Public upper bound on the number of cases of the data set, or None.
        note: What the owner of the file wrote beside it.
        three_caps: Of an account whose composition is `gaussian`, see `accounting.account_caps`;
            None: epsilons and deltas add up.
        largest: Of such an account: the epsilon and delta up to which its caps may be raised, for
            which its promise holds.
    """

    name: str
    epsilon_cap: Fraction | None
    delta_cap: Fraction | None
    unit: Unit
    max_cases: int | None = None
    note: str = ""
    three_caps: Loss | None = None
    largest: tuple[Fraction, Fraction] | None = None

    @property
    def composition(self) -> Composition:
        """How its releases compose."""
        return "sum" if self.three_caps is None else "gaussian"

    @property
    def caps(self) -> dict[str, Fraction]:
        """The caps that there are, by their names in `balance.COORDINATES`."""
        if self.three_caps is not None:
            return self.three_caps._asdict()
        both = {"epsilon": self.epsilon_cap, "delta": self.delta_cap}
        return {name: cap for name, cap in both.items() if cap is not None}

    def __post_init__(self) -> None:
        refusals = {
            "the name must be printable and not empty": not (self.name and self.name.isprintable()),
            f"unit must be one of {', '.join(_UNITS)}, got {self.unit!r}": self.unit not in _UNITS,
            f"epsilon must be at least 0, got {self.epsilon_cap}": (self.epsilon_cap or 0) < 0,
            "delta must be at least 0 and below 1": not 0 <= (self.delta_cap or 0) < 1,
            f"max_cases must be at least 1, got {self.max_cases}": not (
                self.max_cases is None or self.max_cases > 0
            ),
            # A larger delta permits to publish a case as it is: every one with probability delta.
            f"delta must be at most 1 / max_cases: above 1/{self.max_cases} a whole case may be "
            "published": (self.delta_cap or 0) * (self.max_cases or 0) > 1,
        }
        for refusal, is_so in refusals.items():
            if is_so:
                raise UsageError(f"account {self.name!r}: {refusal}")


def load_accounts(path: str | Path | None, payer: str | None = None) -> dict[str, Account]:
    """Returns the accounts of a file by name, a payer among them; without a file none.

    Raises:
        UsageError: It cannot be read or lacks the payer; a key is unknown, missing, twice or wrong.
    """
    if path is None:
        return {}
    where = f"accounts file {str(path)!r}"
    try:
        with open(path, "rb") as stream:
            body = bounded_yaml(stream.read(MAX_BYTES + 1), _TextLoader)
        if not isinstance(body, dict):
            raise UsageError("expected the one key 'accounts'")
        accounts = _accounts_in(body)
    except OSError as error:
        raise UsageError(f"{where} cannot be read: {error.strerror}") from None
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    except ValueError as error:
        raise UsageError(f"{where} is not valid YAML: {error}") from None
    if payer is not None and payer not in accounts:
        raise UsageError(
            f"account {payer!r} is not in {path}; name one of {', '.join(sorted(accounts))}"
        )
    return accounts


def _accounts_in(body: dict[str, Any]) -> dict[str, Account]:
    """Returns the accounts of a file with these keys."""
    import pydantic  # loaded on use, as most runs read no such file

    from tracecloak.anonymizers.contract.wrong_values import usage_error

    class Caps(pydantic.BaseModel, extra="forbid"):
        epsilon: str | None
        delta: str | None
        unit: str | None
        max_cases: int | None = None
        note: str | None = None

    class Accounts(pydantic.BaseModel, extra="forbid"):
        accounts: dict[str, Caps] = pydantic.Field(min_length=1)

    try:
        given = Accounts.model_validate(body).accounts
    except pydantic.ValidationError as error:
        raise usage_error(error) from None
    return {name: account_of(name, vars(keys), "null") for name, keys in given.items()}


def account_of(name: str, keys: Mapping[str, Any], none: str) -> Account:
    """Returns an account whose caps are given as text.

    Args:
        name: Its name.
        keys: As in an accounts file.
        none: What is written where there is no cap.

    Raises:
        UsageError: A cap is no decimal, or see `Account`.
    """
    caps: dict[str, Fraction | None] = {}
    for key in ("epsilon", "delta", "max_epsilon", "max_delta"):
        try:
            caps[key] = None if keys.get(key) in (None, none) else parse_decimal(keys[key])
        except UsageError as error:
            told = f"account {name!r}: {key}: {error}, or {none} for no cap"
            raise UsageError(told) from None
    epsilon, delta, *largest = caps.values()
    account = Account(
        name, epsilon, delta, keys["unit"], keys.get("max_cases"), keys.get("note") or ""
    )
    if not any(largest):
        return account
    most = (largest[0] or epsilon or Fraction(0), largest[1] or delta or Fraction(0))
    return replace(account, largest=most)


class _TextLoader(StrictLoader):
    """Every scalar is the text that stands in the file, but for an unquoted null, which is None."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return None if node.tag == "tag:yaml.org,2002:null" else node.value
        return super().construct_object(node, deep=deep)


# --- What the privacy officer declared in a ledger: caps of accounts, and whose a data set is. ----
# A declaration is an entry of the ledger's chain, with who made it and why. The last one of a
# name holds; those before stay, so a cap that was raised is seen to have been raised. What a
# pipeline is given, or leaves out, changes none of them.


_ANOTHER = "begin another account"
# Epsilon and delta of an account that nobody declared.
_FIRST_CAPS = Fraction(4), Fraction(1, 10**5)
# What to say of a restored ledger, in which nothing is paid yet.
AWAITS = (
    "{} was restored from a backup, and does not know what was paid since: run `tracecloak ledger "
    "accept`, which counts what is left of each cap as spent"
)


def declared_accounts(entries: Sequence[Entry]) -> dict[str, Account]:
    """Returns the accounts that are declared, by name, with the caps that hold now.

    Raises:
        UsageError: An entry has what no ledger writes.
    """
    return {entry.account: _declared(entry) for entry in entries if entry.of_account}


def _declared(entry: Entry) -> Account:
    facts = entry.of_account
    epsilon, delta = (facts[n] and parse_decimal(facts[n]) for n in ("epsilon", "delta"))
    account = Account(
        entry.account, epsilon, delta, entry.unit, facts.get("max_cases"), facts.get("note", "")
    )
    if "caps" not in facts:
        return account
    from tracecloak.anonymizers.accounting.account_caps import Loss

    if odd_columns(entry):
        raise UsageError(f"the caps of {_named(account)} in the ledger are not valid")
    largest, most_leaked, *three = map(parse_decimal, (*facts["largest"], *facts["caps"]))
    return replace(account, three_caps=Loss(*three), largest=(largest, most_leaked))


def composed(past: LedgerSnapshot, account: Account, composition: Composition | None) -> Account:
    """Returns an account that is declared, with the caps that follow from how it composes.

    How an account composes is fixed when it is begun, and so is the largest epsilon and delta that
    it may be raised to. One that adds up may become `gaussian`, with no larger numbers than it was
    begun with: its caps follow from these, and never from what it spent.

    Args:
        past: What the ledger says.
        account: As it is asked for, with its largest numbers, if any are.
        composition: None: as it was begun; of a new one, `gaussian` where it has a delta above 0.

    Raises:
        UsageError: It was begun otherwise, or with smaller numbers, or lacks epsilon or delta.
    """
    begun = [e for e in past.declared if e.of_account and e.account == account.name]
    was = [_declared(entry) for entry in begun[:1] + begun[-1:]]
    if composition is None:
        is_old = was or account.name in past.accounts()
        of_new: Composition = "gaussian" if account.delta_cap and account.epsilon_cap else "sum"
        composition = was[1].composition if was else "sum" if is_old else of_new
    if composition == "sum":
        if was and was[1].composition == "gaussian":
            raise UsageError(f"{_named(account)} was begun with composition gaussian; {_ANOTHER}")
        if account.largest is not None:
            raise UsageError(f"{_named(account)}: only composition gaussian needs a largest cap")
        return account
    asked = _both(account)
    largest = (was[1].largest or _both(was[0])) if was else account.largest or asked
    most = map(max, largest, asked, account.largest or largest)
    if tuple(most) != largest:
        texts = " and delta ".join(map(decimal_text, largest))
        raise UsageError(
            f"{_named(account)} may have at most epsilon {texts}, as it was begun; {_ANOTHER}"
        )
    return replace(account, three_caps=_lower_caps(asked, largest), largest=largest)


def _lower_caps(*numbers: tuple[Fraction, Fraction], than: Iterable[Loss] = ()) -> Loss:
    """Returns of the caps of epsilons and deltas, and of further caps, the lowest of each."""
    from tracecloak.anonymizers.accounting.account_caps import Loss, caps_of

    return Loss(*map(min, zip(*(caps_of(*both) for both in numbers), *than, strict=True)))


def _both(account: Account) -> tuple[Fraction, Fraction]:
    if account.epsilon_cap is None or account.delta_cap is None:
        raise UsageError(f"{_named(account)}: composition gaussian needs epsilon and delta")
    return account.epsilon_cap, account.delta_cap


def _named(account: Account) -> str:
    return f"account {account.name!r}"


def bound_datasets(entries: Sequence[Entry]) -> dict[str, str]:
    """Returns the account that each bound data set belongs to now, by the data set's name."""
    return {
        str(entry.facts.get("dataset")): entry.account
        for entry in entries
        if entry.action == "dataset"
    }


def check_declared(entries: Sequence[Entry], account: str) -> Account | None:
    """Returns the caps of an account in the ledger; None: it has none, and no officer declared any.

    Raises:
        UsageError: The officer declared accounts, and not this one.
    """
    if not is_shut(entries, account):
        return declared_accounts(entries).get(account)
    officers = {entry.account for entry in entries if entry.action == "account"}
    raise UsageError(
        f"account {account!r} is not declared in the ledger, which has "
        f"{', '.join(sorted(officers))}: use one of these, or `tracecloak ledger declare`"
    )


def is_shut(entries: Sequence[Entry], account: str) -> bool:
    """Returns whether the officer declared accounts, and not this one, so that it pays no more."""
    officers = {entry.account for entry in entries if entry.action == "account"}
    return bool(officers) and account not in officers


def first_account(past: LedgerSnapshot, reservation: Reservation) -> Account | None:
    """Returns the account that a release begins, with caps that nobody declared; None: it may not.

    It has epsilon 4 and delta 0.00001, or what all steps of a stream, or all windows of a schedule,
    cost together. Its releases add up, as the first of another kind would else find no room; who
    declares it later may have it compose.

    Args:
        past: What the ledger says, without the reservation.
        reservation: What the release asks, of no account file.

    Raises:
        UsageError: Another account paid for this data set.
    """
    name = reservation.account
    if past.is_begun(name) or reservation.epsilon is None:
        return None
    if reservation.dataset is not None and (payer := past.payer_of(reservation.dataset)):
        raise UsageError(
            f"account {payer!r} paid for releases of dataset {reservation.dataset!r} so far: set "
            f"account to it, or have the privacy officer declare account {name!r}"
        )
    epsilon, delta = map(max, _FIRST_CAPS, reservation.whole or _FIRST_CAPS)
    return Account(name, epsilon, delta, reservation.unit, note="begun by its first release")


def is_awaited(entries: Sequence[Entry]) -> bool:
    """Returns whether a ledger was restored, and nobody accepted that since."""
    ends = (entry.action for entry in reversed(entries) if entry.action in ("restore", "accept"))
    return next(ends, None) == "restore"


def has_lost(entries: Sequence[Entry]) -> bool:
    """Returns whether a ledger has lost entries, and what they may have spent was counted."""
    return any("counted" in entry.facts for entry in entries if entry.action == "accept")


def both_bounds(declared: Account | None, in_file: Account | None) -> Account | None:
    """Returns an account with the lower of two caps each, where both are given.

    Raises:
        UsageError: They are about different units.
    """
    if declared is None or in_file is None:
        return declared or in_file
    if declared.unit != in_file.unit:
        raise UsageError(
            f"account {declared.name!r} is per {declared.unit} in the ledger and per "
            f"{in_file.unit} in the accounts file; correct one of them"
        )
    lower: dict[str, Any] = {}
    for name in ("epsilon_cap", "delta_cap"):
        caps = (getattr(one, name) for one in (declared, in_file))
        lower[name] = min((cap for cap in caps if cap is not None), default=None)
    both = replace(declared, **lower)
    if both.three_caps is None:
        return both
    return replace(both, three_caps=_lower_caps(_both(both), than=[both.three_caps]))


# --- A release of one name in one output is paid once, and made by whoever began it. --------------


def is_charged(states: Sequence[ChargeState], reservation: Reservation) -> bool:
    """Returns whether a reservation is charged already.

    Two machines with key stores of their own may be told to do the same at the same time, and one
    may have ended while the other looked.

    Args:
        states: The charges of the output and the name of the release.
        reservation: Of the release.

    Raises:
        UsageError: The release was withdrawn, or is charged to another window or kind of window.
        MadeByAnother: It is reserved or visible under another key.
    """
    named = f"release {reservation.release_id!r} in {reservation.output}"
    for entry in (state.last for state in states):
        if entry.action == "withdraw":
            when = entry.recorded_at[:10]
            raise UsageError(f"{named} was withdrawn on {when}; choose another release_id")
    ours = next((one for one in states if one.last.charge == reservation.entry.charge), None)
    if ours is None or ours.last.action in ("void", "forfeit"):
        check_not_elsewhere(states, reservation)
    if ours is None or ours.last.action == "void":
        return False
    was, now = ours.window, reservation.window
    places = {None if window is None else window.place for window in (was, now)}
    if len(places) > 1 or (was and now and now.adds_up and not was.adds_up):
        raise UsageError(
            f"{named} is charged to "
            f"{'no window' if was is None else f'window {was.label} of scope {was.scope}'}, not to "
            f"{'none' if now is None else f'window {now.label} of {now.scope}'}; choose another "
            "release_id, or set the schedule as it was"
        )
    return True


def check_not_elsewhere(states: Sequence[ChargeState], reservation: Reservation) -> None:
    """Makes sure that a release is neither reserved nor visible under another key.

    Raises:
        MadeByAnother: It is.
    """
    for entry in (state.last for state in states):
        is_own = entry.key_fingerprint == reservation.key_fingerprint
        if not is_own and entry.action not in ("void", "forfeit"):
            remedy = (
                "end it there and bring that key store with the state of the stream, or begin "
                "another epoch"
                if "@" in reservation.release_id
                else "wait until it ends, and run again, which finds it. If it was cut off, finish "
                "it with that key store, or use `tracecloak ledger forfeit`. If its files are "
                "gone, choose another release_id"
            )
            raise MadeByAnother(
                f"release {reservation.release_id!r} in {reservation.output} was begun on "
                f"{entry.recorded_at[:19]}Z with another key store, or with a key that this one "
                f"lost, which paid for it, so nothing is paid here: {remedy}"
            )


# --- Whether an account may pay for a release, and whether its caps leave enough for it. ----------


def check_caps(
    past: LedgerSnapshot, reservation: Reservation, in_file: Account | None
) -> Account | None:
    """Makes sure that the account of a release may pay for it, and can.

    Args:
        past: What the ledger says, without the reservation.
        reservation: What the release asks.
        in_file: The caps of the accounts file; None: it has none.

    Returns:
        The account that the release begins; None: it exists, or has no caps.

    Raises:
        UsageError: The data set is bound to another account, the account is not declared where
            others are, or the release's epsilon does not add up with the account's.
        BudgetExhausted: The sum of epsilons or of deltas would exceed a cap.
    """
    declarations, dataset = past.declared, reservation.dataset
    owner = None if dataset is None else bound_datasets(declarations).get(dataset)
    if owner not in (None, reservation.account):
        raise UsageError(
            f"dataset {dataset!r} belongs to account {owner!r} in the ledger: set account to it, "
            "or have the privacy officer bind the data set anew"
        )
    declared = check_declared(declarations, reservation.account)
    begun = first_account(past, reservation) if in_file is None else None
    account = both_bounds(declared or begun, in_file)
    if account is not None:
        spent = past.spent(reservation.account, reservation.window)
        check_affordable(spent, reservation, account)
    return begun


def asked_of(reservation: Reservation) -> KnownCharge:
    """Returns the charge that a reservation asks for."""
    return KnownCharge.of(*charge_states([reservation.entry]).values())


def check_affordable(spent: Spent, reservation: Reservation, account: Account) -> None:
    """Makes sure that an account can pay for a release beside all that it paid for.

    Args:
        spent: What the account spent, without the release.
        reservation: What the release asks.
        account: The caps.

    Raises:
        UsageError: Its epsilon does not add up with the account's: another unit or adjacency, or
            no finite one.
        BudgetExhausted: The sum of epsilons or of deltas would exceed its cap.
    """
    where = f"account {account.name!r}"
    if account.unit != reservation.unit:
        needed = f"use one per {reservation.unit}, as with another account or dataset"
        raise UsageError(f"{where} has caps per {account.unit}; {needed}")
    if not account.caps:
        return
    if reservation.epsilon is None or reservation.delta is None:
        what = f"{where} has a cap, and no finite epsilon holds for a release with"
        remedy = "choose a rigorous method, or an account without caps"
        raise UsageError(f"{what} {reservation.method}; {remedy}")
    for kind in sorted(spent.kinds):
        for name, past in zip(("unit", "adjacency"), kind, strict=True):
            if past != (now := getattr(reservation, name)):
                raise UsageError(
                    f"{where} holds releases with {name} {past}, whose epsilons do not add up with "
                    f"those of {name} {now}; use another account"
                )
    asked, balance = asked_of(reservation), balance_of(spent, account.name, account)
    above = balance_of(spent, account.name, account, asked).exceeded
    if not above:
        return
    short = ["no finite epsilon holds for a release that it paid for already"]
    if balance.is_finite:
        more = increase(spent.all, added(spent.all, [asked]))
        short = [_shortage(name, balance, asked, more[name]) for name in above]
    counts = f"{balance.n_open} of {balance.n_releases} releases are reserved and not committed"
    unfinished = f" ({counts}; run those again to finish them)" if balance.n_open else ""
    remedy = "Ask for less, or have the privacy officer raise the cap: `tracecloak ledger declare`"
    if "pure_epsilon" in above:
        remedy += ", or name an account that adds up, with composition sum"
    raise BudgetExhausted(
        f"{where} cannot pay for release {reservation.release_id!r}: {'; '.join(short)}"
        f"{unfinished}. {remedy}"
    )


def _shortage(name: str, balance: Balance, asked: KnownCharge, more: Fraction) -> str:
    """Returns what an account has and lacks of a coordinate that a release asks."""
    of_account = (balance.spent, balance.opened, balance.remaining)
    numbers = balance.caps[name], more, asked.cost[name], *(of[name] for of in of_account)
    has, adds, asks, spent, opened, left = map(decimal_text, numbers)
    _, label = asked.place
    window = f" for window {label} (which adds {adds} to the dearest window of its schedule)"
    return (
        f"{NAMES[name]} cap {has}, spent {spent}"
        f"{f' (of it {opened} not committed)' * (opened != '0')}, "
        f"asked {asks}{window * bool(label)}, remaining {left}"
    )
