"""A query as input: its result is a file of the workplace until the release is finished or ended.

A database is asked once. What it answered is the input like any other file: its digest is in the
receipt, and the same command, run again, reads it there. The workplace is cleared when the release
is finished, given back, given up or withdrawn, and the result goes with it.

Tables among the inputs are read at one version each, which is that of the release from then on. It
is named, or it is the last one when the release is begun. It stands in the receipt, so the same
command, run again, reads this one and not what the table has become.
"""

from __future__ import annotations

import contextlib
import logging
import os
from dataclasses import replace
from pathlib import Path

from tracecloak.pipelines.budget.opening import store_of
from tracecloak.pipelines.budget.registry import ReleaseRegistry, ReleaseState
from tracecloak.pipelines.configuration.plan import ReleasePlan
from tracecloak.pipelines.keys.notes import note_result, noted_results
from tracecloak.pipelines.keys.receipts import Receipt
from tracecloak.pipelines.planning.findings import FirstLook
from tracecloak.pipelines.release.opening import books_of, price_text
from tracecloak.pipelines.release.values import Extension, Outcome, Run
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.transforms import files
from tracecloak.transforms.batch.job import Job
from tracecloak.transforms.inputs.databases import query_text, write_result
from tracecloak.transforms.lakes.tables import (
    Address,
    VersionGoneError,
    address_of,
    at_version_read,
)
from tracecloak.transforms.publish.release_folder import ReleaseFolder, check_places


class TableExtension(Extension):
    """Has a release read tables at the versions with which it was begun."""

    def located(self, plan: ReleasePlan) -> ReleasePlan:
        """Returns the plan with the version of each table.

        Raises:
            TracecloakError: The release drew noise, and the version that it read is gone.
            InputSchemaError: A table or its version is not there.
        """
        receipt: Receipt | None = None
        keys = plan.keys
        if keys.release_id is not None:  # or it has no name before it is read
            files.require_file_system("output", keys.output)
            receipt = store_of(keys).receipt(files.absolute(keys.output), keys.release_id)
        begun = () if receipt is None else receipt.origin.tables
        log = []
        for text in keys.log:
            address = at_version_read(address_of(text), begun) if text in plan.keys.tables else None
            if address is None:
                log.append(text)
            elif (version := self._version(address, plan, receipt)) is not None:
                log.append(str(replace(address, version=version)))
        return plan.with_log(log)

    def _version(self, address: Address, plan: ReleasePlan, receipt: Receipt | None) -> int | None:
        """Returns the version that an address names, or the last one; it can be read.

        None: it cannot, and the release is there, which nothing is read for.

        Raises:
            TracecloakError: It cannot; if noise was drawn of it, the error says what giving up
                costs.
        """
        try:
            return address.snapshot().version
        except VersionGoneError as error:
            if receipt is None or str(address) not in receipt.origin.tables:
                raise
            books = books_of(plan)
            folder = replace(books.folder, staging_area=receipt.origin.staging_area)
            state = replace(books, folder=folder).look().state
            if state in ("visible", "released"):
                self.compares_input = False  # that it was of this version is known
                return None
            if state != "drawn":
                raise
            price = price_text(plan, folder, receipt)
            raise receipt.cannot_go_on(f"its input is gone: {error}", price=price) from None


_LOG = logging.getLogger("tracecloak")


