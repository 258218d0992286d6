"""WriteRelease: rows of events in, the folder of a release out, as the command makes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.typehints.row_type import RowTypeConstraint

from tracecloak.anonymizers.contract.input_digest import InputDigest
from tracecloak.pipelines.configuration.python_words import told_in_python
from tracecloak.pipelines.embedded.anonymize import read_rows, shown
from tracecloak.pipelines.embedded.asked import OF_FILES, columns_of, config_of
from tracecloak.pipelines.embedded.claiming import DigestRows, NotedRows, Settling, claim
from tracecloak.pipelines.embedded.elements import elements_of
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.transforms.batch.anonymize import AnonymizeTraces
from tracecloak.transforms.batch.job import Target
from tracecloak.transforms.batch.write import WriteTraces
from tracecloak.transforms.files import absolute
from tracecloak.transforms.publish.release_folder import ReleaseFolder

_WRITTEN = RowTypeConstraint.from_fields([("release_id", str), ("folder", str)])


class WriteRelease(beam.PTransform):
    """Anonymises the events of a finished log, pays for it, and writes the release.

    Takes what `AnonymizeEventLog` takes, and writes what the command `tracecloak release` does: the
    parts and forms of the log or the products, statement, page and manifest, which all appear at
    once. Returns one row with the release_id and the folder once they are there.

    Built again with the same keys it writes nothing if the release is there, finishes one that was
    cut off, and pays nothing in either case. The pipeline fails if the rows are others than those
    that the release was made of. Where workers elsewhere made it, nobody can tell, and it warns.

    Example:
        claims | WriteRelease(
            "private-dfg", epsilon=1, vocabulary="activities.txt", release_id="claims-2026-11",
            case_id="claim", activity="step", timestamp="at", output="released")
    """

    @told_in_python()
    def __init__(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        output: str,
        columns: ColumnMapping | Mapping[str, Any] | None = None,
        **keys: Any,
    ) -> None:
        """Checks what is asked for; nothing is paid before the pipeline is built.

        Args:
            method: Name of a method.
            params: Its parameters; each can be a keyword as well.
            output: Folder of all releases, on any Beam file system.
            columns: Which column plays which part; the keys can be keywords as well.
            keys: As of `AnonymizeEventLog`, and `formats`, `parts`, `sign` and what the release
                says of itself (`title`, `controller`, …).

        Raises:
            UsageError: A key is unknown, missing or wrong.
        """
        super().__init__()
        given = {**columns_of(columns), **keys, "output": output}
        self._config = config_of(method, params, given, OF_FILES)

    @told_in_python()
    def expand(self, events: beam.PCollection[Any]) -> beam.PCollection[Any]:
        """Pays, and wires all of the release from its rows to its commit."""
        config, pipeline = self._config, events.pipeline
        elements = elements_of(events, config)
        paid = claim(config, elements, pipeline)
        release_id = str(config.release_id)
        row = (release_id, ReleaseFolder(absolute(config.output), release_id).final)
        if paid is None:
            done = pipeline | "There" >> beam.Create([row])
        elif isinstance(paid, NotedRows):
            read = read_rows(events, elements, config, paid.operator_folder)
            digest = read["traces"] | "DigestRows" >> DigestRows(paid.key)
            done = digest | "Compare" >> beam.Map(_compared, paid, row)
        else:
            target = paid.job.target
            read = read_rows(events, elements, config, target.spec.operator_folder)
            done = _release(read, target, config.shards)
            if paid.settling is not None and paid.rows is not None:
                digest = read["traces"] | "DigestRows" >> DigestRows(paid.rows.key)
                done = done | "Settle" >> beam.Map(
                    _settled, paid.settling, paid.rows, pvalue.AsSingleton(digest)
                )
            done = done | "Written" >> beam.Map(_given, row)
        return done | "ToRow" >> beam.Map(_row).with_output_types(_WRITTEN)

    def display_data(self) -> dict[str, Any]:
        """Returns what a runner shows of the transform: no value of a filter, and no key."""
        return shown(self._config) | {"output": self._config.output}


def _release(
    read: dict[str, beam.PCollection[Any]], target: Target, n_pieces: int
) -> beam.PCollection[str]:
    """Returns the release_id, once the release of the cases that were read is there."""
    anonymize = AnonymizeTraces(target.spec, n_pieces, wait_on=read["checked"])
    parts = read["traces"] | "AnonymizeTraces" >> anonymize
    write = WriteTraces(target, parts["products"], wait_on=read["checked"])
    return parts["traces"] | "WriteTraces" >> write


def _settled(release_id: str, settling: Settling, rows: NotedRows, digest: InputDigest) -> None:
    rows.write(digest)
    settling.finish()


def _given(before: str | None, row: tuple[str, str]) -> tuple[str, str]:
    return row


def _compared(digest: InputDigest, rows: NotedRows, row: tuple[str, str]) -> tuple[str, str]:
    rows.check(digest)
    return row


def _row(written: tuple[str, str]) -> beam.Row:
    return beam.Row(release_id=written[0], folder=written[1])
