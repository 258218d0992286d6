"""`tracecloak release`: from a configuration to a committed release, or to nothing at all."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from tracecloak.anonymizers.contract import in_memory
from tracecloak.anonymizers.contract.case_sketch import CaseSketch
from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.budget.balance import Balance
from tracecloak.pipelines.budget.books import (
    Books,
    after_release,
    check_worker_keys,
    open_ledger,
    open_store,
)
from tracecloak.pipelines.budget.gate import Unchanged
from tracecloak.pipelines.budget.key_store import InputFile, KeyStore, Receipt, snapshot_of
from tracecloak.pipelines.budget.ledger import MadeElsewhere
from tracecloak.pipelines.release.config import ReleaseConfig
from tracecloak.pipelines.release.findings import FirstLook, log_findings
from tracecloak.pipelines.release.pipeline import build_release
from tracecloak.pipelines.release.records import (
    internal_statement_path,
    manifest_of,
    reservation_of,
    warn_of_overlaps,
    write_internal_statement,
)
from tracecloak.pipelines.release.signing import Signature, check_signer, signature_of
from tracecloak.pipelines.release.source import source_of
from tracecloak.pipelines.release.window import (
    check_due,
    counted_in,
    find_units,
    released_window,
)
from tracecloak.pipelines.runners.failures import is_out_of_memory, own_error, reason_of
from tracecloak.pipelines.runners.names import IN_MEMORY, is_local
from tracecloak.pipelines.runners.options import check_ready, pipeline_options
from tracecloak.pipelines.runners.reach import check_workers_answer, check_workers_write
from tracecloak.schemas.arrays.merging import Pieces
from tracecloak.schemas.errors import (
    BudgetExhausted,
    GuaranteeError,
    RetryLater,
    TracecloakError,
    UsageError,
)
from tracecloak.schemas.events.tally import ReadTally, TallyOfFile
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.manifest import TOOL_VERSION, OutputFile, ReleaseManifest
from tracecloak.schemas.published.rows import parts_of
from tracecloak.schemas.published.yields import Yield
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
from tracecloak.schemas.statistics.log_times import LogTimes
from tracecloak.schemas.statistics.variants import VariantHistogram
from tracecloak.transforms.batch.anonymize import Run
from tracecloak.transforms.batch.case_sketches import SketchFile
from tracecloak.transforms.batch.draws import KeptDraws
from tracecloak.transforms.batch.validate import DeadLetter
from tracecloak.transforms.batch.window_part import WindowPart
from tracecloak.transforms.batch.write import commit
from tracecloak.transforms.files import (
    absolute,
    is_on_this_machine,
    require_file_system,
    require_writable,
)
from tracecloak.transforms.keys.reference import KeyReference
from tracecloak.transforms.operator_log import operator_log
from tracecloak.transforms.publish.names import PARTS
from tracecloak.transforms.publish.places import check_places
from tracecloak.transforms.publish.release_files import (
    write_dfg,
    write_export,
    write_part,
    write_products,
)
from tracecloak.transforms.publish.release_folder import ReleaseFolder, remove_folder
from tracecloak.transforms.publish.report import LogCounts
from tracecloak.transforms.sources import EventSource

_LOG = logging.getLogger("tracecloak")
_OPERATOR = logging.getLogger("tracecloak.operator")
# Of cases that are counted at once when a log is written from memory.
_COUNTED_BYTES = 64 << 20


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        folder: The release's folder.
        was_released_before: Whether this run found the release there and did nothing.
        dead_letter: Where the operator reads what was found in the records, such as a list of those
            that are malformed.
        came_out: What the release holds, by its own numbers.
        outputs: Paths of its files in the folder, without the manifest.
        malformed: For the operator: records that were left out as malformed, and all that were
            read; None: there is none, or nobody can tell.
        balance: What its account has spent with it and has left; None: nobody can tell now.
        signature: Whether it is signed: `none`, `there`, or `by another key` than that of `sign`.
        n_left_out: For the operator: units of a window that are left out, as they counted in other
            windows; None: it is no release of a window, or was made before.
        warnings: For the operator: what the first records of its input say of it, see `FirstLook`.
    """

    folder: ReleaseFolder
    was_released_before: bool
    dead_letter: str
    came_out: Yield
    outputs: tuple[str, ...]
    malformed: tuple[int, int] | None
    balance: Balance | None
    signature: Signature
    n_left_out: int | None = None
    warnings: tuple[str, ...] = ()


