"""Where it is written down what becomes of a release: ledger, key store, manifest, statement."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from fractions import Fraction

from apache_beam.io.filesystems import FileSystems

from anonymizers.accounting import decimal_text, total
from anonymizers.registry import method_named
from pipelines.accounts import load_accounts
from pipelines.config import ReleaseConfig
from pipelines.key_store import KeyStore
from pipelines.ledger import Ledger, Reservation
from pipelines.runners import IN_MEMORY, is_durable, is_local, version
from schemas.errors import TracecloakError, UsageError
from schemas.release import ReleaseManifest
from transforms.read import EventSource
from transforms.release_folder import ReleaseFolder, write_text
from transforms.statement import STATEMENT_NAME, InternalFacts, internal_statement
from transforms.validate import DeadLetter

_LOG = logging.getLogger("tracecloak")


class AfterReleaseError(TracecloakError):
    """The release is complete and visible, but a step after it failed."""

    exit_code = 7


def open_ledger(config: ReleaseConfig, store: KeyStore) -> Ledger:
    """Returns the ledger of a configuration.

    Raises:
        UsageError: It cannot be opened, or is on this machine and the run is not.
    """
    accounts = {} if config.accounts is None else load_accounts(config.accounts)
    if config.accounts is not None and config.account not in accounts:
        raise UsageError(
            f"account {config.account!r} is not in {config.accounts}; name one of "
            f"{', '.join(sorted(accounts))}"
        )
    ledger = Ledger(config.ledger or store.ledger_url, accounts)
    if not ledger.is_shared and not is_local(config.runner):
        raise UsageError(
            f"runner {config.runner} leaves this machine, and an SQLite ledger does not; give the "
            "URL of a shared database with ledger"
        )
    return ledger


def manifest_of(
    config: ReleaseConfig, folder: ReleaseFolder, key_fingerprint: str
) -> ReleaseManifest:
    """Returns what a release says of itself."""
    method = method_named(config.method)
    params = config.method_params
    in_memory_run = config.runner == IN_MEMORY
    return ReleaseManifest(
        release_id=folder.release_id,
        method=method.name,
        params=params.resolved(),
        guarantee=method.guarantee(params),
        operations=method.operations,
        spends=tuple(part.to_json() for part in method.spends(params)),
        config_digest=config.digest,
        key_fingerprint=key_fingerprint,
        exact_noise=method.exact_noise,
        unsafe_barrier=not in_memory_run and not is_durable(config.runner),
        beam_version=None if in_memory_run else version(),
    )


def reservation_of(
    config: ReleaseConfig, folder: ReleaseFolder, key_fingerprint: str
) -> Reservation:
    """Returns what a release takes from its account."""
    method = method_named(config.method)
    params = config.method_params
    guarantee = method.guarantee(params)
    spends = method.spends(params)
    epsilon, delta = total(spends) if spends else (None, None)
    return Reservation(
        account=config.account,
        release_id=folder.release_id,
        output=folder.output,
        epsilon=epsilon,
        delta=delta,
        unit=guarantee.unit,
        adjacency=guarantee.adjacency,
        method=method.name,
        spends=tuple(part.to_json() for part in spends),
        config_digest=config.digest,
        key_fingerprint=key_fingerprint,
    )


@dataclass(frozen=True)
class Books:
    """Where it is written down what became of a release: the ledger first, then the key store."""

    store: KeyStore
    ledger: Ledger
    folder: ReleaseFolder

    def void(self, key_fingerprint: str) -> None:
        """Nothing of the release is visible: what was reserved is free again.

        Where the ledger cannot be told, the key stays, so a further run draws nothing new.
        """
        self.folder.discard()
        try:
            self.ledger.void(self.folder.output, self.folder.release_id, key_fingerprint)
        except TracecloakError as error:
            _LOG.warning(
                "nothing was released, but the ledger could not be told: %s. Run the same release "
                "again, or its budget stays spent",
                error,
            )
            return
        self.store.void(self.folder.output, self.folder.release_id)

    def finish(self, key_fingerprint: str) -> None:
        """What comes after the release is visible.

        Raises:
            AfterReleaseError: It failed; running the release again mends it.
        """
        folder = self.folder
        try:
            folder.point_latest()
            self.ledger.commit(folder.output, folder.release_id, key_fingerprint)
            self.store.commit(folder.output, folder.release_id)
            folder.discard()
        except Exception as error:
            raise AfterReleaseError(
                f"the release in {folder.final} is complete, but {type(error).__name__} came after "
                "it; run the same command again"
            ) from error


def write_internal_statement(
    config: ReleaseConfig,
    source: EventSource,
    folder: ReleaseFolder,
    dead_letter: DeadLetter,
    ledger: Ledger,
    key_fingerprint: str,
) -> None:
    """Writes the operator's edition of the statement, beside the dead letter.

    Raises:
        AfterReleaseError: It could not be written; the release is complete.
    """
    try:
        balance = ledger.balance(config.account)
        account = ledger.accounts.get(config.account)
        facts = InternalFacts(
            account=config.account,
            ledger=ledger.place,
            spent_after=_text(balance.spent_epsilon),
            cap=None if account is None else _text(account.epsilon_cap),
            inputs=tuple(file.path for file in source.files),
            runner=config.runner,
            config_digest=config.digest,
            key_fingerprint=key_fingerprint,
            dead_letter=dead_letter.folder if FileSystems.exists(dead_letter.folder) else None,
            configuration=config.model_dump(mode="json"),
        )
        manifest = manifest_of(config, folder, key_fingerprint)
        path = FileSystems.join(
            folder.output, "_internal", f"run_id={folder.release_id}", STATEMENT_NAME
        )
        write_text(path, internal_statement(manifest, facts))
    except Exception as error:
        raise AfterReleaseError(
            f"the release in {folder.final} is complete, but {type(error).__name__} came while its "
            "internal statement was written"
        ) from error


def _text(value: Fraction | None) -> str | None:
    return None if value is None else decimal_text(value)