class QueryExtension(Extension):
    """Has a release read the result of a query, which is asked once."""

    # A release that is there has no input any more, and is not asked for again.
    compares_input = False

    _asked: ReleaseFolder | None = None
    _query = ""
    _warnings: tuple[str, ...] = ()

    def check(self, plan: ReleasePlan) -> None:
        """Makes sure that the result can lie where a rerun finds it.

        Raises:
            UsageError: It cannot.
        """
        keys = plan.keys
        if keys.release_id is None:
            raise UsageError(
                "release_id is missing: the result of a query is kept for the release until it is "
                "finished, under its name; give it one"
            )
        place = keys.staging_area or keys.output
        if not files.is_on_this_machine(place):
            raise UsageError(
                f"the result of a query is kept beside the output, and {place!r} is not on this "
                "machine: name an output that is, or export the result and name its files as log"
            )

    def located(self, plan: ReleasePlan) -> ReleasePlan:
        """Returns the plan with the result as its log; asks for it unless it is there.

        Raises:
            TracecloakError: The release drew noise, and the result is gone.
            UsageError: The query is another than that of the release.
            InputSchemaError: The database does not answer, or the result is no log.
        """
        keys = plan.keys
        assert keys.release_id is not None  # checked
        self._query = query_text(keys.query or "")
        books = books_of(plan)  # before the first look at the input
        store, folder = books.store, books.folder
        check_places(folder.output, keys.dead_letter)
        with store.alone(folder.output, keys.release_id):
            standing = books.look()
            # It is the input of this query alone, which nobody may try out by its digest.
            name = store.digest(f"query of {keys.database}: {self._query}")[:16]
            path = _path_of_then(plan, books, standing, name)
            is_there = standing.state in ("visible", "released")
            if path is None and not is_there and books.refusal(standing) is None:
                self._asked = folder
                receipt = standing.receipt  # of an earlier run, which drew nothing of its result
                area = folder.staging_area if receipt is None else receipt.origin.staging_area
                earlier = (folder, replace(folder, staging_area=area), *noted_results(store))
                for one in earlier:
                    if (one.output, one.release_id) == (folder.output, folder.release_id):
                        files.remove_folder(one.input)
                note_result(store, folder)
                folder.prepare()
                _LOG.info("asking the database; the result is kept until the release is finished")
                path = write_result(keys.database or "", self._query, Path(folder.input) / name)
        # Where there is no path it is refused, or there: nothing is read.
        return plan if path is None else plan.with_log([str(path)])

    def dropped(self) -> None:
        """Removes a result that nothing was reserved for."""
        if self._asked is not None:
            folder = self._asked
            files.remove_folder(folder.input)
            with contextlib.suppress(OSError):  # it holds what an earlier run decided
                os.rmdir(folder.workplace)

    def claim(self, run: Run, job: Job) -> Job:
        """Looks at the first records, as the result is gone once the release is visible.

        What was asked is written beside the operator's statement, as a file that had it can change.
        """
        files.write_anew(files.join(run.operator_folder, "query.sql"), self._query.encode())
        with contextlib.suppress(TracecloakError):
            self._warnings = FirstLook.at(run.plan, run.source).warnings
        return job

    def tell(self, run: Run, outcome: Outcome) -> Outcome:
        """Says what the first records said."""
        return replace(outcome, warnings=outcome.warnings or self._warnings)


def _path_of_then(
    plan: ReleasePlan, books: ReleaseRegistry, standing: ReleaseState, name: str
) -> Path | None:
    """Returns where the result is that a release was begun with; None: it is to be asked for.

    Raises:
        TracecloakError: Noise was drawn of it, and it is gone.
        UsageError: The release was begun with the result of another query.
    """
    receipt = standing.receipt
    if receipt is None or standing.state not in ("reserved", "drawn", "visible", "released"):
        return None
    begun = [Path(file.path) for file in receipt.origin.files]
    if standing.state == "reserved":  # where this run is built, or it is asked for again
        begun = [path for path in begun if path.parent == Path(books.folder.input)]
    elif name not in [path.stem for path in begun]:
        if standing.state == "drawn":
            raise receipt.cannot_go_on("the query changed since", "ask what it asked and run again")
        raise UsageError(
            f"release_id {receipt.release_id!r} was begun in {receipt.output} on "
            f"{receipt.reserved_on}, and the query changed since; choose another release_id"
        )
    path = next((path for path in begun if path.stem == name and path.exists()), None)
    if path is None and standing.state == "drawn":
        price = price_text(plan, books.folder, receipt)
        raise receipt.cannot_go_on("the result of its query is gone", price=price)
    return path if standing.state in ("reserved", "drawn") else None
