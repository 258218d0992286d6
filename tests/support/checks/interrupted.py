"""Runs that are cut off, run twice or run at once: what was drawn is paid for, and drawn once."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.checks.finding import Check, NotApplicable, expect
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


def _refund(trial: Trial) -> str:
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
    seen = "The budget stayed spent and the key stayed; the rerun gave the same bytes and paid once"
    ran = place.release(release_id="another")
    expect(ran.code == 0, f"a release under another id ended with {ran.told}")
    expect(place.n_paid == 2, "a release under another id paid nothing")
    if place.bytes_of("another") == released:
        return f"{seen}. Releases of the made-up log do not show their noise, so bytes tell little."
    return f"{seen}; those under another id differ, and were paid for."


def _changed_input(trial: Trial) -> str:
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
    return "Every rerun was refused with exit code 2, and the budget stayed spent."


def _given_up(trial: Trial) -> str:
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
    return "What was given up stayed spent, and a further run under its id paid again."


def _deleted_key(trial: Trial) -> str:
    place = trial.place("deleted-key")
    _cut_off(place)
    for key in (place.keys / "releases").glob("*.key"):
        key.unlink()
    ran = place.release()
    expect(
        ran.code != 0 or place.n_paid == 2,
        "the run drew anew under another key, and paid nothing for it",
    )
    return f"The run ended with {ran.told}; charges that count as spent: {place.n_paid}."


def _changed_decision(trial: Trial) -> str:
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
    return f"The rerun ended with {ran.told}; nothing was released, and the budget stayed spent."


def _decisions(place: Place, release_id: str) -> list[Path]:
    """The files of what a run that was cut off decided."""
    folder = Path(place.workplace(release_id).decisions)
    return list(folder.rglob("*.decision"))


def _lost_decision(trial: Trial) -> str:
    place = trial.place("lost-decision")
    _cut_off(place)
    built = place.bytes_built()
    shutil.rmtree(place.workplace().decisions, ignore_errors=True)
    ran = place.release()
    if ran.code != 0:
        expect(place.n_paid == 1, "a rerun without what was decided was refused, and is not paid")
        return f"The rerun ended with {ran.told}."
    expect(place.bytes_of() == built, "the rerun drew other noise under the same key")
    return "The rerun drew the same noise once more, as the key and the input were the same."


def _commit(trial: Trial) -> str:
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
    return "The release stayed spent; the next run finished the books and drew nothing."


def _finished(trial: Trial) -> str:
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
    return "It stayed as it was and was paid for once; another log was refused with exit code 2."


def _withdrawn(trial: Trial) -> str:
    place = trial.place("withdrawn")
    expect((ran := place.release()).code == 0, f"the release ended with {ran.told}")
    withdraw(place.store, place.ledger, str(place.output), "r", OFFICER, REASON)
    ran = place.release()
    expect(not place.is_visible() and ran.code == 2, f"it was released again: {ran.told}")
    expect(place.n_paid == 1, f"charges that count as spent after ledger withdraw: {place.n_paid}")
    return "It stayed spent, and its id was refused with exit code 2."


def _at_once(trial: Trial) -> str:
    place = trial.place("at-once")
    with place.store.alone(str(place.output), "r"):
        ran = place.release()
    expect(not place.is_visible(), "a second run released while the first was at work")
    expect(ran.code == 75, f"a second run ended with {ran.told} while the first was at work")
    expect(place.n_paid == 0, "the second run was paid for")
    return "The second run ended with exit code 75, drew nothing and paid nothing."


CHECKS = (
    Check(
        "refund",
        "A run is interrupted after it drew noise, to be given its budget back; it is run again.",
        _refund,
    ),
    Check(
        "changed input",
        "A run is interrupted after it drew noise; it is run again on a log with one case more, or "
        "with another configuration, to get the same noise on other counts.",
        _changed_input,
    ),
    Check(
        "given up",
        "A run is interrupted after it drew noise, given up with ledger forfeit, and run again.",
        _given_up,
    ),
    Check(
        "deleted key",
        "A run is interrupted after it drew noise, its key is deleted, and it is run again.",
        _deleted_key,
    ),
    Check(
        "changed decision",
        "A run is interrupted after it drew noise; what it keeps for its rerun is replaced by what "
        "another run keeps.",
        _changed_decision,
    ),
    Check(
        "lost decision",
        "A run is interrupted after it drew noise; what it keeps for its rerun is deleted.",
        _lost_decision,
    ),
    Check(
        "cut-off commit",
        "A run is interrupted between the rename that shows the release and the ledger's note.",
        _commit,
    ),
    Check(
        "finished release",
        "A finished release is run again, to other spellings of its output, and on another log.",
        _finished,
    ),
    Check("withdrawn release", "A release is taken back and its id is run again.", _withdrawn),
    Check("at once", "A release is run while another run of it is at work.", _at_once),
)
