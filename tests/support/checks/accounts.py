"""Accounts: what an officer declared holds, whatever a configuration names or leaves out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.support.checks.finding import Check, NotApplicable, NotHeld, expect
from tests.support.checks.trial import OFFICER, REASON, Place, Trial
from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.ledger.balance import balance_of, spent_in
from tracecloak.pipelines.ledger.declarations import bound_datasets, declared_accounts
from tracecloak.pipelines.release.records import reservation_of
from tracecloak.schemas.errors import BudgetExhausted
from tracecloak.transforms.publish.release_folder import ReleaseFolder

_OTHER = "another-account"
_DATASET = "the-data-set"
# Reservations that fill the officer's cap at most; beyond, filling it would take too long.
_MOST_RESERVATIONS = 200


def _second_account(trial: Trial) -> str:
    place = trial.place("second-account")
    place.declare()
    if trial.cost is None:
        ran = place.release()
        expect(ran.code != 0, "an account with a cap paid for a release without a finite epsilon")
        expect(not place.paid(), "a refused release is charged")
        seen = f"No finite epsilon holds, and an account with a cap refused it ({ran.told})"
        expect(
            (ran := place.release(account=_OTHER)).code == 2, f"another account paid: {ran.told}"
        )
        return f"{seen}; another account was refused."
    expect((ran := place.release()).code == 0, f"a release within its caps ended with {ran.told}")
    file = _accounts_file(place, trial)
    tried: dict[str, dict[str, Any]] = {
        "without accounts": {},
        "with an accounts file whose caps are higher": {"accounts": file},
        "without its data set": {"dataset": None},
        "to another output": {"output": str(place.folder / "elsewhere")},
    }
    for what, changes in tried.items():
        ran = place.release(release_id="second", **changes)
        expect(ran.code == 4, f"a release beyond the cap, {what}, ended with {ran.told}")
    ran = place.release(release_id="second", account=_OTHER)
    expect(ran.code == 2, f"an account that nobody declared paid: {ran.told}")
    url = f"sqlite:///{place.folder / 'other.db'}"
    ran = place.release(release_id="second", ledger=url)
    expect(ran.code == 2, f"another ledger, which is not there, paid: {ran.told}")
    expect(place.n_paid == 1, f"charges under a cap for one: {place.n_paid}")
    return (
        "Beyond the cap every release was refused with exit code 4, also with a file of higher "
        "caps or without one; another account and another ledger were refused with 2."
    )


def _accounts_file(place: Place, trial: Trial) -> str:
    path = place.folder / "accounts.yaml"
    unit = trial.config.guarantee.unit
    path.write_text(
        f"accounts:\n  {trial.config.account!r}: {{epsilon: null, delta: null, unit: {unit}}}\n"
    )
    return str(path)


def _bound_dataset(trial: Trial) -> str:
    place = trial.place("bound-dataset")
    dataset = trial.config.dataset
    for name in (trial.config.account, _OTHER):
        place.declare(2, name)
    place.ledger.bind_dataset(dataset or _DATASET, trial.config.account, OFFICER, REASON)
    ran = place.release(account=_OTHER, dataset=dataset or _DATASET)
    expect(
        ran.code == 2 and not place.paid(), f"another account paid for a bound data set: {ran.told}"
    )
    if dataset is None:
        raise NotApplicable(
            "The configuration names no dataset, so a binding of the officer's cannot hold it to "
            "one account: give dataset. With one, another account was refused with exit code 2."
        )
    return "The other account was declared and had budget, and was refused with exit code 2."


def _two_at_once(trial: Trial) -> str:
    if trial.cost is None:
        raise NotApplicable("No finite epsilon holds for the method, so no cap can be filled.")
    place = trial.place("two-at-once")
    place.declare()
    with ThreadPoolExecutor(2) as threads:
        ids = ["one", "other"]
        ends = list(threads.map(lambda release_id: place.release(release_id=release_id), ids))
    codes = sorted(ran.code for ran in ends)
    expect(
        place.n_paid == 1 and codes == [0, 4],
        f"two releases at once, under a cap for one, ended with {codes[0]} and {codes[1]}; charges "
        f"that count as spent: {place.n_paid}",
    )
    return "One was released, the other was refused with exit code 4."


def _lowered_cap(trial: Trial) -> str:
    if trial.cost is None:
        raise NotApplicable("No finite epsilon holds for the method, so no cap can be filled.")
    place = trial.place("lowered-cap")
    place.declare(5)
    for release_id in ("one", "other"):
        ran = place.release(release_id=release_id)
        expect(ran.code == 0, f"a release within its caps ended with {ran.told}")
    place.declare(1)
    ran = place.release()
    expect(ran.code == 4, f"a release beyond a cap that was lowered ended with {ran.told}")
    return "The next release was refused with exit code 4."


def _officers_caps(trial: Trial) -> str:
    if trial.declarations is None:
        raise NotApplicable("What the officer declared is read if --declared asks for it.")
    declared = declared_accounts(trial.declarations)
    if not declared:
        raise NotApplicable("The officer declared no account, so nothing caps what is spent.")
    place = trial.place("officers-caps")
    ledger, account = place.ledger, trial.config.account
    for one in declared.values():
        ledger.declare_account(one, OFFICER, REASON)
    bound = bound_datasets(trial.declarations)
    for dataset, owner in bound.items():
        ledger.bind_dataset(dataset, owner, OFFICER, REASON)
    if account not in declared:
        ran = place.release()
        expect(ran.code == 2, f"an account that nobody declared paid: {ran.told}")
        return "The configuration's account is none of those declared, and was refused."
    for other in declared:
        ran = place.release(account=other, release_id=f"other-{len(place.paid())}")
        if other != account and bound.get(trial.config.dataset or "") == account:
            expect(ran.code == 2, f"account {other!r} paid for the bound data set: {ran.told}")
    caps = declared[account]
    if caps.epsilon_cap is None or trial.cost is None:
        raise NotApplicable(f"Account {account!r} has no cap on epsilon, or the method no epsilon.")
    place = _with_what_is_left(trial, place)
    ran = place.release(release_id="beyond")
    expect(ran.code == 4, f"a release beyond the officer's cap ended with {ran.told}")
    spent = balance_of(spent_in(place.ledger.entries(), account), account, caps)
    return (
        f"With epsilon {decimal_text(spent.spent_epsilon or caps.epsilon_cap)} of account "
        f"{account!r} spent, the next release was refused with exit code 4."
    )


def _with_what_is_left(trial: Trial, place: Place) -> Place:
    """Reserves releases until no further one fits."""
    for number in range(_MOST_RESERVATIONS):
        try:
            folder = ReleaseFolder(str(place.output), f"r{number}")
            place.ledger.reserve(reservation_of(place.config(), folder, f"key {number}"))
        except BudgetExhausted:
            return place
    raise NotHeld(f"{_MOST_RESERVATIONS} releases fit into the officer's cap, so nothing is capped")


CHECKS = (
    Check(
        "second account",
        "The officer declares a cap, which is spent; a configuration leaves out accounts, names "
        "higher caps, another account, another output or another ledger.",
        _second_account,
    ),
    Check(
        "bound data set",
        "The officer binds the data set to the account; a configuration names another one.",
        _bound_dataset,
    ),
    Check(
        "two at once",
        "Two releases are run at once under a cap that has room for one.",
        _two_at_once,
    ),
    Check("lowered cap", "The officer lowers a cap below what is spent.", _lowered_cap),
    Check(
        "officer's caps",
        "What the officer declared in the configuration's ledger is declared for the copy, and "
        "spent.",
        _officers_caps,
    ),
)
