"""Ledgers and key stores that were put back, changed, lost or swapped: spent stays spent."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

from tests.support.checks.finding import Check, NotApplicable, expect
from tests.support.checks.trial import Place, Trial


def _released(trial: Trial, name: str, release_id: str = "r") -> Place:
    place = trial.place(name)
    ran = place.release(release_id=release_id)
    expect(ran.code == 0, f"the first release ended with {ran.told}")
    return place


def _refused(place: Place, what: str, **changes: object) -> str:
    """Makes sure that a second release is refused; returns the exit code in words."""
    ran = place.release(release_id="second", **changes)
    expect(ran.code != 0 and not place.is_visible("second"), f"a release went through {what}")
    return f"exit code {ran.code}"


def _old_ledger(trial: Trial) -> str:
    place = _released(trial, "old-ledger", "zeroth")
    backup = place.ledger_file.read_bytes()
    expect((ran := place.release()).code == 0, f"a second release ended with {ran.told}")
    place.ledger_file.write_bytes(backup)
    refusal = _refused(place, "with a ledger that has forgotten a release")
    return f"The next release was refused with {refusal}."


def _old_copy(trial: Trial) -> str:
    place = _released(trial, "old-copy", "zeroth")
    copy = place.folder / "backup.db"
    shutil.copy(place.ledger_file, copy)
    expect((ran := place.release()).code == 0, f"a second release ended with {ran.told}")
    refusal = _refused(
        place,
        "by a configuration that names a backup of the ledger, which has forgotten a release",
        ledger=f"sqlite:///{copy}",
    )
    return f"A configuration that names the backup was refused with {refusal}."


def _old_key_store(trial: Trial) -> str:
    place = _released(trial, "old-key-store", "zeroth")
    backup = place.folder / "backup"
    shutil.copytree(place.keys, backup)
    expect((ran := place.release()).code == 0, f"a second release ended with {ran.told}")
    ledger = place.ledger_file.read_bytes()
    shutil.rmtree(place.keys)
    backup.rename(place.keys)
    place.ledger_file.write_bytes(ledger)
    refusal = _refused(place, "with a key store that has forgotten a release")
    seen = f"The next release was refused with {refusal}."
    if trial.has_ledger_elsewhere:
        return seen
    return (
        f"{seen} Nobody would notice a backup that has the key store and its ledger: this "
        "configuration keeps both in one folder."
    )


def _changed_entry(trial: Trial) -> str:
    place = trial.place("changed-entry")
    if trial.cost is not None:  # the next release is beyond the cap, whatever the entry says then
        place.declare()
    expect((ran := place.release()).code == 0, f"the first release ended with {ran.told}")
    _sql(place, "UPDATE tracecloak_ledger SET account = 'nobody' WHERE action = 'reserve'")
    expect(bool(place.ledger.verify()), "`ledger verify` does not see that an entry was changed")
    if trial.cost is None:
        return "`ledger verify` sees it."
    refusal = _refused(place, "beyond the cap, as somebody changed who paid")
    return f"`ledger verify` sees it, and the next release, beyond the cap, met {refusal}."


def _removed_entries(trial: Trial) -> str:
    place = _released(trial, "removed-entries")
    _sql(place, "DELETE FROM tracecloak_ledger")
    refusal = _refused(place, "with a ledger whose entries somebody removed")
    return f"The next release was refused with {refusal}."


def _sql(place: Place, statement: str) -> None:
    with closing(sqlite3.connect(place.ledger_file)) as connection:
        connection.execute(statement)
        connection.commit()


def _lost_ledger(trial: Trial) -> str:
    place = _released(trial, "lost-ledger")
    place.ledger_file.unlink()
    codes = [
        _refused(place, f"without its ledger, with new_ledger {new}", new_ledger=new)
        for new in (False, True)
    ]
    return f"The next release was refused with {codes[0]}, and with new_ledger with {codes[1]}."


def _second_beginning(trial: Trial) -> str:
    place = _released(trial, "second-beginning")
    ran = place.release(release_id="second", new_ledger=True)
    expect(place.n_paid == 1 + (ran.code == 0), "new_ledger emptied a ledger that was there")
    return "The ledger stayed, with all that was spent in it."


def _fresh_ledger(trial: Trial) -> str:
    place = _released(trial, "fresh-ledger")
    new = trial.config.new_ledger
    if new:
        mend = ". The configuration says new_ledger: leave it out after the first release"
        other = str(place.folder / "other keys")
        ran = place.release(release_id="second", key_store=other, ledger=None, new_ledger=new)
        expect(ran.code != 0, f"another key_store begins a ledger in which nothing is spent{mend}")
    url = f"sqlite:///{place.folder / 'fresh.db'}"
    _refused(place, "into a ledger that was not there", ledger=url, new_ledger=new)
    other = str(place.folder / "other keys")
    refusal = _refused(
        place, "with a key store that was not there", key_store=other, ledger=None, new_ledger=new
    )
    return (
        f"Another ledger and another key_store, which were not there, were refused with {refusal}."
    )


def _declared_elsewhere(trial: Trial) -> str:
    if trial.cost is None:
        raise NotApplicable("No finite epsilon holds for the method, so no cap can be filled.")
    place = trial.place("declared-elsewhere")
    place.declare()
    expect((ran := place.release()).code == 0, f"the first release ended with {ran.told}")
    refusal = _refused(
        place,
        "past the caps, by a configuration that begins another ledger with new_ledger",
        ledger=f"sqlite:///{place.folder / 'fresh.db'}",
        new_ledger=True,
    )
    return f"A configuration that begins another ledger with new_ledger was refused with {refusal}."


def _other_key_store(trial: Trial) -> str:
    place = trial.place("other-key-store")
    other = str(place.folder / "other keys")
    url = f"sqlite:///{place.ledger_file}"
    place.cut_off()
    ran = place.release(key_store=other, ledger=url)
    expect(
        ran.code != 0 or place.n_paid == 2,
        "another key store drew other noise for a release that was cut off, and paid nothing",
    )
    if ran.code == 0:
        released = place.bytes_of()
        again = place.release(ledger=url)
        expect(place.bytes_of() == released, f"the first key store replaced it: {again.told}")
    ran = place.release(key_store=other, ledger=url, release_id="second")
    expect(ran.code == 0, f"a second release, of the other key store, ended with {ran.told}")
    released, n = place.bytes_of("second"), place.n_paid
    ran = place.release(ledger=url, release_id="second")
    expect(ran.code == 2, f"the first key store, at the other's release, ended with {ran.told}")
    expect(place.bytes_of("second") == released and place.n_paid == n, "it changed that release")
    return "Whoever drew paid, and a release that another key store made was refused and stayed."


CHECKS = (
    Check("old ledger", "The ledger is put back from a backup, and a release is run.", _old_ledger),
    Check(
        "old copy of the ledger",
        "A configuration names a backup of the ledger in place of the ledger.",
        _old_copy,
    ),
    Check(
        "old key store",
        "The key store is put back from a backup without its ledger, and a release is run.",
        _old_key_store,
    ),
    Check("changed entry", "Somebody changes an entry of the ledger's table.", _changed_entry),
    Check("removed entries", "Somebody empties the ledger's table.", _removed_entries),
    Check("lost ledger", "The ledger is deleted, and begun with new_ledger.", _lost_ledger),
    Check(
        "second beginning",
        "A release is run with new_ledger where there is a ledger.",
        _second_beginning,
    ),
    Check(
        "fresh ledger",
        "The configuration names a ledger, or a key store, that is not there.",
        _fresh_ledger,
    ),
    Check(
        "ledger without caps",
        "The officer declares a cap, which is spent; a configuration names another ledger and says "
        "new_ledger.",
        _declared_elsewhere,
    ),
    Check(
        "other key store",
        "Another key store makes a release that was cut off, and the first one a release of that.",
        _other_key_store,
    ),
)
