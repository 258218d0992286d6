"""The files of a release: parts, whole-log exports and the directly-follows graph, without Beam.

Each function writes one file into the staging folder and returns its digest. The Beam pipeline and
the in-memory driver call the same ones, so their releases are the same bytes.
"""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from tracecloak.anonymizers.contract.method import Products
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.manifest import OutputFile, ReleaseManifest
from tracecloak.schemas.published.rows import merge_rows, part_rows, traces_of_rows
from tracecloak.schemas.published.tree import ReleasedTree
from tracecloak.schemas.statistics.directly_follows import DirectlyFollows
from tracecloak.transforms.formats.base import Writer
from tracecloak.transforms.formats.csv import CsvWriter
from tracecloak.transforms.formats.parquet import ParquetWriter
from tracecloak.transforms.formats.xes_writer import XesAttribute, XesWriter, sanitise
from tracecloak.transforms.models.dfg_dot import write_dot
from tracecloak.transforms.models.dfg_svg import write_svg
from tracecloak.transforms.models.tree_models import write_bpmn, write_pnml, write_ptml
from tracecloak.transforms.models.tree_svg import write_tree_svg
from tracecloak.transforms.publish.names import DFG_NAME, STATEMENT_NAME, part_name
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.publish.statement import publishable_statement

_EXPORT_NAMES = {"xes": "log.xes.gz", "csv": "log.csv.gz"}
_READ_ROWS = 1 << 16


def write_part(
    folder: ReleaseFolder, manifest: ReleaseManifest, number: int, batches: Sequence[TraceBatch]
) -> OutputFile:
    """Writes the cases of one part, in their canonical order, as Parquet.

    Raises:
        ValueError: The cases have different attributes, or one with the values of a source.
    """
    metadata = {"release": json.dumps(manifest.to_json(), ensure_ascii=False)}

    def content(stream: BinaryIO) -> None:
        rows = part_rows(batches)
        writer = ParquetWriter(stream, metadata, rows.schema)
        writer.write(rows)
        writer.close()

    return folder.write(part_name(number), content)


def write_export(
    folder: ReleaseFolder, manifest: ReleaseManifest, kind: str, n_parts: int
) -> OutputFile:
    """Writes the whole log as one file, merged from its parts with bounded memory.

    Args:
        folder: Where the parts are.
        manifest: Whose promise an XES file carries in its attributes.
        kind: `xes` or `csv`.
        n_parts: Number of parts.

    Raises:
        InputSchemaError: Two activity names would become one in XML.
    """

    def content(stream: BinaryIO) -> None:
        # No name and no time of writing in the header: equal logs are equal bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed:
            target = cast(BinaryIO, packed)
            with contextlib.ExitStack() as stack:
                parts = [_open_part(stack, folder, number) for number in range(n_parts)]
                schema = parts[0].schema_arrow.remove_metadata()
                writer: Writer
                if kind == "xes":
                    writer = XesWriter(target, xes_attributes(manifest), schema)
                else:
                    writer = CsvWriter(target, schema)
                streams = [_rows_of(part, schema) for part in parts]
                for rows in merge_rows(streams, schema):
                    writer.write(rows)
            writer.close()

    return folder.write(_EXPORT_NAMES[kind], content)


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


def write_dfg(
    folder: ReleaseFolder, graph: DirectlyFollows, vocabulary: ActivityVocabulary
) -> OutputFile:
    """Writes the released log's directly-follows graph, with ▶ and ■ as start and end."""
    labels = vocabulary.labels
    rows = zip(graph.sources.tolist(), graph.targets.tolist(), graph.counts.tolist(), strict=True)
    edges = [{"source": labels[s], "target": labels[t], "count": n} for s, t, n in rows]
    used = {code for codes in (graph.sources, graph.targets) for code in codes.tolist()}
    body = {
        "start": labels[vocabulary.start],
        "end": labels[vocabulary.end],
        # Names that only unreleased cases had are not written.
        "activities": [labels[code] for code in sorted(used) if code < vocabulary.start],
        "edges": edges,
    }
    text = json.dumps(body, indent=1, ensure_ascii=False).encode()

    def content(stream: BinaryIO) -> None:
        stream.write(text)

    return folder.write(DFG_NAME, content)