def run_release(config: ReleaseConfig, beam_arguments: Sequence[str] = ()) -> Outcome:
    """Makes the release that a configuration describes, unless it exists.

    Raises:
        TracecloakError: Nothing was released, for the reason that the error's class and text give;
            or, for AfterReleaseError, something was.
    """
    try:
        return _release(config, beam_arguments)
    except TracecloakError:
        raise
    except Exception as error:  # before anything ran: what fails later is told by its class
        raise _translated(error) from error


def _release(config: ReleaseConfig, beam_arguments: Sequence[str]) -> Outcome:
    options = (
        None if config.runner == IN_MEMORY else pipeline_options(config.runner, beam_arguments)
    )
    if options is None and beam_arguments:
        raise UsageError(f"runner {IN_MEMORY} takes no flags of Beam, got {beam_arguments[0]}")
    if options is not None:
        FileSystems.set_options(options)  # with which inputs elsewhere are looked for
    config.check_named()
    if config.made_window is not None:
        check_due(config.made_window)
    source = source_of(config)
    require_file_system("output", config.output)
    store = open_store(config)
    ledger = open_ledger(config, store)  # before the first look at the input
    window = released_window(config, store, ledger)
    output = absolute(config.output)
    check_places(output, config.dead_letter)
    unchanged = Unchanged.since_now(source.files)
    files = snapshot_of(source.files)
    fingerprint = _fingerprint(config, store, files)
    release_id = config.release_id or store.digest(f"{fingerprint}\n{config.digest}")[:16]
    staging_area = None if config.staging_area is None else absolute(config.staging_area)
    folder = ReleaseFolder(output, release_id, staging_area)
    dead_letter = DeadLetter(
        config.dead_letter or store.operator_folder(output, release_id),
        config.largest_error_ratio,
    )

    check_worker_keys(config)
    if options is not None:
        check_ready(options)
    deployment = _deployment_key(config, store)
    check_signer(config)
    with store.alone(output, release_id), operator_log(dead_letter.folder):
        books = Books(store, ledger, folder)
        if folder.committed() is not None:
            return _there_already(config, source, files, books, dead_letter)

        books.check_not_withdrawn()
        books.check_not_gone()
        receipt = store.unfinished(output, release_id)
        if receipt is not None and books.was_given_up(receipt):
            receipt = None
        if receipt is not None and books.has_drawn(receipt):
            source, files = _to_go_on_with(config, source, receipt, files)
            books.check_payer(receipt, config.account)
            fingerprint = _fingerprint(config, store, files)
            receipt.check_same(fingerprint, config.digest)
            folder = replace(folder, staging_area=receipt.staging_area)
            books = replace(books, folder=folder)
        elif receipt is not None and not (
            receipt.is_same(fingerprint, config.digest)
            and books.is_paid_by(receipt, config.account)
        ):
            # Cut off before it drew anything, and another release or another payer now.
            books.void(receipt.key_fingerprint)
            receipt = None
        if window is not None:
            window.book.check(window.charge.scope)
        of_window = None if window is None else window.charge
        warn_of_overlaps(config, folder, of_window, ledger.entries())
        require_writable("output", output)
        if config.dead_letter is not None:
            require_writable("dead_letter", config.dead_letter)
        folder.prepare()
        key = store.reserve(
            output, release_id, fingerprint, config.digest, files, folder.staging_area
        )
        try:
            ledger.reserve(reservation_of(config, folder, key.fingerprint, of_window))
        except MadeElsewhere:
            if receipt is None:
                store.forget(output, release_id)  # and the folder stays, which another is building
            raise
        except (UsageError, BudgetExhausted):
            # Refused, so nothing is charged or drawn under a new key. With an old one something may
            # be, and after any other error the ledger may hold the charge: those keys stay.
            if receipt is None:
                store.forget(output, release_id)
                folder.clear()
            raise
        reserved = store.reserved(output, release_id)
        n_left_out: int | None = None
        part: WindowPart | None = None
        try:
            if not is_local(config.runner):
                # The job of a command that was killed may go on, and must keep its files.
                folder = replace(folder, attempt=uuid.uuid4().hex[:16])
            gate = store.gate(output, release_id, key.fingerprint, ledger.url, unchanged)
            folder.discard()
            dead_letter.begin()
            _LOG.info(
                "reading; what is found in the records is for the operator alone, in %s",
                dead_letter.folder,
            )
            kept = books.decisions(key.fingerprint)
            draws = KeptDraws(kept, key, gate)
            if options is not None and not is_local(config.runner):
                if is_on_this_machine(folder.workplace):
                    check_workers_write(folder.workplace, options)
                elif config.runner != "DataflowRunner":
                    check_workers_answer(options)  # Dataflow starts its workers itself
            sketch = None
            if deployment is not None:
                place = books.sketch_path(key.fingerprint)
                sketch = SketchFile(place, deployment, _kept_until(config))
            try:
                if window is not None:
                    part = window.part(store.operator_folder(output, release_id))
                    n_left_out = window.freeze(part, folder, key.fingerprint)
                    if n_left_out is None:
                        units = find_units(config, options, source, dead_letter, part)
                        n_left_out = window.claim(units, part, folder, key.fingerprint)
                    if n_left_out:
                        _OPERATOR.info(
                            "units that are left out, as they counted in other windows: %d",
                            n_left_out,
                        )
                if not is_local(config.runner):
                    gate()
                    draws = KeptDraws(kept, key)
                manifest = manifest_of(config, folder, key.fingerprint, reserved.reserved_on)
                _run(
                    config, options, source, dead_letter, folder, manifest, key, draws, sketch, part
                )
            finally:
                log_findings(source, dead_letter)
        except BaseException as error:
            ended = _settled(error, books, key.fingerprint)
            if ended is error:
                raise
            raise ended from error
        if not is_local(config.runner) and (changed := unchanged.changed()) is not None:
            _LOG.warning(
                "input %r changed while workers elsewhere were at work, so it is not known of "
                "what the release was made; if it must not stay, take it back with `tracecloak "
                "ledger withdraw`",
                changed,
            )
        books.finish(key.fingerprint)
        if part is not None:
            remove_folder(part.frozen)
        warnings = _warnings_of(config, source)
        write_internal_statement(config, source, books, dead_letter, reserved, warnings)
    signature: Signature = "none" if config.sign is None else "there"
    made = _outcome(config, books, dead_letter, signature, was_released_before=False)
    return replace(made, n_left_out=n_left_out, warnings=warnings)


