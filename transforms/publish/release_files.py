"""The files of a release: its log in all forms, products, statement and page, without Beam.

Each function writes one file into the staging folder and returns its digest. The Beam pipeline and
the in-memory driver call the same ones, so their releases are the same bytes.
"""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from tracecloak.anonymizers.contract.method import Products
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import OutputFile, ReleaseManifest
from tracecloak.schemas.published.rows import merge_rows, traces_of_rows
from tracecloak.schemas.published.variants import LogCounts
from tracecloak.schemas.statistics.variants import DirectlyFollows
from tracecloak.transforms.formats.registry import FORMATS, Format
from tracecloak.transforms.publish.products import called, kind_of, parquet_of
from tracecloak.transforms.publish.release_folder import (
    PARTS,
    REPORT_NAME,
    ReleaseFolder,
    log_name,
    part_name,
)

# --- The files of a released log: its parts, the whole of it in other formats, and its graph. -----
# The directly-follows graph of a released log, as the JSON values of its file.


_READ_ROWS = 1 << 16

GZIP_LEVEL = 6
"""How hard gzip tries, of 9, which takes twice the time for files that are a tenth smaller."""


def write_part(
    folder: ReleaseFolder, manifest: ReleaseManifest, number: int, rows: Iterator[pa.RecordBatch]
) -> OutputFile:
    """Writes the rows of one part as Parquet.

    Args:
        folder: Where it is written.
        manifest: Whose promise it carries.
        number: Of the part.
        rows: In the canonical order; one batch at least, for the columns.
    """

    def content(stream: BinaryIO) -> None:
        first = next(rows)
        write_rows(FORMATS[PARTS], stream, chain([first], rows), first.schema, manifest)

    return folder.write(part_name(number), content)


def write_export(
    folder: ReleaseFolder, manifest: ReleaseManifest, kind: str, n_parts: int
) -> OutputFile:
    """Writes the whole log as one file, merged from its parts with bounded memory.

    Args:
        folder: Where the parts are.
        manifest: Whose promise the file carries, if its format has room for it.
        kind: A format of releases, and not PARTS.
        n_parts: Number of parts.
    """
    form = FORMATS[kind]

    def content(stream: BinaryIO) -> None:
        with contextlib.ExitStack() as stack:
            parts = [_open_part(stack, folder, number) for number in range(n_parts)]
            schema = parts[0].schema_arrow.remove_metadata()
            streams = [_rows_of(part, schema) for part in parts]
            write_rows(form, stream, merge_rows(streams, schema), schema, manifest)

    return folder.write(log_name(kind), content)


def write_rows(
    form: Format,
    stream: BinaryIO,
    rows: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    manifest: ReleaseManifest,
) -> None:
    """Writes a log: gzipped, unless the format packs itself.

    Args:
        form: A format of releases.
        stream: Where the bytes go.
        rows: In the canonical order.
        schema: Of the rows.
        manifest: Whose promise the file carries, if its format has room for it.
    """
    with contextlib.ExitStack() as stack:
        if not form.is_packed:
            # No name and no time of writing in the header: equal logs are equal bytes.
            packed = gzip.GzipFile("", "wb", GZIP_LEVEL, stream, mtime=0)
            stream = cast(BinaryIO, stack.enter_context(packed))
        writer = form.open_writer(stream, schema, manifest.to_json())
        for batch in rows:
            writer.write(batch)
        writer.close()


def read_log(folder: ReleaseFolder, n_parts: int) -> list[TraceBatch]:
    """Returns the cases of each part as it was written, in one vocabulary; holds the whole log."""
    batches = []
    for number in range(n_parts):
        with contextlib.ExitStack() as stack:
            rows = _open_part(stack, folder, number).read().combine_chunks()
        schema = rows.schema.remove_metadata()
        [batch] = rows.cast(schema).to_batches() or [pa.RecordBatch.from_pylist([], schema)]
        batches.append(traces_of_rows(batch))
    vocabulary = ActivityVocabulary.merge([batch.vocabulary for batch in batches])
    return [batch.recode(vocabulary) for batch in batches]


def _open_part(stack: contextlib.ExitStack, folder: ReleaseFolder, number: int) -> pq.ParquetFile:
    return pq.ParquetFile(stack.enter_context(folder.open(part_name(number))))


def _rows_of(part: pq.ParquetFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for rows in part.iter_batches(_READ_ROWS):
        yield rows.cast(schema)


def log_graph_json(graph: DirectlyFollows, vocabulary: ActivityVocabulary) -> dict[str, Any]:
    """Returns start, end, activities and edges, with ▶ and ■ as start and end.

    Names that only unreleased cases had are not among the activities.

    Args:
        graph: Of the released log.
        vocabulary: Of at least its activities.
    """
    labels = vocabulary.labels
    rows = zip(graph.sources.tolist(), graph.targets.tolist(), graph.counts.tolist(), strict=True)
    used = {code for codes in (graph.sources, graph.targets) for code in codes.tolist()}
    return {
        "start": labels[vocabulary.start],
        "end": labels[vocabulary.end],
        "activities": [labels[code] for code in sorted(used) if code < vocabulary.start],
        "edges": [{"source": labels[s], "target": labels[t], "count": n} for s, t, n in rows],
    }


# --- The files of a release but those of its log: products, statement and page, without Beam. -----


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
        sentence = manifest.guarantee.sentence
        forms |= called(kind_of(product).forms, product, title, sentence) or {}
        for ending, data in forms.items():
            written.append(folder.write(f"{name}.{ending}", data))
    return written


def write_report(
    folder: ReleaseFolder,
    manifest: ReleaseManifest,
    files: Sequence[OutputFile],
    products: Products,
    log: LogCounts | None,
    shares: bool = False,
) -> OutputFile:
    """Writes the page of the release, which lists the other files, and the libraries it shares."""
    in_order = [product for _, product in sorted(products.by_name.items())]
    from tracecloak.transforms.publish.report import report_html

    page = report_html(manifest, files, in_order, log, shares)
    if shares:
        from tracecloak.transforms.pages.page import put_shared

        put_shared(folder.output, page)
    return folder.write(REPORT_NAME, page)
