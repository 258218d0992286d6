"""The table of file formats: the reader and the writer of each, and what its files are called.

A format is an entry of `FORMATS` and a file of its own. Readers and writers are named by their
places, so that none is imported before a file of its format is read or written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.plugins import Plugins, load

# Configurations and the help of flags look at the table: it takes no library that reads data.
if TYPE_CHECKING:
    import pyarrow as pa

    from tracecloak.transforms.formats.base import Reader, Writer


@dataclass(frozen=True)
class Format:
    """A file format. Places are `module:attribute`.

    Attributes:
        endings: Of its files' names, in small letters, each with its dot; the first is that of
            files that are written.
        reader: Place of a function of a `SourceFormat` and a path that returns the `Reader`.
        writer: Place of a function that returns the `Writer`, see `open_writer`; None: nothing
            writes it.
        is_packed: Whether it compresses itself, so that its files are never gzipped.
        has_xes_names: Whether its columns are called as in XES unless they are mapped.
        is_of_releases: Whether the log of a release can be written in it, which takes a writer of
            attributes.
    """

    endings: tuple[str, ...]
    reader: str
    writer: str | None = None
    is_packed: bool = False
    has_xes_names: bool = False
    is_of_releases: bool = False

    @property
    def log_ending(self) -> str:
        """What follows the name of a log that is written for a release."""
        return self.endings[0] + ("" if self.is_packed else ".gz")

    def open_writer(
        self, stream: BinaryIO, schema: pa.Schema, about: Mapping[str, Any] | None = None
    ) -> Writer:
        """Returns a writer of a file.

        Args:
            stream: Where the bytes go.
            schema: Of the rows: RELEASED_SCHEMA, or, in a format of releases, `released_schema` of
                attributes; of a log without times it has EVENT_INDEX in the place of TIMESTAMP.
            about: What the file says of the release that it belongs to, if the format has room for
                it: a manifest as JSON values. None: it belongs to none.

        Raises:
            ValueError: Nothing writes this format.
        """
        if self.writer is None:
            raise ValueError(f"nothing writes files that end in {self.endings[0]}")
        writer: Writer = load(self.writer)(stream, schema, about)
        return writer


FORMATS: Plugins[Format] = Plugins(
    "file format",
    "tracecloak.formats",
    {
        "xes": Format(
            (".xes",),
            "tracecloak.transforms.formats.xes:reader",
            "tracecloak.transforms.formats.xes_writer:XesWriter",
            has_xes_names=True,
            is_of_releases=True,
        ),
        "csv": Format(
            (".csv", ".tsv"),
            "tracecloak.transforms.formats.csv:reader",
            "tracecloak.transforms.formats.csv_writer:CsvWriter",
            is_of_releases=True,
        ),
        "parquet": Format(
            (".parquet",),
            "tracecloak.transforms.formats.parquet:reader",
            "tracecloak.transforms.formats.parquet:ParquetWriter",
            is_packed=True,
            is_of_releases=True,
        ),
        "avro": Format(
            (".avro",),
            "tracecloak.transforms.formats.avro:reader",
            "tracecloak.transforms.formats.avro:AvroWriter",
            is_packed=True,
        ),
        "jsonl": Format(
            (".jsonl", ".ndjson"),
            "tracecloak.transforms.formats.jsonl:reader",
            "tracecloak.transforms.formats.jsonl:JsonLinesWriter",
        ),
        "json": Format((".json",), "tracecloak.transforms.formats.jsonl:reader"),
        "spreadsheet": Format(
            (".spreadsheet.csv",),
            "tracecloak.transforms.formats.csv:reader",
            "tracecloak.transforms.formats.csv_writer:spreadsheet",
            is_of_releases=True,
        ),
    },
    kind=Format,
)


def formats_of_releases() -> Iterator[str]:
    """Yields the names of the formats that the log of a release can be written in, ours first.

    One by one, so that a format of another distribution that cannot be loaded stands in the way of
    those alone who look for it.
    """
    yield from (name for name, kind in FORMATS.items() if kind.is_of_releases)


CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}
"""What files are compressed by, as Arrow names it, by the ending of their names."""

CSV_KEYS = (
    *("delimiter", "encoding", "header", "quote_char", "escape_char", "skip_lines", "comment"),
)
"""What a `SourceFormat` says of CSV alone, as keys of a configuration."""
FILE_KEYS = (*CSV_KEYS, "unnamed_traces", "int96_timestamps")
"""Keys of a configuration about the bytes of files of one format."""


def unpacked(path: str) -> tuple[str, str | None]:
    """Returns a path in small letters without the ending of a codec, and that one of CODECS."""
    small = path.lower()
    ending = small[small.rfind(".") :]
    return small.removesuffix(ending) if ending in CODECS else small, CODECS.get(ending)


@dataclass(frozen=True)
class SourceFormat:
    """How the bytes of the sources are to be read.

    Attributes:
        name: One of FORMATS, or None: by the ending of each file's name, see `unpacked`.
        delimiter: Of CSV fields; None is that of a line `sep=`, or else a comma, or a tab for
            `.tsv`.
        encoding: Of CSV text, any codec of Python.
        header: Column names of a CSV that has no header line; None: the first line has them.
        quote_char: Of CSV; see `transforms.formats.csv.CsvReader`, as for the next three.
        escape_char: Of CSV.
        skip_lines: Of CSV.
        comment: Of CSV.
        unnamed_traces: The column with the names of traces of XES, if traces without one get names
            by their contents; None: their events have no case.
        goes_on: Whether what one record can cause never ends the reading: that record is malformed
            then, and what follows is read as far as the format allows. It is where a promise of
            privacy is true only if no case decides whether there is a release. Without it such a
            fault is an error of the file, so that none goes unnoticed.
        order: The column that only orders events, of which no value makes a record malformed; None:
            there is none.
        int96_timestamps: Whether times of that type in Parquet are `instant` or `local`.
    """

    name: str | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    header: tuple[str, ...] | None = None
    quote_char: str = '"'
    escape_char: str | None = None
    skip_lines: int = 0
    comment: str | None = None
    goes_on: bool = False
    order: str | None = None
    unnamed_traces: str | None = None
    int96_timestamps: str = "instant"

    def name_of(self, path: str) -> str:
        """Returns the format of a file.

        Raises:
            UsageError: The ending tells no format and none is declared.
        """
        if self.name is not None:
            return self.name
        plain, _ = unpacked(path)
        for name, kind in FORMATS.items():
            if plain.endswith(kind.endings):
                return name
        raise UsageError(
            f"cannot infer the format of input {path!r}; say input_format: {', '.join(FORMATS)}"
        )

    def reader_of(self, path: str, seen: Any = None) -> Reader:
        """Returns the reader of a file, of one of a table as that sees it; see `SourceFile`."""
        if seen is not None:
            return cast("Reader", seen.reader(self.goes_on))
        reader: Reader = load(FORMATS.named(self.name_of(path)).reader)(self, path)
        return reader

    def has_xes_names(self, path: str) -> bool:
        """Returns whether the default column names are those of XES."""
        return FORMATS.named(self.name_of(path)).has_xes_names
