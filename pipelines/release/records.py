"""What a release says of itself, takes from its account, and tells its operator."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

from apache_beam.io.filesystems import FileSystems

from tracecloak.anonymizers.accounting.composition import decimal_text, total
from tracecloak.anonymizers.registry import method_named
from tracecloak.anonymizers.rigorous.windows import windows_sentence
from tracecloak.pipelines.budget.balance import charges
from tracecloak.pipelines.budget.books import Books, after_release
from tracecloak.pipelines.budget.entries import Entry, WindowCharge, windowed
from tracecloak.pipelines.budget.key_store import KeyStore, Receipt
from tracecloak.pipelines.budget.ledger import Reservation
from tracecloak.pipelines.release.config import ReleaseConfig, without_filters
from tracecloak.pipelines.release.window_facts import window_facts
from tracecloak.pipelines.runners.names import IN_MEMORY, is_durable
from tracecloak.pipelines.runners.options import version
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import ReleaseManifest
from tracecloak.transforms.batch.validate import DeadLetter
from tracecloak.transforms.files import write_anew
from tracecloak.transforms.publish.names import STATEMENT_NAME
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.publish.statement import InternalFacts, internal_statement
from tracecloak.transforms.sources import EventSource

_LOG = logging.getLogger("tracecloak")


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
    resolved = params.resolved()
    in_memory_run = config.runner == IN_MEMORY
    return ReleaseManifest(
        release_id=folder.release_id,
        method=method.name,
        method_version=method.version,
        params=resolved,
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
        time_caveats=method.time_caveats(params),
        given={name: resolved[name] for name in params.given()},
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


def warn_of_overlaps(
    config: ReleaseConfig,
    folder: ReleaseFolder,
    window: WindowCharge | None,
    entries: Sequence[Entry],
) -> None:
    """Tells the operator of earlier syntactic releases that may have cases of this one.

    Two logs in each of which k cases are alike can single somebody out if they are laid side by
    side, and no ledger adds that up. Releases count as of the same log if they are of one data set,
    or, where one of them names none, lie in one folder. Windows of one schedule share no case,
    unless they are the same window. Of the log nothing is looked at, and nobody is refused.

    Args:
        config: Of the release that is to be made.
        folder: Where it goes.
        window: Of which window it is; None: of none.
        entries: All entries of the ledger.
    """
    if config.guarantee.kind != "syntactic":
        return
    others = windowed(entries)
    named = {
        entry.charge: entry.facts.get("dataset") for entry in entries if entry.action == "reserve"
    }
    found = []
    for charge, entry in charges(entries).items():
        is_own = (entry.output, entry.release_id) == (folder.output, folder.release_id)
        was_seen = entry.action in ("commit", "withdraw") and _is_syntactic(entry.method)
        datasets = (config.dataset, named.get(charge))
        if None in datasets:
            is_of_log = entry.output == folder.output
        else:
            is_of_log = datasets[0] == datasets[1]
        other = others.get(charge)
        is_apart = (
            window is not None
            and other is not None
            and other.window.scope == window.scope
            and other.window.label != window.label
        )
        if was_seen and is_of_log and not is_own and not is_apart:
            found.append(f"{entry.output}/run_id={entry.release_id}")
    if found:
        more = f" and {len(found) - 1} before it" if len(found) > 1 else ""
        _LOG.warning(
            "%s%s may have cases of this release, and promises k alike ones, too: laid side by "
            "side, such releases can single out who is safe in each; `tracecloak attack --linkage "
            "--growing` over all of them says how far",
            found[-1],
            more,
        )


def _is_syntactic(method: str) -> bool:
    """Whether a method that the ledger names is one; of what is not installed nobody can tell."""
    try:
        return method_named(method).guarantee_kind == "syntactic"
    except UsageError:
        return False


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
    warnings: tuple[str, ...],
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
            warnings=warnings,
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
