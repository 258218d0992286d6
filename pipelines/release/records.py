"""What a release says of itself, takes from its account, and tells its operator."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

from apache_beam.io.filesystems import FileSystems

from tracecloak.anonymizers.accounting.composition import decimal_text, total
from tracecloak.anonymizers.registry import method_named
from tracecloak.anonymizers.rigorous.windows import windows_sentence
from tracecloak.pipelines.budget.books import Books, after_release
from tracecloak.pipelines.budget.entries import WindowCharge
from tracecloak.pipelines.budget.key_store import KeyStore, Receipt
from tracecloak.pipelines.budget.ledger import Reservation
from tracecloak.pipelines.release.config import ReleaseConfig, without_filters
from tracecloak.pipelines.release.window_facts import window_facts
from tracecloak.pipelines.runners.names import IN_MEMORY, is_durable
from tracecloak.pipelines.runners.options import version
from tracecloak.schemas.published.manifest import ReleaseManifest
from tracecloak.transforms.batch.validate import DeadLetter
from tracecloak.transforms.files import write_anew
from tracecloak.transforms.publish.names import STATEMENT_NAME
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.publish.statement import InternalFacts, internal_statement
from tracecloak.transforms.sources import EventSource


def manifest_of(
    config: ReleaseConfig, folder: ReleaseFolder, key_fingerprint: str, released_on: str
) -> ReleaseManifest:
    """Returns what a release says of itself.

    Args:
        config: Its configuration.
        folder: Where it lies.
        key_fingerprint: Tells release keys apart.
        released_on: The day of its reservation; empty: not known.
    """
    method = method_named(config.method)
    params = config.method_params
    in_memory_run = config.runner == IN_MEMORY
    return ReleaseManifest(
        release_id=folder.release_id,
        method=method.name,
        params=params.resolved(),
        guarantee=config.guarantee,
        operations=method.operations,
        spends=tuple(part.to_json() for part in method.spends(params)),
        config_digest=without_filters(config).digest,
        key_fingerprint=key_fingerprint,
        exact_noise=method.exact_noise,
        unsafe_barrier=not in_memory_run and not is_durable(config.runner),
        beam_version=None if in_memory_run else version(),
        about=config.about.model_dump(exclude_none=True),
        released_on=released_on or None,
        window=_window_of(config),
    )


def _window_of(config: ReleaseConfig) -> dict[str, Any] | None:
    schedule, window = config.made_schedule, config.made_window
    if schedule is None or window is None:
        return None
    method, params = method_named(config.method), config.method_params
    costs = windows_sentence(method, params)
    composition = "none" if not costs else "sum" if config.windows_add_up else "largest"
    return window_facts(schedule, window, composition, costs)


def reservation_of(
    config: ReleaseConfig,
    folder: ReleaseFolder,
    key_fingerprint: str,
    window: WindowCharge | None = None,
) -> Reservation:
    """Returns what a release takes from its account.

    Args:
        config: Its configuration.
        folder: Where it goes.
        key_fingerprint: Tells release keys apart.
        window: Of which window it is, for the ledger; None: of none.
    """
    method = method_named(config.method)
    params = config.method_params
    guarantee = config.guarantee
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
        config_digest=without_filters(config).digest,  # others may read the ledger
        key_fingerprint=key_fingerprint,
        dataset=config.dataset,
        window=window,
    )


def internal_statement_path(store: KeyStore, folder: ReleaseFolder) -> str:
    """Returns where the operator's edition of a release's statement lies."""
    own = store.operator_folder(folder.output, folder.release_id)
    return cast(str, FileSystems.join(own, STATEMENT_NAME))


def write_internal_statement(
    config: ReleaseConfig,
    source: EventSource,
    books: Books,
    dead_letter: DeadLetter,
    receipt: Receipt,
) -> None:
    """Writes the operator's edition of the statement where only the operator reads.

    Raises:
        AfterReleaseError: It could not be written; the release is complete.
    """
    folder, ledger = books.folder, books.ledger
    try:
        entries = ledger.entries()
        balance = ledger.balance_in(entries, config.account)
        account = ledger.account_in(entries, config.account)
        is_any_malformed = any(found.is_malformed for found in dead_letter.told()[1])
        facts = InternalFacts(
            account=config.account,
            ledger=ledger.place,
            spent_after=_text(balance.spent_epsilon),
            cap=None if account is None else _text(account.epsilon_cap),
            inputs=tuple(file.path for file in source.files) or config.input,
            runner=config.runner,
            config_digest=config.digest,
            key_fingerprint=receipt.key_fingerprint,
            dead_letter=dead_letter.folder if is_any_malformed else None,
            configuration=config.model_dump(mode="json"),
        )
        manifest = manifest_of(config, folder, receipt.key_fingerprint, receipt.reserved_on)
        write_anew(
            internal_statement_path(books.store, folder),
            internal_statement(manifest, facts).encode(),
        )
    except BaseException as error:
        raise after_release(folder, error) from error


def _text(value: Fraction | None) -> str | None:
    return None if value is None else decimal_text(value)