def _warnings_of(config: ReleaseConfig, source: EventSource) -> tuple[str, ...]:
    """Looks at the first records once the release is there, which does not fail for it."""
    with contextlib.suppress(Exception):  # whatever a file system does
        return FirstLook.at(config, source).warnings
    return ()


def _there_already(
    config: ReleaseConfig,
    source: EventSource,
    files: tuple[InputFile, ...],
    books: Books,
    dead_letter: DeadLetter,
) -> Outcome:
    """Does what is left to do where a release is visible, if this run is that release.

    Raises:
        UsageError: It is not, or nobody can tell.
        AfterReleaseError: What is left to do failed again.
    """
    folder = books.folder
    receipt = books.store.receipt(folder.output, folder.release_id)
    if receipt is None or books.shown(receipt.key_fingerprint) != "release":
        raise UsageError(
            f"release_id {folder.release_id!r} exists in {folder.output}, and was made with "
            "another key store, so this one cannot tell whether it was made of this input; use the "
            "key_store of that run, or choose another release_id"
        )
    if receipt.state == "reserved":  # cut off after its commit: visible, whatever is read now
        books = replace(books, folder=replace(folder, staging_area=receipt.staging_area))
        books.finish(receipt.key_fingerprint)
        receipt = replace(receipt, state="committed")
        if receipt.files is not None and set(receipt.files) <= set(files):
            source, files = _as_it_was(source, receipt, files)
    # What came late into a window that is released stays outside, so its input may be another.
    is_window = config.made_window is not None
    found = receipt.input_fingerprint if is_window else _fingerprint(config, books.store, files)
    receipt.check_same(found, config.digest)
    if not FileSystems.exists(internal_statement_path(books.store, folder)):
        warnings = _warnings_of(config, source)
        write_internal_statement(config, source, books, dead_letter, receipt, warnings)
    signature = signature_of(config, folder)
    return _outcome(config, books, dead_letter, signature, was_released_before=True)


