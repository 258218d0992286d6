"""What a file is by its first bytes, and what to do with it: words for errors and findings alone.

An error or a finding comes first, and then the file is looked at, as far as 64 KiB: what is found
here never decides whether or how a file is read. Nothing of what is in the file is repeated.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from pathlib import PurePath
from typing import NamedTuple

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.transforms.formats.registry import CODECS, unpacked
from tracecloak.transforms.inputs.source_files import SourceFile, open_packed, open_source

_HEAD_BYTES = 64 << 10


class _Kind(NamedTuple):
    """Files of one kind.

    Attributes:
        pattern: Of bytes, what they begin with; a point is any byte.
        name: What they are, behind "this is".
        remedy: In the imperative; PATH stands for the file's path, and STEM for that without its
            ending. Of a kind that can be read it is made of the format.
        format: The format that reads it, or a codec by which it is compressed; empty: neither.
    """

    pattern: str
    name: str
    remedy: str
    format: str = ""


def _ocel(pattern: str, form: str, reader: str, ending: str = "") -> _Kind:
    """An object-centric log; some of pm4py's readers refuse a file with another ending."""
    copied = f"copy it to 'STEM{ending}', and " if ending else ""
    path = f"STEM{ending}" if ending else "PATH"
    remedy = (
        f"{copied}flatten it in Python: frame = pm4py.ocel_flattening(pm4py.{reader}('{path}'), "
        "'order') makes a case of each object of the type 'order', in whose place you put one that "
        "pm4py.ocel_get_object_types lists; release it with tracecloak.release(frame, ...), or "
        "write it with pm4py.write_xes(frame, 'flat.xes') and name that as log"
    )
    return _Kind(pattern, f"an object-centric log (OCEL {form})", remedy)


def _packed(pattern: str, ending: str) -> _Kind:
    remedy = f"add {ending} to its name, or decompress it"
    return _Kind(pattern, f"compressed by {CODECS[ending]}", remedy, CODECS[ending])


def _format(pattern: str, name: str, kind: str) -> _Kind:
    return _Kind(pattern, name, f"set input_format to {kind}", kind)


_EXPORT = "export the events as CSV, XES or Parquet, and name that file"
_SHEET = (
    "save its sheet as CSV and name that file, or read it with frame = pandas.read_excel('PATH') "
    "and release it with tracecloak.release(frame, ...)"
)
_QUERY = "set database to sqlite:///PATH and, in place of log, a query that selects the events"
_MODEL = "it has no events, so name the log that it is a model of"
_MXML = "open it in ProM and export it as XES, or write its events as CSV, and name that file"

_MEMBER = r"(?=PK\x03\x04).*?PK\x03\x04.{26}"
_LITE = r"SQLite format 3\0"
_ROOT = r"(?>\s++|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>]*>)*+<(?:[\w.-]{1,64}:)?"
_OCEL_1 = r"log\b(?=.*?<(?:global scope=.object|events|objects)\b)"
_OCEL_2 = r"log\b(?=.*?<(?:object-types|event-types)\b)"
_KINDS = (  # the first that fits counts
    _Kind(_MEMBER + r"(?:xl/|mimetype.{0,99}opendocument\.sp)", "a workbook of Excel", _SHEET),
    _ocel(_MEMBER + "ocel-meta", "2.0 as a bundle", "read_ocel2_bundle", ".ocel.zip"),
    _Kind(r"PK\x03\x04", "a zip archive", "unzip it, and name the file that was in it"),
    _Kind(r"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old workbook of Excel (.xls)", _SHEET),
    _ocel(_LITE + ".*?event_map_type", "2.0 as SQLite", "read_ocel2_sqlite"),
    _ocel(_LITE + ".*?ocel:eid", "1.0 as SQLite", "read_ocel_sqlite"),
    _Kind(_LITE, "a database of SQLite", _QUERY),
    _format("PAR1", "a Parquet file", "parquet"),
    _format(r"Obj\x01", "an Avro file", "avro"),
    _packed(r"\x1f\x8b", ".gz"),
    _packed(r"\x28\xb5\x2f\xfd", ".zst"),
    _packed("BZh[1-9]", ".bz2"),
    _packed(r"\x04\x22\x4d\x18", ".lz4"),
    _Kind(r"\xfd7zXZ\0", "compressed by xz", "decompress it"),
    _Kind("%PDF-", "a PDF document", _EXPORT),
    _Kind("version https://git-lfs", "a pointer of Git LFS", "get the file by `git lfs pull`"),
    _Kind(r"(?i)\s*<(?:!doctype html|html)\b", "a web page, as of a login", _EXPORT),
    _ocel(_ROOT + _OCEL_2, "2.0 as XML", "read_ocel2_xml", ".xml"),
    _ocel(_ROOT + _OCEL_1, "1.0 as XML", "read_ocel_xml"),
    _format(_ROOT + r"log\b", "an XES log", "xes"),
    _Kind(_ROOT + r"WorkflowLog\b", "a log in MXML, the predecessor of XES", _MXML),
    _Kind(_ROOT + r"definitions\b", "a model in BPMN or DMN", _MODEL),
    _Kind(_ROOT + r"(?:pnml|ptml)\b", "a Petri net or a process tree", _MODEL),
    _Kind(_ROOT + r"Workbook\b", "a workbook of Excel in XML", _EXPORT),
    _Kind(_ROOT + "[A-Za-z_]", "XML, but not an XES log", _EXPORT),
    _ocel(r"\s*\{(?=.*?\"(?:object|event)Types\"\s*:)", "2.0 as JSON", "read_ocel2_json", ".json"),
    _ocel(r"\s*\{(?=.*?\"ocel:)", "1.0 as JSON", "read_ocel_json"),
    _format(r"\s*(?:\[\s*)?\{[^\n]*\}[ \t\r]*,?[ \t\r]*(?:\n|\Z)", "JSON lines", "jsonl"),
    _format(r"\s*(?:\[\s*[\[{\]]|\{\s*[\"}])", "a JSON document", "json"),
    _ocel(r"[^\n]*?\bocel:(?:eid|type:)", "1.0 as CSV", "read_ocel_csv"),
    _format(r"[^\0\n]*?[,;\t|][^\0\n]*\n", "delimited text", "csv"),
)
_PATTERNS = tuple(re.compile(kind.pattern.encode(), re.DOTALL) for kind in _KINDS)
_CODE_UNITS = (  # of text in UTF-16 and UTF-32, with a mark or as it is of ASCII
    (re.compile(rb"\xff\xfe\0\0|\0\0\xfe\xff"), "utf-32"),
    (re.compile(rb"\xff\xfe|\xfe\xff"), "utf-16"),
    (re.compile(rb"(?:[^\0]\0){4}"), "utf-16-le"),
    (re.compile(rb"(?:\0[^\0]){4}"), "utf-16-be"),
)


