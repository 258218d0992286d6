"""What an XES file says of itself before its first trace; no entity is expanded."""

from __future__ import annotations

import gzip
from typing import BinaryIO, cast
from xml.parsers import expat

_PIECE_BYTES = 64 << 10
_LARGEST_HEAD = 16 << 20


class _Enough(Exception):  # noqa: N818 - the first trace, where the head ends
    pass


def log_attributes(stream: BinaryIO, is_gzipped: bool) -> dict[str, str]:
    """Returns the values of the log's own attributes by key.

    Raises:
        expat.ExpatError: It is no XML.
        ValueError: It has a DOCTYPE, no log, a key twice, or a head of more than 16 MiB.
        OSError, EOFError: It is no gzip stream, or cannot be read.
    """
    source = cast(BinaryIO, gzip.GzipFile(fileobj=stream)) if is_gzipped else stream
    values: dict[str, str] = {}
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        local = name.rpartition(":")[2]
        if depth == 0 and local != "log":
            raise ValueError("no log")
        if depth == 1:
            if local == "trace":
                raise _Enough
            if "key" in attributes and "value" in attributes:
                if attributes["key"] in values:
                    raise ValueError("a key stands there twice")
                values[attributes["key"]] = attributes["value"]
        depth += 1

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    def refuse(*_: object) -> None:
        raise ValueError("a DOCTYPE")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse
    try:
        n_read = 0
        while piece := source.read(_PIECE_BYTES):
            n_read += len(piece)
            if n_read > _LARGEST_HEAD:
                raise ValueError("too long")
            parser.Parse(piece, False)
        parser.Parse(b"", True)
    except _Enough:
        pass
    return values