def _deployment_key(config: ReleaseConfig, store: KeyStore) -> KeyReference | None:
    """Returns the key of the sketch of the cases; None: none is made.

    Raises:
        UsageError: There is no key where one is named.
    """
    if not config.cases_kept_days:
        return None
    named = config.deployment_key or os.environ.get("TRACECLOAK_DEPLOYMENT_KEY")
    if named is not None:
        key = KeyReference(named)
        return KeyReference(named, key.resolve().fingerprint)
    if is_local(config.runner):
        return store.deployment_key()
    _LOG.warning(
        "the ledger does not note which cases are read, as workers elsewhere have no key for that: "
        "name one with deployment_key, or say so with cases_kept_days 0"
    )
    return None


def _kept_until(config: ReleaseConfig) -> str:
    kept = datetime.timedelta(days=config.cases_kept_days)
    return (datetime.datetime.now(datetime.UTC) + kept).date().isoformat()


def _fingerprint(config: ReleaseConfig, store: KeyStore, files: Sequence[InputFile]) -> str:
    # Empty partitions of different days are different inputs, though they hold the same.
    return store.fingerprint(files) if files else store.digest("\n".join(config.input))


def _to_go_on_with(
    config: ReleaseConfig, source: EventSource, receipt: Receipt, files: tuple[InputFile, ...]
) -> tuple[EventSource, tuple[InputFile, ...]]:
    """Returns what a release reads that drew noise before it was cut off.

    Raises:
        UsageError: That is no longer there, or the configuration or the mechanism is another.
    """
    if receipt.config_digest != config.digest:
        raise receipt.cannot_go_on("the configuration changed")
    if receipt.tool_version != TOOL_VERSION:
        raise receipt.cannot_go_on(
            f"tracecloak is {TOOL_VERSION} and was {receipt.tool_version or '0.1'}"
        )
    _LOG.info("going on with a release that was cut off: nothing is drawn or paid for anew")
    return _as_it_was(source, receipt, files)


def _as_it_was(
    source: EventSource, receipt: Receipt, files: tuple[InputFile, ...]
) -> tuple[EventSource, tuple[InputFile, ...]]:
    """Returns the source with the files alone that the release reads."""
    kept = receipt.same_files(files)
    n_later = len(files) - len(kept)
    if n_later:
        _OPERATOR.warning("files that came after the release was begun are not read: %d", n_later)
    # In the order in which it read them, which is that of the paths as they were written then.
    there = {absolute(file.path): file for file in source.files}
    read = [there[file.path] for file in kept]
    ranked = tuple(replace(file, rank=i) for i, file in enumerate(read))
    return replace(source, files=ranked), kept


