"""Tables among the inputs: each is read at one version, which is that of the release from then on.

A version is named, or it is the last one when the release is begun. It stands in the receipt, so
the same command, run again, reads this one and not what the table has become.
"""

from __future__ import annotations

from dataclasses import replace

from tracecloak.pipelines.budget.books import Books
from tracecloak.pipelines.budget.opening import open_ledger, open_store, store_of
from tracecloak.pipelines.budget.standing import State
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.keys.receipts import Receipt
from tracecloak.pipelines.release.going_on import giving_up
from tracecloak.pipelines.release.values import Concern
from tracecloak.schemas.errors import TracecloakError
from tracecloak.transforms.files import absolute, require_file_system
from tracecloak.transforms.lakes.tables import (
    Address,
    VersionGoneError,
    address_of,
    at_version_read,
)
from tracecloak.transforms.publish.release_folder import ReleaseFolder


class TableConcern(Concern):
    """Has a release read tables at the versions with which it was begun."""

    def located(self, config: ReleaseConfig) -> ReleaseConfig:
        """Returns the configuration with the version of each table.

        Raises:
            TracecloakError: The release drew noise, and the version that it read is gone.
            InputSchemaError: A table or its version is not there.
        """
        receipt = _receipt_of(config)
        begun = () if receipt is None else receipt.origin.tables

        tables, log = config.tables, []
        for text in config.log:
            address = at_version_read(address_of(text), begun) if text in tables else None
            if address is None:
                log.append(text)
            elif (version := self._version(address, config, receipt)) is not None:
                log.append(str(replace(address, version=version)))
        return config.model_copy(update={"log": tuple(log)})

    def _version(
        self, address: Address, config: ReleaseConfig, receipt: Receipt | None
    ) -> int | None:
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
            state, costs = _standing(config, receipt)
            if state in ("visible", "released"):
                self.compares_input = False  # that it was of this version is known
                return None
            if state != "drawn":
                raise
            raise TracecloakError(
                f"release_id {receipt.release_id!r} in {receipt.output} drew noise before it was "
                f"cut off, and what it was made of is gone: {error}. The same noise on other "
                f"counts would tell their difference. {costs}"
            ) from None


def _receipt_of(config: ReleaseConfig) -> Receipt | None:
    """Returns of what a release was begun; None: it was not, or has no name before it is read."""
    if config.release_id is None:
        return None
    require_file_system("output", config.output)
    return store_of(config).receipt(absolute(config.output), config.release_id)


def _standing(config: ReleaseConfig, receipt: Receipt) -> tuple[State, str]:
    """Returns what a release is now, and what it would cost to give it up."""
    store = open_store(config)
    area = receipt.origin.staging_area
    folder = ReleaseFolder(receipt.output, receipt.release_id, area, store=store.identity())
    state = Books(store, open_ledger(config, store), folder).look().state
    return state, giving_up(config, folder, receipt)
