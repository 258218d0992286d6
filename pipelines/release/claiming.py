"""A run is claimed: what became of earlier runs is looked up, and the release is paid once."""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace

from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.budget.books import Standing
from tracecloak.pipelines.budget.gate import gate_of
from tracecloak.pipelines.keys.receipts import Origin, Receipt
from tracecloak.pipelines.ledger.entries import Reservation
from tracecloak.pipelines.release.opening import fingerprint_of
from tracecloak.pipelines.release.records import manifest_of_run, reservation_of
from tracecloak.pipelines.release.values import Run
from tracecloak.schemas.errors import TracecloakError
from tracecloak.transforms.batch.draws import KeptDraws
from tracecloak.transforms.batch.job import Job, ReleaseSpec, Target
from tracecloak.transforms.files import absolute, require_writable

_LOG = logging.getLogger("tracecloak")
_OPERATOR = logging.getLogger("tracecloak.operator")


def recognised(run: Run, standing: Standing) -> Run:
    """Returns a run whose release is visible, once what was left to do is done.

    Raises:
        UsageError: The release that is there is another.
        AfterReleaseError: What is left to do failed again.
    """
    receipt = standing.receipt
    assert receipt is not None  # or nobody could tell whose it is
    if standing.state == "visible":  # cut off after its commit: visible, whatever is read now
        run = _built_as(run, receipt)
        run.books.finish(receipt.key_fingerprint)
        if set(receipt.origin.files) <= set(run.files):
            run = _reading_as(run, receipt)
    compares = all(concern.compares_input for concern in run.concerns)
    fingerprint = run.input_fingerprint if compares else receipt.input_fingerprint
    receipt.check_same(fingerprint, _digest_of_then(run, receipt))
    return replace(run, receipt=receipt)


def _digest_of_then(run: Run, receipt: Receipt) -> str:
    """Returns the digest that the run's configuration had for the build that made its release."""
    config, manifest = run.config, run.folder.committed()
    if manifest is None or receipt.origin.is_drawn_alike(_origin_of(run)):
        return config.digest
    from tracecloak.pipelines.release.earlier_versions import given_then

    return config.digest_with(given_then(config, receipt.origin.given, manifest["params"]))


def claimed(run: Run, standing: Standing) -> Run:
    """Returns a run that is paid and may draw, once its gate is passed.

    Args:
        run: As it was opened.
        standing: What its release is now.

    Raises:
        TracecloakError: It may not be made, or not be finished, or not be paid.
    """
    books, config = run.books, run.config
    refusal = books.refusal(standing)
    receipt = standing.receipt
    if refusal is not None:
        if standing.state == "withdrawn" and receipt is not None:
            books.store.commit(receipt.output, receipt.release_id)  # as of a store played back
        raise refusal
    if standing.state == "given up" and receipt is not None:
        books.end_given_up(receipt)
    elif standing.state == "drawn" and receipt is not None:
        run = _going_on(run, receipt)
        books = run.books
    elif standing.state == "reserved" and receipt is not None:
        is_same = (
            not receipt.changed_in(run.input_fingerprint, config.digest)
            and receipt.origin == _origin_of(run)
            and books.is_paid_by(receipt, config.account)
        )
        if not is_same:
            # Cut off before it drew anything, and another release or another payer now.
            books.begin_anew(receipt)
    require_writable("output", run.folder.output)
    if config.dead_letter is not None:
        require_writable("dead_letter", config.dead_letter)
    run.folder.prepare()

    def asked(key_fingerprint: str) -> Reservation:
        reservation = reservation_of(config, run.folder, key_fingerprint)
        for concern in run.concerns:
            reservation = concern.reserved(reservation)
        return reservation

    key = books.reserve((run.input_fingerprint, config.digest), _origin_of(run), asked)
    if config.guarantee.kind == "syntactic":
        from tracecloak.pipelines.release.overlaps import warn_of_overlaps

        warn_of_overlaps(asked(key.fingerprint), books.ledger.entries())
    begun = books.store.reserved(run.folder.output, run.folder.release_id)
    return replace(run, key=key, receipt=begun)


