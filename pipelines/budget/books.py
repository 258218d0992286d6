"""Where it is written down what becomes of a release: ledger, key store, manifest, statement."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Literal, Protocol, cast

from apache_beam.io.filesystems import FileSystems

from tracecloak.pipelines.budget.accounts import load_accounts
from tracecloak.pipelines.budget.balance import charges_of
from tracecloak.pipelines.budget.database import place_of
from tracecloak.pipelines.budget.entries import UNDRAWN
from tracecloak.pipelines.budget.key_store import KeyStore, Receipt
from tracecloak.pipelines.budget.ledger import Ledger, LedgerError
from tracecloak.pipelines.budget.noted_cases import note_cases
from tracecloak.pipelines.budget.opening import ledger_of, store_at
from tracecloak.pipelines.runners.failures import reason_of
from tracecloak.pipelines.runners.names import is_local
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.transforms.files import require_file_system
from tracecloak.transforms.publish.release_folder import ReleaseFolder

_LOG = logging.getLogger("tracecloak")


class AfterReleaseError(TracecloakError):
    """The release is complete and visible, but a step after it failed."""

    exit_code = 7


class PayingConfig(Protocol):
    """What a configuration says of who pays."""

    @property
    def key_store(self) -> str | None:
        """Folder of the key store, or None for the usual one."""
        ...

    @property
    def worker_keys(self) -> str | None:
        """Folder where workers elsewhere find keys."""
        ...

    @property
    def key_encryption_key(self) -> str | None:
        """Reference to the key that wraps keys, or None for that of the environment."""
        ...

    @property
    def ledger(self) -> str | None:
        """URL of the ledger, or None for that of the key store."""
        ...

    @property
    def account(self) -> str:
        """Which account pays."""
        ...

    @property
    def accounts(self) -> str | None:
        """File of the accounts' caps."""
        ...

    @property
    def new_ledger(self) -> bool:
        """Whether a ledger is begun where there is none."""
        ...

    @property
    def runner(self) -> str:
        """Beam runner."""
        ...


def open_store(config: PayingConfig) -> KeyStore:
    """Returns the key store of a configuration, whose keys can be read and lie as they shall.

    Raises:
        UsageError: worker_keys is on a file system that nobody knows here, or keys are wrapped, and
            what wrapped them was not named; see `KeyStore.check_secrets`.
        RetryLater: The key-encryption key cannot be had now.
        KeyStoreError: The store cannot be used.
    """
    if config.worker_keys is not None:
        require_file_system("worker_keys", config.worker_keys)
    store = store_at(config.key_store, config.worker_keys, config.key_encryption_key)
    store.check_secrets()
    return store


def check_worker_keys(config: PayingConfig) -> None:
    """Makes sure that workers can find the key, as far as it can be told.

    Raises:
        UsageError: They run where nobody sees this machine's disk.
    """
    if config.runner == "DataflowRunner" and (
        config.worker_keys is None or FileSystems.get_scheme(config.worker_keys) is None
    ):
        raise UsageError(
            "runner DataflowRunner has workers that cannot read this machine's key store; name a "
            "folder that they alone can read with worker_keys, such as gs://BUCKET/keys"
        )


def open_ledger(config: PayingConfig, store: KeyStore) -> Ledger:
    """Returns the ledger of a configuration.

    Raises:
        UsageError: There is none and none is to be begun, it cannot be opened, or is on this
            machine and the run is not.
        LedgerError: It, or the key store, was restored from an old backup, as it seems.
    """
    accounts = {} if config.accounts is None else load_accounts(config.accounts)
    if config.accounts is not None and config.account not in accounts:
        raise UsageError(
            f"account {config.account!r} is not in {config.accounts}; name one of "
            f"{', '.join(sorted(accounts))}"
        )
    ledger = ledger_of(store, config.ledger, accounts, config.new_ledger)
    if not ledger.is_shared and not is_local(config.runner):
        raise UsageError(
            f"runner {config.runner} leaves this machine, and an SQLite ledger does not; give the "
            "URL of a shared database with ledger"
        )
    ledger.check_remembered()
    return ledger


