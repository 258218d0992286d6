"""Accounts: what an officer declared holds, whatever a configuration names or leaves out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.support.checks.finding import Check, NotApplicable, expect
from tests.support.checks.trial import OFFICER, REASON, Place, Trial

_OTHER = "another-account"
_DATASET = "the-data-set"


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
)
