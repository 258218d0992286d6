"""Which reader reads a file: by the name's ending, or as declared."""

from __future__ import annotations

from dataclasses import dataclass

from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.formats.avro import AvroReader
from tracecloak.transforms.formats.base import Reader
from tracecloak.transforms.formats.csv import CsvReader
from tracecloak.transforms.formats.jsonl import JsonLinesReader
from tracecloak.transforms.formats.parquet import ParquetReader
from tracecloak.transforms.formats.xes import XesReader

_ENDINGS = {
    ".xes": "xes",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".avro": "avro",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
FORMATS = tuple(dict.fromkeys(_ENDINGS.values()))


@dataclass(frozen=True)
class SourceFormat:
    """How the bytes of the sources are to be read.

    Attributes:
        name: One of FORMATS, or None: by the ending of each file's name, without `.gz`.
        delimiter: Of CSV fields; None is a comma, or a tab for `.tsv`.
        encoding: Of CSV text, any codec of Python.
        header: Column names of a CSV that has no header line; None: the first line has them.
    """

    name: str | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    header: tuple[str, ...] | None = None

    def name_of(self, path: str) -> str:
        """Returns the format of a file.

        Raises:
            UsageError: The ending tells no format and none is declared.
        """
        if self.name is not None:
            return self.name
        plain = path.removesuffix(".gz").lower()
        for ending, name in _ENDINGS.items():
            if plain.endswith(ending):
                return name
        raise UsageError(
            f"the format of input {path!r} is not told by its ending; say input_format: "
            f"{', '.join(FORMATS)}"
        )

    def reader_of(self, path: str) -> Reader:
        """Returns the reader of a file."""
        name = self.name_of(path)
        if name == "xes":
            return XesReader()
        if name == "parquet":
            return ParquetReader()
        if name == "avro":
            return AvroReader()
        if name == "jsonl":
            return JsonLinesReader()
        tabs = path.removesuffix(".gz").lower().endswith(".tsv")
        return CsvReader(
            delimiter=self.delimiter or ("\t" if tabs else ","),
            encoding=self.encoding,
            header=self.header or True,
        )

    def has_xes_names(self, path: str) -> bool:
        """Returns whether the default column names are those of XES."""
        return self.name_of(path) == "xes"
