"""Times as sources write them, as microseconds since 1970-01-01 UTC: text, numbers, typed columns.

What is no time is null; nothing is guessed. A time without an offset is one of a zone's wall clock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

UNITS_US: dict[str, float] = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1 / 1_000}
_INT64_MAX = np.iinfo(np.int64).max


def floor_to_us(values: pa.Array) -> pa.Array:
    """int64[n]: ticks of any unit as microseconds, rounded down; null where that overflows."""
    return from_numbers(values.cast(pa.int64()), UNITS_US[values.type.unit])


def from_numbers(values: pa.Array, factor: float) -> pa.Array:
    """int64[n]: numbers of a unit of so many microseconds as those; null where that overflows.

    Nanoseconds are rounded down, and fractions of other units to the nearest microsecond.
    """
    missing = np.asarray(pc.is_null(values, nan_is_null=True))
    raw = np.asarray(pc.fill_null(values, 0))
    with np.errstate(invalid="ignore", over="ignore"):
        missing |= ~(np.abs(raw.astype(np.float64)) < _INT64_MAX / factor)
        safe = np.where(missing, 0, raw)
        if factor < 1:
            us = safe // 1_000
        elif raw.dtype.kind != "f":
            us = safe.astype(np.int64) * int(factor)
        else:
            us = np.rint(safe.astype(float) * factor)
    return pa.array(us.astype(np.int64), mask=missing)


WHOLE = r"^\s*[+-]?\d+(?:\.0*)?\s*$"
DECIMAL = r"^\s*[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\s*$"


def from_number_text(text: pa.Array, factor: float) -> pa.Array:
    """int64[n]: numbers written as text as microseconds; null for what is no number."""
    trimmed = pc.utf8_ltrim(pc.utf8_trim_whitespace(text), "+")
    is_whole = pc.fill_null(pc.match_substring_regex(text, WHOLE), False)
    without_point = pc.replace_substring_regex(pc.if_else(is_whole, trimmed, None), r"\..*$", "")
    exact = from_numbers(cast_or_null(without_point, pa.int64()), factor)
    if pc.all(is_whole).as_py():
        return exact
    is_decimal = pc.fill_null(pc.match_substring_regex(text, DECIMAL), False)
    rounded = cast_or_null(pc.if_else(is_decimal, trimmed, None), pa.float64())
    return pc.coalesce(exact, from_numbers(rounded, factor))


ToUtc = Callable[[pa.Array], pa.Array]
"""Reads wall-clock times of a zone; see `LocalClock.to_utc`."""


# The abbreviations of zones that stand for one offset wherever they are written. Others do not:
# CST is of China, Cuba and North America, EST also of Australia, IST of India, Ireland and Israel.
_OFFSETS = {
    **dict.fromkeys(("UTC", "GMT", "UT", "WET"), "+00:00"),
    **dict.fromkeys(("CET", "MEZ", "WEST"), "+01:00"),
    **dict.fromkeys(("CEST", "MESZ", "EET"), "+02:00"),
    "EEST": "+03:00",
}
_DATE = r"\d{4}-\d{2}-\d{2}"
_CLOCK = r"[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?"
_NAIVE = rf"^{_DATE}(?:{_CLOCK})?$"
_ZONED = rf"^{_DATE}{_CLOCK}(?:Z|[+-]\d{{2}}(?::?\d{{2}})?)$"
_NAMED = rf"^{_DATE}{_CLOCK} (?:UTC|GMT)$"  # as BigQuery writes


def from_iso(text: pa.Array, to_utc: ToUtc) -> pa.Array:
    """int64[n]: ISO 8601 with a whole date, `-` or `/` in it, as microseconds; null for others.

    Texts of one width mostly have one shape, which is then looked at once for all of them.
    """
    width = np.asarray(pc.fill_null(pc.binary_length(text), 0))
    if len(width) == 0 or width.min() == width.max():
        stamped, local = _parse_one_width(text)
    else:
        order = np.argsort(width, kind="stable")
        ends = np.flatnonzero(np.diff(width[order], append=-1)) + 1
        if len(ends) > _WIDTHS:
            stamped, local = _parse_any_shape(text)
        else:
            ordered = text.take(pa.array(order))
            parts = [
                _parse_one_width(ordered.slice(start, end - start))
                for start, end in zip([0, *ends], ends, strict=False)
            ]
            places = np.empty_like(order)
            places[order] = np.arange(len(order))
            stamped, local = (
                pa.concat_arrays([part[i] for part in parts]).take(pa.array(places)) for i in (0, 1)
            )
    if local.null_count == len(local):
        return stamped
    return pc.coalesce(stamped, to_utc(local))


def _parse_one_width(text: pa.Array) -> tuple[pa.Array, pa.Array]:
    """As `_parse_any_shape`, which it asks where the texts, all of one width, differ in shape."""
    shape = _shape(text)
    for pattern in (_ZONED, _NAIVE, _NAMED):
        if shape is not None and re.fullmatch(pattern, shape, re.ASCII):
            written = pc.utf8_slice_codeunits(text, 0, -4) if pattern is _NAMED else text
            kind = pa.timestamp("us", "UTC" if pattern is _ZONED else None)
            try:
                us = written.cast(kind).cast(pa.int64())
            except pa.ArrowInvalid:  # such as a month 13
                break
            none = pa.nulls(len(us), pa.int64())
            return (none, us) if pattern is _NAIVE else (us, none)
    return _parse_any_shape(text)


def _parse_any_shape(text: pa.Array) -> tuple[pa.Array, pa.Array]:
    """(microseconds UTC, wall-clock microseconds) of each text, int64[n]: one of them, or none."""
    text = pc.utf8_trim_whitespace(text)
    if pc.any(pc.match_substring(text, "/")).as_py():
        text = pc.replace_substring_regex(text, r"^(\d{4})/(\d{2})/(\d{2})", r"\1-\2-\3")
    # Finer than a microsecond is cut off: the pipeline's unit is the microsecond.
    text = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")
    text = _with_offsets(text, " ")
    zoned = pc.fill_null(pc.match_substring_regex(text, _ZONED), False)
    stamped = cast_or_null(pc.if_else(zoned, text, None), pa.timestamp("us", "UTC"))
    naive = pc.fill_null(pc.match_substring_regex(text, _NAIVE), False)
    local = cast_or_null(pc.if_else(naive, text, None), pa.timestamp("us"))
    return stamped.cast(pa.int64()), local.cast(pa.int64())


def _with_offsets(text: pa.Array, before: str = "") -> pa.Array:
    """Returns texts with an offset for each abbreviation of a zone and what must stand before it.

    The abbreviations are those that stand for one offset alone.
    """
    if not pc.any(pc.match_substring_regex(text, rf"\b(?:{'|'.join(_OFFSETS)})\b")).as_py():
        return text
    for name, offset in _OFFSETS.items():
        text = pc.replace_substring_regex(text, rf"{before}\b{name}\b", offset)
    return text


def _shape(text: pa.Array) -> str | None:
    """Returns what texts of one width are alike but for their digits, with 0 for each digit.

    None: they differ in other bytes too, one is missing, or there is none.
    """
    n = len(text)
    if not n or text.null_count:
        return None
    ends = np.frombuffer(text.buffers()[1], np.int32)[text.offset : text.offset + n + 1]
    bytes_ = np.frombuffer(text.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]].reshape(n, -1)
    # Where the smallest and the largest byte of a place are digits, all between them are.
    least, most = (ends.tobytes().translate(_ZEROS) for ends in (bytes_.min(0), bytes_.max(0)))
    return least.decode("latin-1") if least == most else None


_ZEROS = bytes.maketrans(b"123456789", b"000000000")
# Texts that differ in more widths than this are no times that one program has written.
_WIDTHS = 12


# Each pattern is of a text that names a year, a month, a day or an hour alone; what stands beside
# it turns the text into ISO 8601.
_PERIODS = (
    (r"^(\d{4})(\d{2})(\d{2})$", r"\1-\2-\3"),
    (r"^(\d{4})$", r"\1-01"),
    (r"^(\d{4}-\d{2})$", r"\1-01"),
    (rf"^({_DATE})[-T ](\d{{2}})(Z?)$", r"\1T\2:00\3"),
)


def from_period(text: pa.Array, to_utc: ToUtc) -> pa.Array:
    """int64[n]: when what is named begins: 2026, 2026-11, 20261101, 2026-11-01-13, or ISO 8601."""
    text = pc.utf8_trim_whitespace(text)
    for pattern, written in _PERIODS:
        text = pc.replace_substring_regex(text, pattern, written)
    return from_iso(text, to_utc)


def from_format(text: pa.Array, layouts: str | Sequence[str], to_utc: ToUtc) -> pa.Array:
    """int64[n]: text of `strptime` formats as microseconds; null for other text.

    Each text is read by the first format that fits it. Numbers without anything between them, as
    in `%Y%m%d`, need all their digits. But a text that ends in a time of day such as `%H%M%S` by
    itself may lack zeros there, as it does where it was a number: `93005` is half past nine.
    Seconds have up to six digits after their point, and further ones are cut off. `%Z` is an
    abbreviation that stands for one offset alone.
    """
    zoned = local = pa.nulls(len(text), pa.int64())
    for layout in [layouts] if isinstance(layouts, str) else layouts:
        stamped, naive = _parse_layout(text, layout)
        zoned, local = pc.coalesce(zoned, stamped), pc.coalesce(local, naive)
        text = pc.if_else(pc.is_null(pc.coalesce(stamped, naive)), text, None)
    return pc.coalesce(zoned, to_utc(local))


def _parse_layout(text: pa.Array, layout: str) -> tuple[pa.Array, pa.Array]:
    """(microseconds UTC, wall-clock microseconds) of each text, int64[n]: one of them, or none."""
    local = pa.nulls(len(text), pa.int64())
    if clock := re.search(r"(?:^|\s)(%H%M(?:%S)?)$", layout):
        n_digits = len(clock[1])
        for n in range(1, n_digits):
            zeros = "0" * (n_digits - n)
            text = pc.replace_substring_regex(text, rf"(^|\s)(\d{{{n}}})$", rf"\1{zeros}\2")
    if "%Z" in layout:
        text, layout = _with_offsets(text), layout.replace("%Z", "%z")
    if point := re.search(r"[^\w\s]%f", layout):
        text = pc.replace_substring_regex(text, rf"(\{point[0][0]}\d{{6}})\d+", r"\1")
    if re.search(r"%(f|z)", layout) is None:  # Arrow's strptime knows no fractions, no offsets
        parsed = pc.strptime(text, format=layout, unit="s", error_is_null=True)
        # It carries 30 February into March: what it writes differently is left to Python's.
        try:
            exact = pc.fill_null(pc.equal(pc.strftime(parsed, format=layout), text), False)
        except pa.ArrowInvalid:  # it looks for UTC in zone files, and there are none
            exact = pa.array(np.zeros(len(text), bool))
        local = pc.if_else(exact, parsed.cast(pa.timestamp("us")).cast(pa.int64()), None)
        text = pc.if_else(exact, None, text)
    encoded = text.dictionary_encode()
    fits = _digits(layout).fullmatch
    read = [
        _strptime_us(value, layout) if fits(value) else (None, None)
        for value in encoded.dictionary.to_pylist()
    ]
    zoned, naive = (
        pa.array([stamp[i] for stamp in read], pa.int64()).take(encoded.indices) for i in (0, 1)
    )
    return zoned, pc.coalesce(local, naive)


def _digits(layout: str) -> re.Pattern[str]:
    """Returns a pattern of texts whose adjoining numbers have all their digits."""
    pieces = re.split(r"((?:%[YymdjHIMSf]){2,})", layout)
    for i in range(1, len(pieces), 2):
        each = re.findall("%.", pieces[i])
        n_digits = sum({"%Y": 4, "%j": 3, "%f": 6}.get(number, 2) for number in each)
        pieces[i] = rf"\d{{{n_digits - 5 * ('%f' in each)},{n_digits}}}"
    pieces[::2] = [".*" if piece else "" for piece in pieces[::2]]
    return re.compile("".join(pieces), re.ASCII | re.DOTALL)


def _strptime_us(value: str, layout: str) -> tuple[int | None, int | None]:
    """(microseconds UTC, wall-clock microseconds) of one stamp: one of them, or neither."""
    try:
        stamp = datetime.strptime(value, layout)
        is_zoned = stamp.tzinfo is not None
        since = (stamp if is_zoned else stamp.replace(tzinfo=UTC)) - datetime(
            1970, 1, 1, tzinfo=UTC
        )
    except (ValueError, OverflowError):
        return None, None
    us = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return (us, None) if is_zoned else (None, us)


def cast_or_null(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Casts what can be cast; halves the array around each value that cannot, and nulls it."""
    try:
        return values.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        n = len(values)
        if n == 1:
            return pa.nulls(1, target)
        halves = (values.slice(0, n // 2), values.slice(n // 2))
        return pa.concat_arrays([cast_or_null(half, target) for half in halves])
