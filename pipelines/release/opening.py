"""A run is opened: what it needs is there, and its input is looked at; nothing is paid yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.configuration.source import source_of
from tracecloak.pipelines.release.concerns import concerns_of
from tracecloak.pipelines.release.values import Concern, Run
from tracecloak.pipelines.runners.driver import Driver
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.files import absolute, require_file_system
from tracecloak.transforms.inputs.source_files import SourceFile
from tracecloak.transforms.sources import EventSource

if TYPE_CHECKING:
    from tracecloak.pipelines.keys.key_store import KeyStore
    from tracecloak.pipelines.keys.receipts import InputFile, Origin


def opened(
    config: ReleaseConfig,
    driver: Driver,
    source: EventSource | None = None,
    listed: Sequence[SourceFile] | None = None,
) -> Run:
    """Returns a run of which everything is there, before anything is paid.

    Args:
        config: What it is to make.
        driver: What runs it.
        source: What it reads; None: the files that the configuration names.
        listed: These files, if they are known; see `source_of`.

    Raises:
        TracecloakError: Something is not.
    """
    config.check_named()
    concerns = tuple(concerns_of(config))
    for concern in concerns:
        concern.check(config)
    try:
        for concern in concerns:
            config = concern.located(config)
        left_out = tuple(path for concern in concerns for path in concern.left_out)
        source = source_of(config, listed, left_out) if source is None else source
        return _opened(config, driver, source, concerns, left_out)
    except BaseException:
        for concern in concerns:
            concern.dropped()
        raise


def _opened(
    config: ReleaseConfig,
    driver: Driver,
    source: EventSource,
    concerns: tuple[Concern, ...],
    left_out: tuple[str, ...],
) -> Run:
    if driver.beam_version is not None and (config.memory or config.workers):
        raise UsageError(
            f"memory and workers are for runner InMemory, and runner {config.runner} has flags of "
            "its own for them; leave memory and workers out, or the runner"
        )
    # Once the input is there: a wrong path is told before the ledger's database is loaded.
    from tracecloak.pipelines.budget.books import Books
    from tracecloak.pipelines.budget.gate import Unchanged
    from tracecloak.pipelines.budget.opening import check_worker_keys, open_ledger, open_store
    from tracecloak.pipelines.keys.receipts import snapshot_of
    from tracecloak.transforms.batch.dead_letter import DeadLetter
    from tracecloak.transforms.publish.places import check_places
    from tracecloak.transforms.publish.release_folder import ReleaseFolder

    require_file_system("output", config.output)
    store = open_store(config)
    ledger = open_ledger(config, store)  # before the first look at the input
    output = absolute(config.output)
    check_places(output, config.dead_letter)
    unchanged = Unchanged.since_now(source.files)
    files = snapshot_of(source.files)
    staging_area = None if config.staging_area is None else absolute(config.staging_area)
    fingerprint = fingerprint_of(config, store, files, left_out)
    release_id = config.release_id or store.digest(f"{fingerprint}\n{config.digest}")[:16]
    folder = ReleaseFolder(output, release_id, staging_area, store=store.identity())
    dead_letter = DeadLetter(
        config.dead_letter or store.operator_folder(output, release_id),
        config.largest_error_ratio,
    )
    check_worker_keys(config)
    driver.check_ready()
    books = Books(store, ledger, folder)
    run = Run(
        config, driver, source, files, fingerprint, unchanged, books, dead_letter, concerns,
        left_out=left_out,
    )  # fmt: skip
    for concern in concerns:
        concern.open(run)
    return run


def fingerprint_of(
    config: ReleaseConfig,
    store: KeyStore,
    files: Sequence[InputFile],
    left_out: Sequence[str] = (),
) -> str:
    """Returns the keyed digest of what a release reads, and of what it does not by decision."""
    tables = config.tables
    # Empty partitions of different days are different inputs, though they hold the same.
    fingerprint = store.fingerprint(files) if files else store.digest("\n".join(config.log))
    if files and tables:
        fingerprint = store.digest("\n".join((*tables, fingerprint)))
    if left_out:
        fingerprint = store.digest("\n".join(("left out", *sorted(left_out), fingerprint)))
    return fingerprint


def origin_of(run: Run) -> Origin:
    """Returns of what a run makes its release, beside input and configuration."""
    from tracecloak.pipelines.keys.receipts import Origin

    config = run.config
    version, given = method_named(config.method).version, config.method_params.given()
    place, inner = run.folder.staging_area, config.inner_versions
    return Origin(version, run.files, place, inner, given, config.tables)
