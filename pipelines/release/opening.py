"""A release is opened: what it needs, and whether an earlier run is resumed."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pydantic

from tracecloak.pipelines.budget.registry import ReleaseRegistry, ReleaseState
from tracecloak.pipelines.configuration.plan import ReleasePlan, source_of
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import InputFile, Origin, Receipt, snapshot_of
from tracecloak.pipelines.ledger.entries import Reservation, reservation_of
from tracecloak.pipelines.release.values import Run, extensions_of, require_usable
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.files import absolute, is_on_this_machine, require_file_system
from tracecloak.transforms.inputs.source_files import SourceFile
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.publish.release_folder import ReleaseFolder, check_places
from tracecloak.transforms.sources import EventSource

if TYPE_CHECKING:
    from tracecloak.pipelines.release.values import Driver
    from tracecloak.transforms.keys.signing import SigningReference


# --- A run is opened: what it needs is there, and its input is looked at; nothing is paid yet. ----


def open_run(
    plan: ReleasePlan,
    driver: Driver,
    source: EventSource | None = None,
    listed: Sequence[SourceFile] | None = None,
) -> Run:
    """Returns a run of which everything is there, before anything is paid.

    Args:
        plan: What it is to make.
        driver: What runs it.
        source: What it reads; None: the files that the plan names.
        listed: These files, if they are known; see `source_of`.

    Raises:
        TracecloakError: Something is not.
    """
    plan.require_names()
    concerns = extensions_of(plan)
    for concern in concerns:
        concern.check(plan)
    try:
        for concern in concerns:
            plan = concern.located(plan)
        left_out = tuple(path for concern in concerns for path in concern.left_out)
        source = source_of(plan, listed, left_out) if source is None else source
        keys = plan.keys
        # Once the input is there: a wrong path is told before the ledger's database is loaded.
        from tracecloak.pipelines.budget.draw_guard import Unchanged
        from tracecloak.pipelines.budget.opening import check_worker_keys
        from tracecloak.transforms.batch.job import DeadLetter

        books = books_of(plan)  # before the first look at the input
        store, output = books.store, books.folder.output
        check_places(output, keys.dead_letter)
        unchanged = Unchanged.since_now(source.files)
        files = snapshot_of(source.files)
        fingerprint = fingerprint_of(plan, store, files, left_out)
        release_id = keys.release_id or store.digest(f"{fingerprint}\n{plan.digest}")[:16]
        books = replace(books, folder=replace(books.folder, release_id=release_id))
        operator_folder = store.operator_folder(output, release_id)
        dead_letter = DeadLetter(keys.dead_letter or operator_folder, plan.max_error_ratio)
        check_worker_keys(keys)
        run = Run(
            plan, driver, source, files, fingerprint, unchanged,
            books, operator_folder, dead_letter, concerns,
        )  # fmt: skip
        if keys.expected_cases is not None:
            require_usable(run)
        for concern in concerns:
            concern.open(run)
        sketch_key = sketch_key_of(plan, driver, store) if keys.cases_kept_days else None
        signer = None if keys.sign is None else signer_of(plan, driver)
        return replace(run, sketch_key=sketch_key, signer=signer)
    except BaseException:
        for concern in concerns:
            concern.dropped()
        raise


def sketch_key_of(plan: ReleasePlan, driver: Driver, store: KeyStore) -> KeyReference | None:
    """Returns the key of the deployment, under which sketches of cases are made; None: none is.

    Raises:
        UsageError: There is no key where one is named.
    """
    named = plan.keys.deployment_key or os.environ.get("TRACECLOAK_DEPLOYMENT_KEY")
    if named is not None:
        return KeyReference(named, KeyReference(named).resolve().fingerprint)
    if driver.is_local:
        return store.own_key("deployment")
    _LOG.warning(
        "the ledger does not note which cases are read, as workers elsewhere have no key for that: "
        "name one with deployment_key, or say so with cases_kept_days 0"
    )
    return None


def signer_of(plan: ReleasePlan, driver: Driver) -> SigningReference:
    """Returns where the key is that signs a release, once it is sure that it is there.

    Raises:
        UsageError: It is not, or is of another kind, or lies on this machine only while the
            release is committed by a worker elsewhere.
        RetryLater: Its source does not answer now.
    """
    from tracecloak.transforms.keys.signing import SigningReference

    signer = SigningReference.given(str(plan.keys.sign))
    scheme, _, path = signer.text.partition(":")
    if not driver.is_local and scheme == "file" and is_on_this_machine(path):
        raise UsageError(
            f"sign names a file of this machine, and a worker of {plan.keys.runner} signs: name a "
            "key that it can ask for, as command:WORDS or env:NAME, or a file that it can read"
        )
    signer.key()
    return signer


def books_of(plan: ReleasePlan) -> ReleaseRegistry:
    """Returns where it is written down what becomes of a release; its folder may lack its name.

    Raises:
        UsageError: The output is on an unknown file system, or there is no ledger.
        TracecloakError: Key store or ledger cannot be read.
    """
    from tracecloak.pipelines.budget.opening import open_ledger, open_store

    keys = plan.keys
    require_file_system("output", keys.output)
    store = open_store(keys)
    ledger = open_ledger(keys, store)
    area = None if keys.staging_area is None else absolute(keys.staging_area)
    name = keys.release_id or "unnamed"
    folder = ReleaseFolder(absolute(keys.output), name, area, store=store.identity())
    return ReleaseRegistry(store, ledger, folder)


def fingerprint_of(
    plan: ReleasePlan,
    store: KeyStore,
    files: Sequence[InputFile],
    left_out: Sequence[str] = (),
) -> str:
    """Returns the keyed digest of what a release reads, and of what it does not by decision."""
    tables = plan.keys.tables
    # Empty partitions of different days are different inputs, though they hold the same.
    fingerprint = store.fingerprint(files) if files else store.digest("\n".join(plan.keys.log))
    if files and tables:
        fingerprint = store.digest("\n".join((*tables, fingerprint)))
    if left_out:
        fingerprint = store.digest("\n".join(("left out", *sorted(left_out), fingerprint)))
    return fingerprint


def origin_of(run: Run) -> Origin:
    """Returns of what a run makes its release, beside input and configuration."""
    plan, place = run.plan, run.books.folder.staging_area
    version, given = plan.method.version, plan.params.given()
    return Origin(version, run.files, place, plan.inner_versions, given, plan.keys.tables)


# --- A run that finds what earlier runs left of its release: it goes on with it, or begins anew. --
# What an earlier version of a method, with other defaults, was given for what is asked now.
#
# Suppose that version 1 of a method has `min_count` 0 by default and version 2 has 5. A release
# of version 1 that was given no `min_count` is the one that is asked for if none is given now, or
# 0; and it is another one if 5 is.


_LOG = logging.getLogger("tracecloak")
_OPERATOR = logging.getLogger("tracecloak.operator")


def recognise(run: Run, found: ReleaseState) -> Run:
    """Returns a run whose release is visible, once what was left to do is done.

    Raises:
        UsageError: The release that is there is another.
        AfterReleaseError: What is left to do failed again.
    """
    receipt = found.receipt
    assert receipt is not None  # or nobody could tell whose it is
    if found.state == "visible":  # cut off after its commit: visible, whatever is read now
        run = _built_as(run, receipt)
        run.books.finish(receipt.key_fingerprint)
        if set(receipt.origin.files) <= set(run.files):
            run = _reading_as(run, receipt)
    compares = all(concern.compares_input for concern in run.concerns)
    fingerprint = run.input_fingerprint if compares else receipt.input_fingerprint
    plan, manifest = run.plan, run.books.folder.committed()
    digest = plan.digest
    if manifest is not None and not receipt.origin.is_drawn_alike(origin_of(run)):
        # What the configuration had for the build that made the release.
        digest = plan.digest_with(given_then(plan, receipt.origin.given, manifest["params"]))
    receipt.check_same(fingerprint, digest)
    return replace(run, receipt=receipt)


def resume_run(run: Run, found: ReleaseState, requested: Callable[[str], Reservation]) -> Run:
    """Returns a run that goes on with what was drawn, once what cannot be gone on with is ended.

    Args:
        run: As it was opened.
        found: What its release is now: given up, drawn, or reserved.
        requested: Returns what the run would reserve, by the fingerprint of its key.

    Raises:
        UsageError: What it reads is no longer there, or the configuration or the payer is another.
        TracecloakError: It may not be finished, as its noise is of another version; or what it
            reserved cannot be given back.
    """
    books, receipt = run.books, found.receipt
    assert receipt is not None  # or nobody could tell that it was begun
    if found.state == "drawn":
        now, then = origin_of(run), receipt.origin
        if receipt.config_digest != run.plan.digest:
            raise receipt.cannot_go_on("the configuration changed since")
        if not then.is_drawn_alike(now):
            method = run.plan.method.name
            raise receipt.cannot_go_on(
                f"it was begun by {then.versions(method)}, and this build has "
                f"{now.versions(method)}, whose noise is another",
                "finish it with the build that began it",
                price_text(run.plan, run.books.folder, receipt),
            )
        _LOG.info("going on with a release that was cut off: nothing is drawn or paid for anew")
        run = _built_as(_reading_as(run, receipt), receipt)
        receipt.check_same(run.input_fingerprint, run.plan.digest)
        return run
    key = receipt.key_fingerprint
    if (
        found.state == "given up"
        # Or cut off before it drew anything, and another release, payer or price now.
        or receipt.changed_in(run.input_fingerprint, run.plan.digest)
        or receipt.origin != origin_of(run)
        or any(e.charge != requested(key).entry.charge for e in books.charges(key) if e.is_open)
    ):
        books.begin_anew(found)
    return run


def as_charged(books: ReleaseRegistry, reservation: Reservation) -> Reservation:
    """Returns what a release asks for, at the price at which its noise was drawn.

    Raises:
        UsageError: Another account paid for its noise.
        LedgerError: The ledger cannot be read.
    """
    charges = books.charges(reservation.key_fingerprint)
    drawn = [entry for entry in charges if entry.action in ("draw", "commit")]
    if not drawn or reservation.entry.charge in [entry.charge for entry in drawn]:
        return reservation
    paid = drawn[-1]
    if paid.account != reservation.account:
        raise UsageError(
            f"account {paid.account!r} paid for release_id {paid.release_id!r} in {paid.output}, "
            "which drew noise; set account to it, or another release_id"
        )
    _LOG.warning(
        "this version of tracecloak computes another price for release %s than the one that it "
        "drew at, which stays what is paid: epsilon %s, delta %s",
        reservation.release_id,
        paid.epsilon,
        paid.delta,
    )
    epsilon, delta = paid.values()
    return replace(
        reservation,
        epsilon=epsilon,
        delta=delta,
        unit=paid.unit,
        adjacency=paid.adjacency,
        spends=tuple(json.loads(paid.spends)),
        config_digest=paid.config_digest,
    )


def price_text(plan: ReleasePlan, folder: ReleaseFolder, receipt: Receipt) -> str:
    """Returns what a release that drew noise reserved, and what giving it up leaves spent."""
    epsilon = reservation_of(plan, folder, receipt.key_fingerprint).epsilon
    return "no finite epsilon" if epsilon is None else f"epsilon {float(epsilon):g}"


def _reading_as(run: Run, receipt: Receipt) -> Run:
    """Returns a run that reads the files alone which the release reads.

    Raises:
        UsageError: One of them changed or vanished.
    """
    files = receipt.same_files(run.files)
    n_later = len(run.files) - len(files)
    if n_later:
        _OPERATOR.warning("files that came after the release was begun are not read: %d", n_later)
    # In the order in which it read them, which is that of the paths as they were written then.
    there = {absolute(file.path): file for file in run.source.files}
    ranked = tuple(replace(there[file.path], rank=i) for i, file in enumerate(files))
    left_out = [path for concern in run.concerns for path in concern.left_out]
    fingerprint = fingerprint_of(run.plan, run.books.store, files, left_out)
    source = replace(run.source, files=ranked)
    return replace(run, source=source, files=files, input_fingerprint=fingerprint)


def _built_as(run: Run, receipt: Receipt) -> Run:
    """Returns a run that builds where the release was begun to be built."""
    folder = replace(run.books.folder, staging_area=receipt.origin.staging_area)
    return replace(run, books=replace(run.books, folder=folder))


def given_then(
    plan: ReleasePlan, given: Mapping[str, Any], in_effect: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the parameters that an earlier version would have been given, as JSON values.

    They are `given` if and only if the plan asks for what was released: what it says is as
    it was in effect, and what it does not say was not given either, or is the same by default now.

    Args:
        plan: Of now.
        given: Those that were given then and not as by default.
        in_effect: All that were in effect then, of the release's manifest.
    """
    now, given_now, written = plan.params.resolved(), plan.params.given(), plan.keys.params
    asked = (written.keys() & now.keys()) | given.keys()
    # Read by this build, what was in effect has the parts that parameters got since.
    then = {name: in_effect[name] for name in asked & in_effect.keys()}
    try:
        read = plan.method.Params(**{**written, **then}).resolved()
    except pydantic.ValidationError:  # nothing that this build can be asked for
        read = {}
    result = {}
    for name in asked:
        if name in then and name in read and read[name] == now.get(name):
            if name in given:
                result[name] = given[name]
        elif name in then or name in given_now:
            result[name] = now.get(name)
    return result