def job_of(run: Run) -> Job:
    """Returns what the driver is given, once everything is claimed that is counted.

    A run that ends with this process passes its gate where the first round decides, and one on a
    cluster before it is submitted: it may outlive whoever started it.

    Raises:
        TracecloakError: Nothing was drawn, unless the ledger says so.
    """
    books, config, key, driver = run.books, run.config, run.key, run.driver
    assert key is not None  # the run is claimed
    folder = run.folder
    if not driver.is_local:
        # The job of a command that was killed may go on, and must keep its files.
        folder = replace(folder, attempt=uuid.uuid4().hex[:16])
    gate = gate_of(books.store, books.of_key(key.fingerprint), books.ledger.url, run.unchanged)
    folder.discard()
    run.dead_letter.begin()
    _LOG.info(
        "reading; what is found in the records is for the operator alone, in %s",
        run.dead_letter.folder,
    )
    driver.check_workplace(folder.workplace)
    kept = books.decisions(key.fingerprint)
    spec = ReleaseSpec(
        config.method,
        config.method_params,
        folder.release_id,
        key,
        config.noise_digest,
        KeptDraws(kept, key, gate if driver.is_local else None),
        check_open=gate.check_open if driver.is_local else None,
        operator_folder=run.dead_letter.folder,
    )
    target = Target(spec, folder, manifest_of_run(run), config.formats, config.parts)
    job = Job(run.source, run.dead_letter, target, config.shards)
    for concern in run.concerns:
        job = concern.claim(run, job)
    # What was claimed may be part of what the release says of itself.
    job = replace(job, target=replace(job.target, manifest=manifest_of_run(run)))
    if not driver.is_local:
        gate()
    return job


def _origin_of(run: Run) -> Origin:
    method, params = method_named(run.config.method), run.config.method_params
    inner = dict(method.inner_versions(params))
    return Origin(method.version, run.files, run.folder.staging_area, inner, params.given())


def _going_on(run: Run, receipt: Receipt) -> Run:
    """Returns a run that finishes a release which drew noise before it was cut off.

    Raises:
        UsageError: What it reads is no longer there, or the configuration or the payer is another.
        TracecloakError: The method, or what it is told to take, is of another version.
    """
    if receipt.config_digest != run.config.digest:
        raise receipt.cannot_go_on("the configuration changed")
    if not receipt.origin.is_drawn_alike(_origin_of(run)):
        raise _of_another_version(run, receipt)
    _LOG.info("going on with a release that was cut off: nothing is drawn or paid for anew")
    run = _built_as(_reading_as(run, receipt), receipt)
    run.books.check_payer(receipt, run.config.account)
    receipt.check_same(run.input_fingerprint, run.config.digest)
    return run


def _of_another_version(run: Run, receipt: Receipt) -> TracecloakError:
    """Returns the error that this build draws other noise than that which began a release."""
    method = run.config.method
    price = reservation_of(run.config, run.folder, receipt.key_fingerprint)
    costs = "no finite epsilon" if price.epsilon is None else f"epsilon {float(price.epsilon):g}"
    return TracecloakError(
        f"release_id {receipt.release_id!r} in {receipt.output} drew noise before it was cut off, "
        f"by {receipt.origin.versions(method)}, and this build has "
        f"{_origin_of(run).versions(method)}, whose noise is another: finish it with the build "
        f"that began it. To give it up costs what it reserved, {costs}, once more for another "
        f"release: `tracecloak ledger forfeit --output {receipt.output} --release_id "
        f"{receipt.release_id} --by NAME --reason TEXT`"
    )


def _reading_as(run: Run, receipt: Receipt) -> Run:
    """Returns a run that reads the files alone which the release reads.

    Raises:
        UsageError: One of them changed or vanished.
    """
    kept = receipt.same_files(run.files)
    n_later = len(run.files) - len(kept)
    if n_later:
        _OPERATOR.warning("files that came after the release was begun are not read: %d", n_later)
    # In the order in which it read them, which is that of the paths as they were written then.
    there = {absolute(file.path): file for file in run.source.files}
    ranked = tuple(replace(there[file.path], rank=i) for i, file in enumerate(kept))
    return replace(
        run,
        source=replace(run.source, files=ranked),
        files=kept,
        input_fingerprint=fingerprint_of(run.config, run.books.store, kept),
    )


def _built_as(run: Run, receipt: Receipt) -> Run:
    """Returns a run that builds where the release was begun to be built."""
    folder = replace(run.folder, staging_area=receipt.origin.staging_area)
    return replace(run, books=replace(run.books, folder=folder))