@dataclass(frozen=True)
class Books:
    """Where it is written down what became of a release: the ledger first, then the key store."""

    store: KeyStore
    ledger: Ledger
    folder: ReleaseFolder

    def shown(self, key_fingerprint: str) -> Literal["nothing", "release", "overtaken", "other"]:
        """Returns what a reader finds in the release's place.

        Returns:
            `release`: it is complete, under this key. `overtaken`: it is, under another key.
            `other`: files of a commit that was cut off, as it can be where files are moved one by
            one.
        """
        made = self.folder.committed()
        if made is not None:
            is_ours = made["randomness"]["key_fingerprint"] == key_fingerprint
            return "release" if is_ours else "overtaken"
        pattern = FileSystems.join(self.folder.final, "**")
        return "other" if FileSystems.match([pattern])[0].metadata_list else "nothing"

    def check_not_withdrawn(self) -> None:
        """Makes sure that the release was not taken back, before anything is made for it.

        Raises:
            UsageError: It was.
            LedgerError: The ledger cannot be read.
        """
        output, release_id = self.folder.output, self.folder.release_id
        receipt = self.store.receipt(output, release_id)
        if receipt is not None:
            receipt.check_not_withdrawn()
        self.ledger.check_not_withdrawn(output, release_id)

    def check_not_gone(self) -> None:
        """Makes sure that the release was not committed before, where it is not there.

        Raises:
            UsageError: It was, and is not drawn and paid for again.
            LedgerError: The ledger cannot be read.
        """
        output, release_id = self.folder.output, self.folder.release_id
        receipt = self.store.receipt(output, release_id)
        if receipt is None or self.store.unfinished(output, release_id) is not None:
            return  # with its key it is finished for nothing
        is_committed = receipt.state == "committed" or (
            receipt.state == "reserved"  # cut off between its key's end and the receipt
            and self.ledger.state(output, release_id, receipt.key_fingerprint) == "commit"
        )
        if is_committed:
            raise receipt.gone_from(self.folder.final)

    def has_drawn(self, receipt: Receipt) -> bool:
        """Returns whether a release may have drawn noise, by the ledger or by what is not known.

        Raises:
            LedgerError: The ledger cannot be read.
        """
        state = self.ledger.state(receipt.output, receipt.release_id, receipt.key_fingerprint)
        return receipt.left_machine or state not in (None, *UNDRAWN, "void")

    def was_given_up(self, receipt: Receipt) -> bool:
        """Returns whether somebody gave a release up, elsewhere: its key is destroyed here, too.

        Raises:
            UsageError: It was begun with another ledger, which alone knows.
            LedgerError: The ledger cannot be read.
        """
        output, release_id = receipt.output, receipt.release_id
        begun_with = self.store.ledger_of(output, release_id)
        if begun_with is not None and place_of(begun_with) != self.ledger.place:
            raise UsageError(
                f"release_id {release_id!r} in {output} was begun with {place_of(begun_with)}, and "
                "is not finished; name that ledger, or give the release up in it with `tracecloak "
                "ledger forfeit`"
            )
        if self.ledger.state(output, release_id, receipt.key_fingerprint) != "forfeit":
            return False
        replace(self.folder, staging_area=receipt.staging_area).clear()
        self.store.forget(output, release_id)
        return True

    def check_payer(self, receipt: Receipt, account: str) -> None:
        """Makes sure that the account pays that a release was charged to before it was cut off.

        Raises:
            UsageError: It was another.
            LedgerError: The ledger cannot be read.
        """
        of_release = receipt.output, receipt.release_id, receipt.key_fingerprint
        for entry in charges_of(self.ledger.entries(), *of_release)[-1:]:
            if entry.account != account:
                raise UsageError(
                    f"release_id {receipt.release_id!r} in {receipt.output} drew noise before it "
                    f"was cut off, and account {entry.account!r} paid; set account to "
                    f"{entry.account!r}, or choose another release_id"
                )

    def is_paid_by(self, receipt: Receipt, account: str) -> bool:
        """Returns whether what a release reserved before it was cut off is of an account alone.

        Raises:
            LedgerError: The ledger cannot be read.
        """
        of_release = receipt.output, receipt.release_id, receipt.key_fingerprint
        found = charges_of(self.ledger.entries(), *of_release)
        return all(entry.account == account for entry in found if entry.is_open)

    def void(self, key_fingerprint: str) -> bool:
        """Nothing of the release is visible: what was reserved is free again, if nothing was drawn.

        Where that cannot be written down, the key stays, so a further run draws nothing new.

        Returns:
            Whether it is free, or why not was told.
        """
        output, release_id = self.folder.output, self.folder.release_id
        try:
            receipt = self.store.receipt(output, release_id)
            if receipt is not None and receipt.left_machine:
                return False
            if not self.ledger.void(output, release_id, key_fingerprint):
                return False
            self.folder.clear()
            self.store.forget(output, release_id)
        except Exception as error:
            _LOG.warning(
                "nothing was released, but that could not be written down: %s. Run the same "
                "command again, or its budget stays spent",
                reason_of(error),
            )
        return True

    def forfeit(self, key_fingerprint: str, by: str, reason: str) -> None:
        """Gives up a release that is not finished: it stays spent, its key is destroyed.

        The ledger first: what draws meanwhile is stopped there.

        Raises:
            UsageError: It has no open reservation.
            LedgerError: The ledger cannot be used.
            KeyStoreError: The key store cannot be used.
        """
        output, release_id = self.folder.output, self.folder.release_id
        self.note_cases(key_fingerprint)
        self.ledger.forfeit(output, release_id, key_fingerprint, by, reason)
        self.store.forget(output, release_id)
        self.folder.clear()

    def decisions(self, key_fingerprint: str) -> str:
        """Returns where what is decided under a key is kept.

        Another key store may release to the same output.
        """
        return cast(str, FileSystems.join(self.folder.decisions, key_fingerprint))

    def sketch_path(self, key_fingerprint: str) -> str:
        """Returns where a run under a key puts the sketch of the cases that it read."""
        return cast(str, FileSystems.join(self.decisions(key_fingerprint), "cases.sketch"))

    def note_cases(self, key_fingerprint: str) -> None:
        """Notes which cases a run read that drew noise, if it came to know; see `noted_cases`."""
        output, release_id = self.folder.output, self.folder.release_id
        try:
            entries = self.ledger.entries()
        except LedgerError as error:  # nothing else depends on it, and the run may have failed
            _LOG.warning("which cases release %s read was not noted: %s", release_id, error)
            return
        for entry in charges_of(entries, output, release_id, key_fingerprint)[-1:]:
            note_cases(self.ledger.url, entries, entry, self.sketch_path(key_fingerprint))

    def finish(self, key_fingerprint: str) -> None:
        """What comes after the release is visible.

        Raises:
            AfterReleaseError: It failed; running the release again mends it.
        """
        folder = self.folder
        try:
            self.note_cases(key_fingerprint)
            folder.point_latest()
            self.ledger.commit(folder.output, folder.release_id, key_fingerprint)
            folder.clear()
            self.store.commit(folder.output, folder.release_id)
        except BaseException as error:  # an interrupt, too: the release is visible
            raise after_release(folder, error) from error


def after_release(folder: ReleaseFolder, error: BaseException) -> AfterReleaseError:
    """Returns what to say where a step failed and the release is visible."""
    return AfterReleaseError(
        f"the release in {folder.final} is complete, but a step after it failed: "
        f"{reason_of(error)}. Run the same command again"
    )
