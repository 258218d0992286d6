"""The commit: statement and page are written, the promise is checked, and the release appears."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from tracecloak.anonymizers.contract.method import Products
from tracecloak.anonymizers.registry import method_named
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.published.graph import LogCounts
from tracecloak.schemas.published.manifest import OutputFile
from tracecloak.transforms.batch.job import Target
from tracecloak.transforms.publish.products import products_of_log
from tracecloak.transforms.publish.release_files import (
    write_products,
    write_report,
    write_statement,
)

_LOG = logging.getLogger("tracecloak")


def commit(
    target: Target,
    parts: Sequence[OutputFile],
    others: Sequence[OutputFile],
    products: Products,
    log: LogCounts | None,
) -> None:
    """Commits the written files; a bundle that runs again finds the release and does nothing.

    The statement and the page are written here, as they say what came out.

    Args:
        target: Where the files are, and what is released.
        parts: The parts of the log, which are written.
        others: All other files that are.
        products: What is released beside the log.
        log: What was counted on the released log; None where there is none.

    Raises:
        UsageError: The release was given up meanwhile; nothing is committed.
        RetryLater: A release of another key is there; nothing is committed.
        GuaranteeError: What is promised of the log does not hold of its parts as written; nothing
            is committed.
    """
    folder, spec = target.folder, target.spec
    if folder.is_committed_with(spec.key.fingerprint):
        return
    spec.key.resolve()  # not there any more if somebody gave the release up meanwhile
    method = method_named(spec.method)
    if method.verifies:
        from tracecloak.transforms.publish.release_files import read_log

        try:
            method.verify(read_log(folder, len(parts)), spec.params)
        except GuaranteeError as error:
            raise GuaranteeError(
                f"the log as written does not keep what {spec.method} promises: {error}; this is "
                "an error of the program, please report it"
            ) from error
        _LOG.info("verified the log as written")
    if not target.keeps_parts:
        folder.remove([part.path for part in parts])
    held = products.held
    following = products_of_log(products.by_name, log)
    others = [*others, *write_products(folder, target.manifest, Products(following))]
    products = Products({**products.by_name, **following})
    came_out = held if log is None else log.came_out.beside(held)
    whole = replace(target.manifest, came_out=came_out)
    statement = write_statement(folder, whole, method.has_error_bars)
    outputs = [*(parts if target.keeps_parts else []), *others, statement]
    outputs.append(write_report(folder, whole, outputs, products, log, target.shares_scripts))
    if spec.check_open is not None:
        spec.check_open()
    sign = None if spec.signer is None else spec.signer.sign
    folder.commit(whole.to_json(outputs, method.verifies), sign)
    _LOG.info("committed release %s", folder.release_id)
