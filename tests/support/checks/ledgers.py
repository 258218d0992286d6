"""Ledgers and key stores that were put back, changed, lost or swapped: spent stays spent."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

from tests.support.checks.finding import NotApplicable, expect
from tests.support.checks.trial import Place, Trial


def _released(trial: Trial, name: str, release_id: str = "r") -> Place:
    place = trial.place(name)
    ran = place.release(release_id=release_id)
    expect(ran.code == 0, f"the first release ended with {ran.told}")
    return place


def _refused(place: Place, what: str, **changes: object) -> None:
    """Makes sure that a second release is refused."""
    ran = place.release(release_id="second", **changes)
    expect(ran.code != 0 and not place.is_visible("second"), f"a release went through {what}")


def _old_ledger(trial: Trial) -> None:
    place = _released(trial, "old-ledger", "zeroth")
    backup = place.ledger_file.read_bytes()
    expect((ran := place.release()).code == 0, f"a second release ended with {ran.told}")
    place.ledger_file.write_bytes(backup)
    _refused(place, "with a ledger that has forgotten a release")


def _old_copy(trial: Trial) -> None:
    place = _released(trial, "old-copy", "zeroth")
    copy = place.folder / "backup.db"
    shutil.copy(place.ledger_file, copy)
    expect((ran := place.release()).code == 0, f"a second release ended with {ran.told}")
    _refused(
        place,
        "by a configuration that names a backup of the ledger, which has forgotten a release",
        ledger=f"sqlite:///{copy}",
    )


def _old_key_store(trial: Trial) -> None:
    place = _released(trial, "old-key-store", "zeroth")
    backup = place.folder / "backup"
    shutil.copytree(place.keys, backup)
    expect((ran := place.release()).code == 0, f"a second release ended with {ran.told}")
    ledger = place.ledger_file.read_bytes()
    shutil.rmtree(place.keys)
    backup.rename(place.keys)
    place.ledger_file.write_bytes(ledger)
    _refused(place, "with a key store that has forgotten a release")


def _changed_entry(trial: Trial) -> None:
    place = trial.place("changed-entry")
    if trial.cost is not None:  # the next release is beyond the cap, whatever the entry says then
        place.declare()
    expect((ran := place.release()).code == 0, f"the first release ended with {ran.told}")
    _sql(place, "UPDATE tracecloak_ledger SET account = 'nobody' WHERE action = 'reserve'")
    expect(bool(place.ledger.verify()), "`ledger verify` does not see that an entry was changed")
    if trial.cost is None:
        return
    _refused(place, "beyond the cap, as somebody changed who paid")


def _removed_entries(trial: Trial) -> None:
    place = _released(trial, "removed-entries")
    _sql(place, "DELETE FROM tracecloak_ledger")
    _refused(place, "with a ledger whose entries somebody removed")


def _sql(place: Place, statement: str) -> None:
    with closing(sqlite3.connect(place.ledger_file)) as connection:
        connection.execute(statement)
        connection.commit()


def _lost_ledger(trial: Trial) -> None:
    place = _released(trial, "lost-ledger")
    place.ledger_file.unlink()
    for new in (False, True):
        _refused(place, f"without its ledger, with new_ledger {new}", new_ledger=new)


def _second_beginning(trial: Trial) -> None:
    place = _released(trial, "second-beginning")
    ran = place.release(release_id="second", new_ledger=True)
    expect(place.n_paid == 1 + (ran.code == 0), "new_ledger emptied a ledger that was there")


def _fresh_ledger(trial: Trial) -> None:
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
    _refused(
        place, "with a key store that was not there", key_store=other, ledger=None, new_ledger=new
    )


def _declared_elsewhere(trial: Trial) -> None:
    if trial.cost is None:
        raise NotApplicable("No finite epsilon holds for the method, so no cap can be filled.")
    place = trial.place("declared-elsewhere")
    place.declare()
    expect((ran := place.release()).code == 0, f"the first release ended with {ran.told}")
    _refused(
        place,
        "past the caps, by a configuration that begins another ledger with new_ledger",
        ledger=f"sqlite:///{place.folder / 'fresh.db'}",
        new_ledger=True,
    )


def _other_key_store(trial: Trial) -> None:
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


CHECKS = {
    "old ledger": _old_ledger,
    "old copy of the ledger": _old_copy,
    "old key store": _old_key_store,
    "changed entry": _changed_entry,
    "removed entries": _removed_entries,
    "lost ledger": _lost_ledger,
    "second beginning": _second_beginning,
    "fresh ledger": _fresh_ledger,
    "ledger without caps": _declared_elsewhere,
    "other key store": _other_key_store,
}
