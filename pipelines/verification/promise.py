"""Whether everything in a release that says what it promises says the same.

What an XES file says of itself before its first trace; no entity is expanded.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, BinaryIO, cast
from xml.parsers import expat

import pyarrow.parquet as pq

from tracecloak.anonymizers.accounting.composed import is_accounted_for
from tracecloak.anonymizers.accounting.composition import Spend, decimal_text, total
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.verification.folder import (
    NotApplicable,
    Unsure,
    Wrong,
    quote_names,
    strict_json,
)
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import MANIFEST_NAME
from tracecloak.schemas.texts import MAX_DEPTH
from tracecloak.transforms.publish.release_folder import STATEMENT_NAME

_IN_PARQUET = b"tracecloak.release"
# What a file must say that says anything.
_SAID = ("release_id", "method", "method_version", "params", "guarantee", "spends")
# Where a manifest has more than files, which are the same for all runners and whatever parameters a
# version has at their defaults.
_HAS_MORE = ("params", "randomness")
_LONGEST_SPENDS = 1 << 20
_MOST_SUMS = 1 << 14
_MOST_DOUBLINGS = 16  # of a part's sums; with more it is not gone through


def check_statement(received: Received) -> str:
    """The statement says what the manifest says.

    It is a function of the manifest, so that by this version is compared with what this version
    makes of it. Of another one the name, the method, epsilon and delta must stand in it.

    Raises:
        Wrong: It does not.
        Unsure: Its other words are of another version.
    """
    from tracecloak.transforms.publish.statement import publishable_statement

    text = received.folder.text(STATEMENT_NAME)
    if received.is_by_this_version:
        manifest = received.manifest
        may_have_error_bars = _may_have_error_bars(received)
        if all(text != publishable_statement(manifest, has) for has in may_have_error_bars):
            raise Wrong(f"{STATEMENT_NAME} is not what follows from {MANIFEST_NAME}.")
        return f"{STATEMENT_NAME} is, word for word, what follows from {MANIFEST_NAME}."
    guarantee = received.body["guarantee"]
    plain = " ".join(text.replace("\\", "").split())
    wanted = [received.body["release_id"], received.body["method"]]
    if guarantee["kind"] == "rigorous":
        numbers = ((name, Fraction(repr(float(guarantee[name])))) for name in ("epsilon", "delta"))
        wanted += [f"{name} = {decimal_text(number)}" for name, number in numbers]
    elif "differential privacy with epsilon =" in plain:
        raise Wrong(f"{STATEMENT_NAME} promises an epsilon, and {MANIFEST_NAME} does not.")
    # As a whole: `epsilon = 1` is not in `epsilon = 1.5`.
    if not all(re.search(rf"(?<!\w){re.escape(words)}(?!\w|\.\d)", plain) for words in wanted):
        raise Wrong(
            f"{STATEMENT_NAME} has not the name, method, epsilon and delta of {MANIFEST_NAME}."
        )
    raise Unsure(
        f"{STATEMENT_NAME} has the name, method, epsilon and delta of {MANIFEST_NAME}. Its other "
        f"words are not known here: they are by tracecloak {received.version}, as "
        f"{MANIFEST_NAME} says."
    )


def check_copies(received: Received) -> str:
    """The data files that carry the promise carry that of the manifest.

    Raises:
        Wrong: One does not, or cannot be read.
        NotApplicable: No file carries it.
    """
    n_read = 0
    steps = received.steps() if received.is_stream else ()
    for path in [*received.paths, *(path for _, forms in steps for path in forms.values())]:
        if path.endswith(".parquet"):
            _check_parquet(received, path)
        elif path.endswith((".xes", ".xes.gz")):
            _check_xes(received, path)
        else:
            continue
        n_read += 1
    if not n_read:
        raise NotApplicable("There is no Parquet or XES file, and no other form carries a promise.")
    return f"All {n_read:,} Parquet and XES files carry the promise of {MANIFEST_NAME}."


def check_method(received: Received) -> str:
    """The promise is the one that the method makes with the parameters of the manifest.

    Raises:
        Wrong: It is another promise.
        Unsure: This installation does not know the method as it was then.
        NotApplicable: It is a stream.
    """
    method, params = received.method_and_params()
    if not received.is_by_this_version:
        raise Unsure(
            f"The release is by tracecloak {received.version}, whose methods may promise otherwise."
        )
    guarantee, stated = method.guarantee(params), received.body["guarantee"]
    if stated.get("population") == "query result":
        from tracecloak.transforms.inputs.databases import query_result_guarantee

        guarantee = query_result_guarantee(guarantee)
    promised = guarantee.to_json()
    for name in ("kind", "unit", "adjacency", "epsilon", "delta", "claim", "reality", "sentence"):
        if promised[name] != stated[name]:
            raise Wrong(f"guarantee.{name} in {MANIFEST_NAME} is not what {method.name} promises.")
    if not set(promised["not_covered"]) <= set(stated["not_covered"]):
        raise Wrong(
            f"guarantee.not_covered in {MANIFEST_NAME} lacks what {method.name} does not cover."
        )
    spends = json.loads(json.dumps([part.to_json() for part in method.spends(params)]))
    if spends != received.body["spends"]:
        raise Wrong(f"The parts of the budget are not those of {method.name}.")
    if received.body.get("time_caveats", []) != list(method.time_caveats(params)):
        raise Wrong(f"time_caveats in {MANIFEST_NAME} are not those of {method.name}.")
    if received.body["verified"] != method.verifies:
        raise Wrong(f"verified in {MANIFEST_NAME} is not as {method.name} does it.")
    return f"The promise is what {method.name} promises with the parameters of {MANIFEST_NAME}."


def check_budget(received: Received) -> str:
    """The parts of the budget add up to the promise, and their noise is enough for each.

    Raises:
        Wrong: They do not add up to it, or the noise of one is too little.
        Unsure: There are so many parts that it would take minutes.
        NotApplicable: There is no finite epsilon, so there are no parts.
    """
    guarantee = received.body["guarantee"]
    if guarantee["epsilon"] is None or guarantee["kind"] == "syntactic":
        raise NotApplicable("No finite epsilon is promised, so there is none to account for.")
    if not received.body["spends"]:
        raise Wrong("An epsilon is promised, and no part of the budget is listed.")
    try:
        if len(json.dumps(received.body["spends"])) > _LONGEST_SPENDS:
            raise Unsure("The parts of the budget have too many numbers to add up.")
        parts = [Spend.from_json(part) for part in received.body["spends"]]
        if len(parts) > 1 and sum(map(_n_sums, parts)) > _MOST_SUMS:
            raise Unsure("The budget has too many parts to account for the noise of each.")
        is_enough = [is_accounted_for(part) for part in parts]
    except (UsageError, ValueError, TypeError, ArithmeticError):
        raise Wrong(
            "A part of the budget cannot be what it says: its numbers contradict each other."
        ) from None
    stated = tuple(Fraction(repr(float(guarantee[n] or 0))) for n in ("epsilon", "delta"))
    if total(parts) != stated:
        raise Wrong(
            "The parts of the budget do not add up to the epsilon and delta of the promise."
        )
    if False in is_enough:
        raise Wrong("The noise of a part of the budget is too little for its epsilon and delta.")
    n_open = is_enough.count(None)
    sufficient = "the noise of each is enough for its epsilon and delta"
    if n_open == len(is_enough):
        sufficient = "none of them lists the scale of its noise, so the noise is not checked"
    elif n_open:
        sufficient = (
            f"the noise is enough in {len(is_enough) - n_open:,} of {len(is_enough):,} (the others "
            "list no scale)"
        )
    return f"The parts of the budget add up to the promise, and {sufficient}."


def _n_sums(part: Spend) -> int:
    """About how many sums `is_accounted_for` computes of a part, in a millisecond each."""
    n = len({epsilon for _, epsilon in part.choices}) + sum(b.delta > 0 for b in part.blocks)
    return 16 + (1 << n if n <= _MOST_DOUBLINGS else 0)


def _may_have_error_bars(received: Received) -> set[bool]:
    """Whether the numbers have error bars; both if the method as it was then is not known here."""
    if received.is_stream:
        # A log of a step has none; counts of version 0.1.0 had none either.
        return {False} if received.body["params"].get("product") == "log" else {False, True}
    name = received.body["method"]
    if name not in METHODS or METHODS[name].version != received.body["method_version"]:
        return {False, True}
    return {METHODS[name].has_error_bars}


def _check_parquet(received: Received, path: str) -> None:
    with received.folder.reading(path) as stream:
        carried = (pq.read_metadata(stream).metadata or {}).get(_IN_PARQUET)
        stream.seek(-8, os.SEEK_END)  # of two values of a key, readers take either
        n_bytes = int.from_bytes(stream.read(4), "little")
        stream.seek(-8 - n_bytes, os.SEEK_END)
        key = bytes([len(_IN_PARQUET)]) + _IN_PARQUET
        if stream.read(n_bytes).count(key) > 1:
            raise Wrong("A footer of Parquet has a key of its metadata twice.")
    try:
        body = strict_json(carried or b"")
    except (Wrong, Unsure):
        body = None
    if not isinstance(body, dict) or not set(_SAID) <= set(body):
        raise Wrong(f"{quote_names([path])} carries no promise.")
    if not _is_part_of(body, received.body):
        raise Wrong(f"{quote_names([path])} carries another promise than {MANIFEST_NAME}.")


def _is_part_of(said: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    """Whether everything that is said is said in the manifest, too, which has more of the run."""
    return all(
        name in whole
        and (
            _is_part_of(value, whole[name])
            if name in _HAS_MORE and isinstance(value, dict)
            else json.dumps(value, sort_keys=True) == json.dumps(whole[name], sort_keys=True)
        )
        for name, value in said.items()
    )


def _check_xes(received: Received, path: str) -> None:
    from tracecloak.transforms.formats.xes_writer import XesWriter

    with received.folder.reading(path) as stream:
        values = log_attributes(stream, path.endswith(".gz"))
    own = io.BytesIO()
    XesWriter(own, about=received.body).close()
    own.seek(0)
    expected = log_attributes(own, is_gzipped=False)
    more = [key for key in values if key.startswith("tracecloak:") and key not in expected]
    if more and received.is_by_this_version:
        raise Wrong(f"{quote_names([path])} says more than {MANIFEST_NAME}: {quote_names(more)}.")
    for key, stated in expected.items():
        if values.get(key) != stated:
            raise Wrong(
                f"{quote_names([path])} says something else than {MANIFEST_NAME} under {key}."
            )


_PIECE_BYTES = 64 << 10
_LARGEST_HEAD = 16 << 20


class _Enough(Exception):  # noqa: N818 - the first trace, where the head ends
    pass


class BoundedXml:
    """Reads XML without a DOCTYPE, whose elements are not more than 500 within one another.

    Attributes:
        parser: It raises ValueError of anything else.
    """

    def __init__(self, start: Callable[[int, str, dict[str, str]], None] | None = None) -> None:
        """Takes what is called with the depth, name and attributes of each element."""
        self._depth = 0
        self._start = start
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._refuse

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        if self._start is not None:
            self._start(self._depth, name, attributes)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError("elements are too deep")

    def _end(self, _: str) -> None:
        self._depth -= 1

    def _refuse(self, *_: object) -> None:
        raise ValueError("a DOCTYPE")


def log_attributes(stream: BinaryIO, is_gzipped: bool) -> dict[str, str]:
    """Returns the values of the log's own attributes by key.

    Raises:
        expat.ExpatError: It is no XML.
        ValueError: It has a DOCTYPE, no log, a key twice, or a head of more than 16 MiB.
        OSError, EOFError: It is no gzip stream, or cannot be read.
    """
    source = cast(BinaryIO, gzip.GzipFile(fileobj=stream)) if is_gzipped else stream
    values: dict[str, str] = {}

    def start(depth: int, name: str, attributes: dict[str, str]) -> None:
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

    parser = BoundedXml(start).parser
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