def describe_file(file: SourceFile, read_as: str = "", encoding: str = "utf-8") -> str:
    """Returns what a file is and what to do, if it is known and not what it was read as; else "".

    Args:
        file: One that cannot be read, or of which no record could be.
        read_as: The format that it was read as; empty: none is known.
        encoding: In which its text was read.
    """
    if file.seen is not None:  # of a table, which says what its files are
        return ""
    with contextlib.suppress(Exception):  # what is wrong is said without this
        with contextlib.closing(open_packed(file)) as stream:
            head = packed = stream.read(_HEAD_BYTES)
        with contextlib.suppress(InputSchemaError), contextlib.closing(open_source(file)) as stream:
            head = stream.read(_HEAD_BYTES)
        name, remedy, kind = _kind_of(head, read_as, encoding)
        _, codec = unpacked(file.path)
        ending = PurePath(file.path).suffix
        if read_as == "parquet" and (kind in CODECS.values() or (codec and kind == read_as)):
            name, remedy = f"compressed by {codec or kind}", "decompress it"
        elif kind and kind == codec:
            if head is packed:  # it cannot be decompressed, so it is damaged
                return ""
            name, remedy = f"{name} twice", "decompress it once"
        elif kind and read_as in (kind, "json" if kind == "jsonl" else kind):
            if head is not packed:
                return ""
            name = f"not compressed, hence no intact {codec} stream"
            remedy = f"remove {ending} from its name"
        if name:
            stem = file.path.removesuffix(ending)
            remedy = remedy.replace("PATH", file.path).replace("STEM", stem)
            remedy = remedy.removeprefix(f"copy it to '{file.path}', and ")
            return f"this is {name}{f', and was read as {read_as}' if read_as else ''}; {remedy}"
    return ""


def _kind_of(head: bytes, read_as: str, encoding: str) -> tuple[str, str, str]:
    """Returns the name of what begins so, its remedy and its format; of the unknown all empty."""
    units = next((name for pattern, name in _CODE_UNITS if pattern.match(head)), None)
    if units is not None:
        text = head.decode(units, "ignore").removeprefix("\ufeff").encode()
        name, remedy, kind = _kind_of(text, read_as, "utf-8")
        if kind == "xes" or not kind or codecs.lookup(encoding).name.startswith(units[:6]):
            return name, remedy, kind
        given = f"set encoding to {units}" if read_as in ("csv", "") else "convert it to UTF-8"
        return f"text in {units.upper()}", given, ""
    head = head.removeprefix(codecs.BOM_UTF8)
    for kind_, pattern in zip(_KINDS, _PATTERNS, strict=True):
        if pattern.match(head):
            return kind_[1:]
    return "", "", ""