def write_products(
    folder: ReleaseFolder, manifest: ReleaseManifest, products: Products
) -> list[OutputFile]:
    """Writes each product as Parquet and JSON, and graphs and trees in the forms of their own.

    A graph also as DOT and as an SVG picture; a process tree also as text, PTML, PNML, BPMN and as
    an SVG picture.
    """
    written = []
    for name, product in sorted(products.by_name.items()):
        forms: dict[str, bytes] = {
            "parquet": _parquet(product.to_table(), manifest),
            "json": json.dumps(product.to_json(), indent=1, ensure_ascii=False).encode(),
        }
        if isinstance(product, ReleasedGraph):
            title = f"{manifest.release_id}: {name}"
            forms["dot"] = write_dot(product, title).encode()
            forms["svg"] = write_svg(product, title, manifest.guarantee.sentence).encode()
        if isinstance(product, ReleasedTree):
            title = f"{manifest.release_id}: {name}"
            forms |= forms_of_tree(product, title, manifest.guarantee.sentence)
        for ending, data in forms.items():
            written.append(folder.write(f"{name}.{ending}", partial(_write_all, data)))
    return written


def forms_of_tree(product: ReleasedTree, title: str, promise: str) -> dict[str, bytes]:
    """Returns a tree's files by the endings of their names."""
    tree = product.tree
    texts = {
        "tree": f"{product.text}\n",
        "ptml": write_ptml(tree, title),
        "pnml": write_pnml(tree, title),
        "bpmn": write_bpmn(tree, title),
        "svg": write_tree_svg(tree, title, promise),
    }
    return {ending: text.encode() for ending, text in texts.items()}


def write_statement(folder: ReleaseFolder, manifest: ReleaseManifest) -> OutputFile:
    """Writes the promise in words, the edition that may be published."""
    text = publishable_statement(manifest).encode()
    return folder.write(STATEMENT_NAME, partial(_write_all, text))


def _parquet(table: pa.Table, manifest: ReleaseManifest) -> bytes:
    body = json.dumps(manifest.to_json(), ensure_ascii=False)
    sink = pa.BufferOutputStream()
    marked = table.replace_schema_metadata({"tracecloak.release": body})
    pq.write_table(marked, sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def _write_all(data: bytes, stream: BinaryIO) -> None:
    stream.write(data)


def check_xes_names(vocabulary: ActivityVocabulary) -> None:
    """Makes sure that activity names stay distinct in XML.

    Raises:
        InputSchemaError: Two names differ in characters only that XML cannot hold.
    """
    names = vocabulary.names.to_pylist()
    if len({sanitise(name) for name in names}) < len(names):
        raise InputSchemaError(
            "two activity names differ only in control characters, which XML cannot hold; release "
            "without xes in formats, or rename the activities"
        )


def xes_attributes(manifest: ReleaseManifest) -> list[XesAttribute]:
    """Returns the log attributes that say what was done: the privacy extension's and our own."""
    guarantee = manifest.guarantee
    anonymizers = tuple(
        XesAttribute(
            "string",
            f"privacy:anonymizer{i}",
            manifest.method,
            (
                XesAttribute("string", "privacy:operation type", operation.type),
                XesAttribute("string", "privacy:level", operation.level),
                XesAttribute("string", "privacy:target", operation.target),
            ),
        )
        for i, operation in enumerate(manifest.operations, 1)
    )
    own: dict[str, Any] = {
        "tracecloak:release_id": manifest.release_id,
        "tracecloak:method": manifest.method,
        "tracecloak:guarantee": guarantee.kind,
        "tracecloak:statement": guarantee.sentence,
        "tracecloak:unit": guarantee.unit,
        "tracecloak:adjacency": guarantee.adjacency,
        "tracecloak:not_covered": " ".join(guarantee.not_covered),
        "tracecloak:tool_version": manifest.to_json()["tool"]["version"],
        "tracecloak:config_digest": manifest.config_digest,
    }
    numbers = {"tracecloak:epsilon": guarantee.epsilon, "tracecloak:delta": guarantee.delta}
    return [
        XesAttribute("string", "concept:name", manifest.release_id),
        XesAttribute("string", "privacy:anonymizations", manifest.method, anonymizers),
        *(XesAttribute("string", key, value) for key, value in own.items()),
        *(XesAttribute("float", key, float(v)) for key, v in numbers.items() if v is not None),
    ]
