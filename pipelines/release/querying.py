"""A query as input: its result is a file of the workplace until the release is finished or ended.

A database is asked once. What it answered is the input like any other file: its digest is in the
receipt, and the same command, run again, reads it there. The workplace is cleared when the release
is finished, given back, given up or withdrawn, and the result goes with it.
"""

from __future__ import annotations

import contextlib
import logging
import os
from dataclasses import replace
from pathlib import Path

from tracecloak.pipelines.budget.books import Books, Standing
from tracecloak.pipelines.budget.opening import open_ledger, open_store
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.planning.findings import FirstLook
from tracecloak.pipelines.release.going_on import giving_up
from tracecloak.pipelines.release.values import Concern, Outcome, Run
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.transforms.batch.job import Job
from tracecloak.transforms.files import (
    absolute,
    is_on_this_machine,
    remove_folder,
    require_file_system,
)
from tracecloak.transforms.inputs.query_result import query_text, write_result
from tracecloak.transforms.publish.places import check_places
from tracecloak.transforms.publish.release_folder import ReleaseFolder

_LOG = logging.getLogger("tracecloak")


class QueryConcern(Concern):
    """Has a release read the result of a query, which is asked once."""

    # A release that is there has no input any more, and is not asked for again.
    compares_input = False

    def __init__(self) -> None:
        """Nothing is looked at yet."""
        self._asked: ReleaseFolder | None = None
        self._warnings: tuple[str, ...] = ()

    def check(self, config: ReleaseConfig) -> None:
        """Makes sure that the result can lie where a rerun finds it.

        Raises:
            UsageError: It cannot.
        """
        if config.release_id is None:
            raise UsageError(
                "release_id is missing: the result of a query is kept for the release until it is "
                "finished, under its name; give it one with --release_id"
            )
        place = config.staging_area or config.output
        if not is_on_this_machine(place):
            raise UsageError(
                f"the result of a query is kept beside the output, and {place!r} is not on this "
                "machine, so who reads it there is not known; name an output on this machine, or "
                "export the result and name its files as log"
            )

    def located(self, config: ReleaseConfig) -> ReleaseConfig:
        """Returns the configuration with the result as its log; asks for it unless it is there.

        Raises:
            TracecloakError: The release drew noise, and the result is gone.
            UsageError: The query is another than that of the release.
            InputSchemaError: The database does not answer, or the result is no log.
        """
        assert config.release_id is not None  # checked
        require_file_system("output", config.output)
        query, store = query_text(config.query or ""), open_store(config)
        ledger = open_ledger(config, store)  # before the first look at the input
        output, area = absolute(config.output), config.staging_area
        check_places(output, config.dead_letter)
        area = None if area is None else absolute(area)
        folder = ReleaseFolder(output, config.release_id, area, store=store.identity())
        books = Books(store, ledger, folder)
        with store.alone(output, config.release_id):
            standing = books.look()
            # It is the input of this query alone, which nobody may try out by its digest.
            name = f"{store.digest(f'query of {config.database}: {query}')[:16]}.parquet"
            path = _path_of_then(config, books, standing, name)
            if path is None and not _is_to_be_made(books, standing):
                return config  # refused, or there: nothing is read
            if path is None:
                self._asked = folder
                path = self._ask(config.database or "", query, folder, name)
        return config.model_copy(update={"log": (str(path),)})

    def _ask(self, database: str, query: str, folder: ReleaseFolder, name: str) -> Path:
        """Asks the database, and returns where the result is.

        Raises:
            InputSchemaError: It does not answer.
        """
        remove_folder(folder.input)  # of a run that was killed before anything was reserved
        folder.prepare()
        path = Path(folder.input) / name
        _LOG.info("asking the database; the result is kept until the release is finished")
        write_result(database, query, path)
        return path

    def dropped(self) -> None:
        """Removes a result that nothing was reserved for."""
        if self._asked is not None:
            remove_folder(self._asked.input)
            with contextlib.suppress(OSError):  # it holds what an earlier run decided
                os.rmdir(self._asked.workplace)

    def claim(self, run: Run, job: Job) -> Job:
        """Looks at the first records, as the result is gone once the release is visible."""
        with contextlib.suppress(TracecloakError):
            self._warnings = FirstLook.at(run.config, run.source).warnings
        return job

    def tell(self, run: Run, outcome: Outcome) -> Outcome:
        """Says what the first records said."""
        return replace(outcome, warnings=outcome.warnings or self._warnings)


def _is_to_be_made(books: Books, standing: Standing) -> bool:
    is_there = standing.state in ("visible", "released")
    return not is_there and books.refusal(standing) is None


def _path_of_then(
    config: ReleaseConfig, books: Books, standing: Standing, name: str
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
    if standing.state != "reserved" and name not in [path.name for path in begun]:
        if standing.state == "drawn":
            raise receipt.cannot_go_on("the query changed", "ask what it asked and run again")
        raise UsageError(
            f"release_id {receipt.release_id!r} was begun in {receipt.output} on "
            f"{receipt.reserved_on}, and the query changed since; choose another release_id"
        )
    path = next((path for path in begun if path.name == name and path.exists()), None)
    if path is None and standing.state == "drawn":
        raise TracecloakError(
            f"release_id {receipt.release_id!r} in {receipt.output} drew noise before it was cut "
            "off, and the result of its query is gone, which is not asked for again: the same "
            "noise on other counts would tell their difference. Restore it, or give the release "
            f"up. {giving_up(config, books.folder, receipt)}"
        )
    return path if standing.state in ("reserved", "drawn") else None
