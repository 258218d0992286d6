"""Which pieces a file has that several workers read, and what it lacks by all of them together."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tracecloak.transforms.formats.pieces import Lacks, check_size
from tracecloak.transforms.inputs.source_files import SourceFile, open_source
from tracecloak.transforms.sources import EventSource, named

_OPERATOR = logging.getLogger("tracecloak.operator")


def pieces(source: EventSource, file: SourceFile, max_bytes: int) -> list[SourceFile]:
    """Returns a file in pieces, in their order; `source.read` reads each, and all give the file.

    Args:
        source: What is read.
        file: One of its files.
        max_bytes: About how large a piece is. A smaller file, and one that nothing divides, is its
            only piece.

    Raises:
        InputSchemaError: The file is not of its format.
        RetryLater: It was changed since it was listed.
    """
    looks = [look(source, file, place) for place in places(source, file, max_bytes)]
    return pieces_by(source, file, looks)


def places(source: EventSource, file: SourceFile, max_bytes: int) -> list[Any]:
    """Returns where workers look at a file to divide it; none: it stays whole. Reads nothing."""
    divider = source.divider(file) if file.n_bytes > max_bytes else None
    return [] if divider is None else divider.places(file.n_bytes, max_bytes)


def look(source: EventSource, file: SourceFile, place: Any) -> Any:
    """Returns what is seen at one of the `places` of a file; raises as `pieces`."""
    divider = source.divider(file)
    assert divider is not None  # which alone gave the place
    with named(file, source.format), open_source(file) as stream:
        check_size(stream, file.n_bytes)
        return divider.look(stream, place)


def pieces_by(source: EventSource, file: SourceFile, looks: Sequence[Any]) -> list[SourceFile]:
    """Returns the pieces of a file by the looks at all of its `places`, in their order."""
    divider = source.divider(file) if looks else None
    divided = [] if divider is None else divider.pieces(looks)
    return [replace(file, piece=one) for one in divided] if len(divided) > 1 else [file]


def check_pieces(source: EventSource, lacking: Iterable[tuple[SourceFile, Lacks]]) -> None:
    """Makes sure that no file lacks a required column, once all of its pieces are read.

    Args:
        source: What was read.
        lacking: What its `read` said of the pieces of any files, in any order.

    Raises:
        InputSchemaError: One does, and reading does not go on; else there is a warning.
    """
    by_rank: dict[int, list[tuple[SourceFile, Lacks]]] = {}
    for file, lacks in lacking:
        by_rank.setdefault(file.rank, []).append((file, lacks))
    for _, of_file in sorted(by_rank.items()):
        file = of_file[0][0]
        if len(of_file) < file.piece.n_pieces:  # the others have all columns
            continue
        of_file.sort(key=lambda one: one[0].piece.begin)
        error = Lacks.merge([lacks for _, lacks in of_file]).error()
        if error is not None and source.format.goes_on:
            _OPERATOR.warning("%s", error)
        elif error is not None:
            with named(file, source.format):
                raise error
