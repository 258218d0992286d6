"""The files of a release but those of its log: products, statement and page, without Beam.

Each function writes one file into the staging folder and returns its digest. The Beam pipeline and
the in-memory driver call the same ones, so their releases are the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from tracecloak.anonymizers.contract.method import Products
from tracecloak.schemas.published.graph import LogCounts
from tracecloak.schemas.published.manifest import OutputFile, ReleaseManifest
from tracecloak.transforms.publish.names import REPORT_NAME, STATEMENT_NAME
from tracecloak.transforms.publish.products import kind_of, parquet_of
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.publish.report import report_html
from tracecloak.transforms.publish.statement import publishable_statement


def write_products(
    folder: ReleaseFolder, manifest: ReleaseManifest, products: Products
) -> list[OutputFile]:
    """Writes each product as Parquet and JSON, and in the further forms of its kind."""
    written = []
    for name, product in sorted(products.by_name.items()):
        forms = {
            "parquet": parquet_of(product.to_table(), manifest),
            "json": json.dumps(product.to_json(), indent=1, ensure_ascii=False).encode(),
        }
        title = f"{manifest.release_id}: {name}"
        forms |= kind_of(product).further_files(product, title, manifest.guarantee.sentence)
        for ending, data in forms.items():
            written.append(folder.write_bytes(f"{name}.{ending}", data))
    return written


def write_statement(
    folder: ReleaseFolder, manifest: ReleaseManifest, has_error_bars: bool
) -> OutputFile:
    """Writes the promise in words, the edition that may be published."""
    text = publishable_statement(manifest, has_error_bars).encode()
    return folder.write_bytes(STATEMENT_NAME, text)


def write_report(
    folder: ReleaseFolder,
    manifest: ReleaseManifest,
    files: Sequence[OutputFile],
    products: Products,
    log: LogCounts | None,
    shares: bool = False,
) -> OutputFile:
    """Writes the page of the release, which lists the other files, and the libraries it shares."""
    of_release = [product for _, product in sorted(products.by_name.items())]
    page = report_html(manifest, files, of_release, log, shares)
    if shares:
        from tracecloak.transforms.pages.shared import put_shared

        put_shared(folder.output, page)
    return folder.write_bytes(REPORT_NAME, page)
