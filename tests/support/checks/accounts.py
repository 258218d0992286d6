"""Accounts: what an officer declared holds, whatever a configuration names or leaves out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.support.checks.finding import NotApplicable, expect
from tests.support.checks.trial import OFFICER, REASON, Place, Trial

_OTHER = "another-account"
_DATASET = "the-data-set"


def _second_account(trial: Trial) -> None:
    place = trial.place("second-account")
    place.declare()
    if trial.cost is None:
        ran = place.release()
        expect(ran.code != 0, "an account with a cap paid for a release without a finite epsilon")
        expect(not place.paid(), "a refused release is charged")
        expect(
            (ran := place.release(account=_OTHER)).code == 2, f"another account paid: {ran.told}"
        )
        return
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


def _accounts_file(place: Place, trial: Trial) -> str:
    path = place.folder / "accounts.yaml"
    unit = trial.config.guarantee.unit
    path.write_text(
        f"accounts:\n  {trial.config.account!r}: {{epsilon: null, delta: null, unit: {unit}}}\n"
    )
    return str(path)


def _bound_dataset(trial: Trial) -> None:
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


def _two_at_once(trial: Trial) -> None:
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


def _lowered_cap(trial: Trial) -> None:
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


CHECKS = {
    "second account": _second_account,
    "bound data set": _bound_dataset,
    "two at once": _two_at_once,
    "lowered cap": _lowered_cap,
}