def _outcome(
    config: ReleaseConfig,
    books: Books,
    dead_letter: DeadLetter,
    signature: Signature,
    was_released_before: bool,
) -> Outcome:
    """Returns what there is to tell; a release that is complete does not fail for it."""
    manifest = books.folder.committed() or {}
    malformed: tuple[int, int] | None = None
    balance: Balance | None = None
    with contextlib.suppress(Exception):  # whatever a file system does
        n_records, findings = dead_letter.told()
        n_malformed = sum(found.n_records for found in findings if found.is_malformed)
        malformed = (n_malformed, n_records) if n_malformed else None
    with contextlib.suppress(Exception):  # whatever a database does
        balance = books.ledger.balance_in(books.ledger.entries(), config.account)
    return Outcome(
        books.folder,
        was_released_before,
        dead_letter.folder,
        Yield(**manifest.get("came_out", {})),
        tuple(output["path"] for output in manifest.get("outputs", ())),
        malformed,
        balance,
        signature,
    )


def _settled(error: BaseException, books: Books, key_fingerprint: str) -> BaseException:
    """Writes down what became of a run that failed, and returns what to raise.

    What may have drawn noise stays spent, and its key stays for another run.
    """
    folder = books.folder
    try:
        shown = books.shown(key_fingerprint)
    except Exception as unknown:
        return TracecloakError(
            f"the pipeline failed with {reason_of(error)}, and what is in {folder.final} cannot be "
            f"told ({reason_of(unknown)}). {_STAYS_SPENT}"
        )
    if shown == "release":
        return after_release(folder, error)
    if shown == "overtaken":
        return RetryLater(
            f"another run, with another key store, released {folder.final} while this one was at "
            "work, which released nothing. What this one reserved stays spent: end it with "
            "`tracecloak ledger forfeit`, and choose another release_id if you need a release of "
            "your own"
        )
    if shown == "other":
        return TracecloakError(
            f"the pipeline failed with {reason_of(error)}, and {folder.final} holds a part of a "
            f"release. {_STAYS_SPENT}"
        )
    told = _translated(error) if isinstance(error, Exception) else error
    if not books.void(key_fingerprint):
        books.note_cases(key_fingerprint)
        if isinstance(told, GuaranteeError):  # under the same key it is raised again
            _LOG.warning(
                "the log was looked at before the method refused it, so what was reserved stays "
                "spent, and the same command would end so again: give this release up with "
                "`tracecloak ledger forfeit`, and take another release_id for other parameters"
            )
        else:
            _LOG.warning(
                "noise was drawn, or may have been, before the run ended. %s; or give it up with "
                "`tracecloak ledger forfeit`",
                _STAYS_SPENT,
            )
    return told


_STAYS_SPENT = (
    "Its budget stays spent: run the same command again, which draws nothing new, or choose "
    "another release_id"
)


def _run(
    config: ReleaseConfig,
    options: beam.options.pipeline_options.PipelineOptions | None,
    source: EventSource,
    dead_letter: DeadLetter,
    folder: ReleaseFolder,
    manifest: ReleaseManifest,
    key: KeyReference,
    draws: KeptDraws,
    sketch: SketchFile | None,
    part: WindowPart | None,
) -> None:
    run = Run(
        config.method,
        config.method_params,
        folder.release_id,
        key,
        config.digest,
        draws,
        sketch,
        draws.before and draws.before.check_open,
        config.signer,
        dead_letter.folder,
    )
    if options is None:
        _run_in_memory(config, source, dead_letter, run, folder, manifest, part)
        return
    with beam.Pipeline(options=options) as pipeline:
        build_release(
            pipeline,
            source,
            dead_letter,
            run,
            folder,
            manifest,
            config.formats,
            config.shards,
            config.parts,
            part,
        )


