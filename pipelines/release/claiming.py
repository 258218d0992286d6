"""A run is claimed: what became of earlier runs is looked up, and the release is paid once."""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace

from tracecloak.pipelines.budget.books import Standing
from tracecloak.pipelines.budget.gate import gate_of
from tracecloak.pipelines.ledger.entries import Reservation
from tracecloak.pipelines.release.opening import origin_of
from tracecloak.pipelines.release.records import manifest_of_run, reservation_of
from tracecloak.pipelines.release.values import Run
from tracecloak.transforms.batch.draws import KeptDraws
from tracecloak.transforms.batch.job import Job, ReleaseSpec, Target
from tracecloak.transforms.files import require_writable

_LOG = logging.getLogger("tracecloak")


def claimed(run: Run, standing: Standing) -> Run:
    """Returns a run that is paid and may draw, once its gate is passed.

    Args:
        run: As it was opened.
        standing: What its release is now.

    Raises:
        TracecloakError: It may not be made, or not be finished, or not be paid.
    """
    books, config, folder = run.books, run.config, run.folder

    def asked(key_fingerprint: str) -> Reservation:
        reservation = reservation_of(config, folder, key_fingerprint)
        for concern in run.concerns:
            reservation = concern.reserved(reservation)
        return reservation

    def asked_and_told(key_fingerprint: str) -> Reservation:
        reservation = asked(key_fingerprint)
        if standing.state == "drawn":
            from tracecloak.pipelines.release.going_on import as_charged

            reservation = as_charged(books, reservation)
        if config.guarantee.kind == "syntactic":
            from tracecloak.pipelines.budget.overlaps import warn_of_overlaps

            warn_of_overlaps(reservation, books.ledger)
        return reservation

    refusal = books.refusal(standing)
    receipt = standing.receipt
    if refusal is not None:
        if standing.state == "withdrawn" and receipt is not None:
            books.store.commit(receipt.output, receipt.release_id)  # as of a store played back
        raise refusal
    if standing.state in ("given up", "drawn", "reserved"):
        from tracecloak.pipelines.release.going_on import picked_up

        run = picked_up(run, standing, asked)
        books = run.books
    require_writable("output", run.folder.output)
    if config.dead_letter is not None:
        require_writable("dead_letter", config.dead_letter)
    run.folder.prepare()
    digests = run.input_fingerprint, config.digest
    key, begun = books.reserve(digests, origin_of(run), asked_and_told)
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
    decisions = books.decisions(key.fingerprint)
    spec = ReleaseSpec(
        config.method,
        config.method_params,
        folder.release_id,
        key,
        config.noise_digest,
        KeptDraws(decisions, key, gate if driver.is_local else None),
        check_open=gate.check_open if driver.is_local else folder.check_at_work,
        operator_folder=run.dead_letter.folder,
    )
    target = Target(
        spec,
        folder,
        manifest_of_run(run),
        config.formats,
        config.parts,
        shares_scripts=config.page == "shared",
    )
    job = Job(
        run.source,
        run.dead_letter,
        target,
        config.shards,
        memory_bytes=config.memory,
        n_workers=config.workers,
    )
    for concern in run.concerns:
        job = concern.claim(run, job)
    # What was claimed may be part of what the release says of itself.
    job = replace(job, target=replace(job.target, manifest=manifest_of_run(run)))
    if not driver.is_local:
        folder.note_at_work()
        gate()
    return job
