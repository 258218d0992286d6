"""Runs that are cut off, run twice or run at once: what was drawn is paid for, and drawn once."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.checks.finding import NotApplicable, expect
from tests.support.checks.trial import OFFICER, REASON, Place, Trial
from tracecloak.pipelines.budget.unfinished import forfeit, withdraw


def _cut_off(place: Place) -> None:
    """Cuts a release off after it drew, and looks at what is left of it."""
    ran = place.cut_off()
    expect(ran.code != 0, "a release over a file in its place ended with exit code 0")
    expect(
        place.n_paid == 1,
        f"a run was cut off after it drew noise; charges that count as spent: {place.n_paid}",
    )
    expect(place.n_keys == 1, "a run was cut off after it drew noise, and its key is gone")


def _refund(trial: Trial) -> None:
    place = trial.place("refund")
    _cut_off(place)
    built = place.bytes_built()
    ran = place.release()
    expect(ran.code == 0, f"the rerun on the same input ended with {ran.told}")
    released = place.bytes_of()
    expect(
        built == released, "the rerun drew other noise: its bytes are not those of the first run"
    )
    expect(place.n_paid == 1, f"charges that count as spent after the rerun: {place.n_paid}")
    ran = place.release(release_id="another")
    expect(ran.code == 0, f"a release under another id ended with {ran.told}")
    expect(place.n_paid == 2, "a release under another id paid nothing")


def _changed_input(trial: Trial) -> None:
    place = trial.place("changed-input")
    _cut_off(place)
    place.write([*trial.logs.usual(), trial.logs.another()])
    for what, changes in {
        "log": {},
        "log and other parts": {"parts": trial.config.parts + 1},
    }.items():
        ran = place.release(**changes)
        expect(not place.is_visible(), f"with another {what} the same key released")
        expect(ran.code == 2, f"with another {what} the rerun ended with {ran.told}")
    place.write(trial.logs.usual())
    ran = place.release(parts=trial.config.parts + 1)
    expect(not place.is_visible(), "with another configuration the same key released")
    expect(ran.code == 2, f"with another configuration the rerun ended with {ran.told}")
    expect(place.n_paid == 1, f"charges that count as spent, in place of 1: {place.n_paid}")


def _given_up(trial: Trial) -> None:
    place = trial.place("given-up")
    _cut_off(place)
    forfeit(place.store, place.ledger, str(place.output), "r", OFFICER, REASON)
    expect(place.n_paid == 1, f"charges that count as spent after ledger forfeit: {place.n_paid}")
    expect(place.n_keys == 0, "after ledger forfeit the key is still there")
    place.release()
    expect(
        not place.is_visible() or place.n_paid == 2,
        "a release that was given up was released afterwards without paying again",
    )


def _deleted_key(trial: Trial) -> None:
    place = trial.place("deleted-key")
    _cut_off(place)
    for key in (place.keys / "releases").glob("*.key"):
        key.unlink()
    ran = place.release()
    expect(
        ran.code != 0 or place.n_paid == 2,
        "the run drew anew under another key, and paid nothing for it",
    )


def _changed_decision(trial: Trial) -> None:
    place = trial.place("changed-decision")
    _cut_off(place)
    place.cut_off("other")
    others = {path.name: path.read_bytes() for path in _decisions(place, "other")}
    if not others:
        raise NotApplicable("The method decides nothing that is kept between runs.")
    for path in _decisions(place, "r"):
        path.write_bytes(others[path.name])
    ran = place.release()
    expect(ran.code != 0, "what somebody put in place of a decision was released")
    expect(place.n_paid == 2, f"charges that count as spent, in place of 2: {place.n_paid}")


def _decisions(place: Place, release_id: str) -> list[Path]:
    """The files of what a run that was cut off decided."""
    folder = Path(place.workplace(release_id).decisions)
    return list(folder.rglob("*.decision"))


def _lost_decision(trial: Trial) -> None:
    place = trial.place("lost-decision")
    _cut_off(place)
    built = place.bytes_built()
    shutil.rmtree(place.workplace().decisions, ignore_errors=True)
    ran = place.release()
    if ran.code != 0:
        expect(place.n_paid == 1, "a rerun without what was decided was refused, and is not paid")
        return
    expect(place.bytes_of() == built, "the rerun drew other noise under the same key")


def _commit(trial: Trial) -> None:
    place = trial.place("commit")
    ran = place.cut_off_after_it_is_visible()
    expect(ran.code == 7, f"a run that was cut off after its rename ended with {ran.told}")
    expect(place.is_visible(), "nothing is visible of a release whose files were renamed")
    expect(place.n_paid == 1, f"charges of a visible release that count as spent: {place.n_paid}")
    released = place.bytes_of()
    ran = place.release()
    expect(ran.code == 0, f"the run after it ended with {ran.told}")
    expect(place.bytes_of() == released, "the run after it wrote other bytes")
    actions = [entry.action for entry in place.paid()]
    expect(actions == ["commit"], f"the ledger says {', '.join(actions)} of it")
    expect(place.n_keys == 0, "the key of a finished release is still there")


def _finished(trial: Trial) -> None:
    place = trial.place("finished")
    expect((ran := place.release()).code == 0, f"the release ended with {ran.told}")
    released = place.bytes_of()
    elsewhere = place.folder / "link"
    elsewhere.symlink_to(place.output)
    for what, changes in {
        "again": {},
        "by another spelling of the output": {"output": f"{place.output}/../out/"},
        "through a link to the output": {"output": str(elsewhere)},
    }.items():
        ran = place.release(**changes)
        expect(ran.code == 0, f"the same release {what} ended with {ran.told}")
    place.write([*trial.logs.usual(), trial.logs.another()])
    ran = place.release()
    expect(ran.code == 2, f"a run under its id on another log ended with {ran.told}")
    expect(place.bytes_of() == released, "its bytes changed")
    expect(place.n_paid == 1, f"charges that count as spent, in place of 1: {place.n_paid}")


def _withdrawn(trial: Trial) -> None:
    place = trial.place("withdrawn")
    expect((ran := place.release()).code == 0, f"the release ended with {ran.told}")
    withdraw(place.store, place.ledger, str(place.output), "r", OFFICER, REASON)
    ran = place.release()
    expect(not place.is_visible() and ran.code == 2, f"it was released again: {ran.told}")
    expect(place.n_paid == 1, f"charges that count as spent after ledger withdraw: {place.n_paid}")


def _at_once(trial: Trial) -> None:
    place = trial.place("at-once")
    with place.store.alone(str(place.output), "r"):
        ran = place.release()
    expect(not place.is_visible(), "a second run released while the first was at work")
    expect(ran.code == 75, f"a second run ended with {ran.told} while the first was at work")
    expect(place.n_paid == 0, "the second run was paid for")


CHECKS = {
    "refund": _refund,
    "changed input": _changed_input,
    "given up": _given_up,
    "deleted key": _deleted_key,
    "changed decision": _changed_decision,
    "lost decision": _lost_decision,
    "cut-off commit": _commit,
    "finished release": _finished,
    "withdrawn release": _withdrawn,
    "at once": _at_once,
}