def _run_in_memory(
    config: ReleaseConfig,
    source: EventSource,
    dead_letter: DeadLetter,
    run: Run,
    folder: ReleaseFolder,
    manifest: ReleaseManifest,
    part: WindowPart | None,
) -> None:
    events, tallies = [], []
    for file in source.files:
        rejects = []
        tally = TallyOfFile(file.rank)
        for batch, rejected in source.read(file, tally):
            events.append(batch)
            rejects.extend([rejected] if rejected.num_rows else [])
        if rejects:
            dead_letter.write(file.rank, rejects)
        tallies.append(tally.result())
        _OPERATOR.info(
            "read input %d of %d", file.rank + 1, len(source.files), extra=source.progress_of(file)
        )
    dead_letter.check(ReadTally.merge(tallies))
    traces = in_memory.group_into_traces(events, config.shards, run.by_individual)
    events.clear()
    if part is not None:
        traces = counted_in(part, traces)
    if run.sketch is not None:
        deployment = run.sketch.key.resolve()
        of_batches = [CaseSketch.from_traces(batch, deployment) for batch in traces]
        run.sketch.write(CaseSketch.merge(of_batches), deployment)
    method = method_named(run.method)
    if method.foretells(run.params):
        variants = VariantHistogram.merge([VariantHistogram.from_traces(one) for one in traces])
        for sentence in method.foretold(variants, run.params):
            _OPERATOR.warning("%s: %s", method.name, sentence)
    made = in_memory.anonymise(
        traces,
        method,
        run.params,
        run.key.resolve(),
        run.release_id,
        run.config_digest,
        lambda step: _LOG.info("next: %s", step),
        run.draws,
    )
    written: list[OutputFile] = []
    others = write_products(folder, manifest, made.products)
    counted = None
    if method.log != "none":
        traces = [*made.traces, *run.columns]
        written, counted, more = _write_log(config, traces, folder, manifest)
        others += more
    commit(
        folder,
        manifest,
        run,
        PARTS in config.formats,
        written,
        others,
        made.products,
        counted,
    )


def _write_log(
    config: ReleaseConfig,
    traces: list[TraceBatch],
    folder: ReleaseFolder,
    manifest: ReleaseManifest,
) -> tuple[list[OutputFile], LogCounts, list[OutputFile]]:
    """Returns the parts, what was counted on them, and what is written beside or from them."""
    names = ActivityVocabulary.merge([batch.vocabulary for batch in traces])
    parts: dict[int, list[TraceBatch]] = {number: [] for number in range(config.parts)}
    graph, variants = Pieces(DirectlyFollows), Pieces(VariantHistogram)
    times = Pieces(LogTimes)
    # A log that was made up is one batch, and to count one takes ten times its memory.
    for batch in (piece for whole in traces for piece in whole.split(_COUNTED_BYTES)):
        graph.add(DirectlyFollows.from_traces(batch))
        variants.add(VariantHistogram.from_traces(batch))
        times.add(LogTimes.from_traces(batch))
        for number, cases in parts_of(batch, config.parts):
            parts[number].append(cases)
    written = [write_part(folder, manifest, number, cases) for number, cases in parts.items()]
    others = [write_dfg(folder, graph.result(), names)]
    for kind in config.formats:
        if kind != PARTS:
            others.append(write_export(folder, manifest, kind, config.parts))
            _LOG.info("wrote %s", others[-1].path)
    return written, LogCounts(graph.result(), variants.result(), times.result(), names), others


def _translated(error: Exception) -> TracecloakError:
    """Finds our own error in what a runner made of it; what is not ours is not quoted."""
    own = own_error(error)
    if own is None and is_out_of_memory(error):
        return TracecloakError(
            "the release needs more memory than there is, and nothing was released: take a machine "
            "with more, another runner than InMemory with more shards, or a smaller "
            "max_trace_length or max_prefix_length where one was declared"
        )
    return own or TracecloakError(
        f"the pipeline failed with {reason_of(error)}; nothing was released. Run again with "
        "--traceback to see where; that output can hold private data"
    )
