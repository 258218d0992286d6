"""A synthetic hospital: its cases, its log, its lake."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import sys
import tomllib
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tracecloak.schemas.arrays.hashing import mix
from tracecloak.schemas.errors import TracecloakError, UsageError, check_least
from tracecloak.schemas.events.events import CASE_ID, RELEASED_SCHEMA, TIMESTAMP, released_schema
from tracecloak.transforms.formats.registry import FORMATS, SourceFormat, unpacked

# --- A synthetic hospital log of any size, for demonstrations, tests and benchmarks. --------------
# `hospital_log` streams the pathways of invented patients from the emergency department through
# wards and intensive care to a discharge. It is a random walk over about eighty steps (an
# activity in a phase of the stay), shaped like the public hospital logs: more than a quarter of
# the cases take short, common paths, the others interleave and repeat tests and treatments, so
# that nearly all of their variants occur once.
#
# Case i is a pure function of i: the same whatever the number of cases and the size of the
# batches. The randomness is a counter-based hash with published constants. It is NOT a privacy
# mechanism: anyone can recompute every draw, and it must never be used for noise.
#
# Its process is in `hospital.toml`, whose figures are estimated from no real log.


_SPEC = tomllib.loads((resources.files(__package__) / "hospital.toml").read_text(encoding="utf-8"))
# What is public about the log, for methods that want it as a flag or a file.
END_ACTIVITIES: tuple[str, ...] = tuple(_SPEC["ends"])
ACTIVITIES: tuple[str, ...] = (*_SPEC["activities"], *END_ACTIVITIES)
MIN_EVENTS_PER_CASE = 3
MAX_EVENTS_PER_CASE = 120
FIRST_DAY = np.datetime64("2021-01-01", "D")  # the first day on which a case can start
START_DAYS = 3 * 365  # all cases start within this many days

WITH_PATIENTS = released_schema({"patient": pa.string()})

_PLANNED_PHASE = "ward"
_MINUTE = 60
_HOUR = 3600
_DAY = 86_400
_MORNING, _EVENING = 7 * _HOUR, 20 * _HOUR
_ROUTE_BITS = 12  # the route table has 2^12 columns per step and fits the second-level cache
_SAME_DRAW = 191  # of 256 blood tests that follow a blood test are of the same draw

# A constant of splitmix64 (Steele, Lea, Flood 2014), and what the hash is drawn for.
_GAMMA = 0x9E3779B97F4A7C15
_ROUTE, _TIME, _N_PURPOSES = 0, 1, 2


# By step: its activity as an index into ACTIVITIES; whether the case is over (`ends`), whether it
# is a blood test (`blood`), or waits for the morning (`planned`); the unit of its stamps in seconds
# (`resolution`); and the natural logarithm of the time before it in seconds, the median and the
# standard deviation (`sigma`).
_Steps = dict[str, np.ndarray]


def _weights(text: str) -> dict[str, float]:
    """Parses `name weight, name weight`."""
    words = (item.rsplit(maxsplit=1) for item in text.split(","))
    return {name.strip(): float(weight) for name, weight in words}


def _next_weights(step: str) -> dict[str, float]:
    """Returns the probabilities of the steps after `step`, empty after an end."""
    phase, activity = step.split("/")
    if activity in END_ACTIVITIES:
        return {}
    rules, phase_spec = _SPEC["rules"], _SPEC["phases"][phase]
    share, rule = rules.get(step, rules.get(activity, (0.0, "")))
    menu: dict[str, float] = {}
    for name in phase_spec["menus"]:
        menu |= _weights(_SPEC["menus"][name])
    menu.pop(activity, None)
    then = phase_spec.get("then", phase)
    weights: dict[str, float] = {}
    for part, choices in ((share, _weights(rule) if rule else {}), (1.0 - share, menu)):
        total = sum(choices.values())
        for name, weight in choices.items():
            target = name if "/" in name else f"{then}/{name}"
            weights[target] = weights.get(target, 0.0) + part * weight / (total or 1.0)
    return {target: weight for target, weight in weights.items() if weight > 0.0}


@cache
def _compile() -> tuple[np.ndarray, _Steps, int, int]:
    """Turns the phases, rules and gaps of the specification into tables.

    Returns:
        uint8[n_steps * 2^12], the next step by step and the top bits of a hash; what is known of
        each step; the one that every case begins with; and the one that closes a case at
        MAX_EVENTS_PER_CASE.
    """
    first, last = "arrival/Registration", "ward/Discharge to other hospital"
    follows: dict[str, dict[str, float]] = {}
    steps = [first, last]
    for step in steps:  # grows while it is walked: breadth first
        if step not in follows:
            follows[step] = _next_weights(step)
            steps.extend(follows[step])
    number = {step: i for i, step in enumerate(follows)}
    columns = (np.arange(1 << _ROUTE_BITS) + 0.5) / (1 << _ROUTE_BITS)
    route = np.zeros((len(number), columns.size), dtype=np.uint8)
    for step, weights in follows.items():
        if weights:
            targets = np.array([number[target] for target in weights], dtype=np.uint8)
            edges = np.cumsum(list(weights.values()))
            route[number[step]] = targets[np.searchsorted(edges[:-1], columns)]
    phases, activities = zip(*(step.split("/") for step in number), strict=True)
    phase_specs = [_SPEC["phases"][phase] for phase in phases]
    gaps = [
        _SPEC["gaps"].get(step, (spec["median"], spec["sigma"]))
        for step, spec in zip(number, phase_specs, strict=True)
    ]
    to_the_minute = (*_SPEC["to_the_minute"], *END_ACTIVITIES)
    known = {
        "activity": np.array([ACTIVITIES.index(name) for name in activities], dtype=np.int32),
        "ends": np.isin(activities, END_ACTIVITIES),
        "blood": np.isin(activities, _SPEC["blood"]),
        "planned": np.isin(activities, _SPEC["planned"]) & (np.array(phases) == _PLANNED_PHASE),
        "resolution": np.where(np.isin(activities, to_the_minute), _MINUTE, 1).astype(np.int64),
        "log_median": np.log([median * _MINUTE for median, _ in gaps]),
        "sigma": np.array([sigma for _, sigma in gaps], dtype=np.float64),
    }
    return route.ravel(), known, number[first], number[last]


def _draw(keys: npt.NDArray[np.uint64], step: int, purpose: int) -> npt.NDArray[np.uint64]:
    """Returns the hash of (case, step, purpose) for cases with these keys."""
    counter = (step * _N_PURPOSES + purpose + 1) * _GAMMA & 0xFFFFFFFFFFFFFFFF
    return mix(keys + np.uint64(counter))


def _uniform(draws: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Returns a float64 strictly between 0 and 1 from the upper 32 bits of each draw."""
    upper = (draws >> np.uint64(32)).astype(np.float64)
    return (upper + 0.5) * 2.0**-32


def _pick(
    weights: npt.NDArray[np.float64], uniform: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Returns for each uniform the index that it selects with probability as the weights."""
    edges = np.cumsum(weights)
    return np.searchsorted(edges[:-1] / edges[-1], uniform)


def _starts(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Returns when each case starts, in seconds since 1970: fewer at night and at weekends."""
    # Day 0 of 1970 was a Thursday, so Monday has remainder 4.
    days = FIRST_DAY.astype(np.int64) + np.arange(START_DAYS)
    day_weights = np.array(_SPEC["weekdays"])[(days - 4) % 7]
    day = days[_pick(day_weights, _uniform(_draw(keys, 0, _ROUTE)))]
    within = _draw(keys, 0, _TIME)
    hour = _pick(np.array(_SPEC["hours"]), _uniform(within))
    second = ((within & np.uint64(0xFFFFFFFF)) * np.uint64(_HOUR)) >> np.uint64(32)
    return day * _DAY + hour * _HOUR + second.astype(np.int64)


def _cases(first: int, n_cases: int) -> pa.RecordBatch:
    """Returns the cases numbered from `first`, walked in step: one numpy pass per event rank."""
    from scipy.special import ndtri  # the activities alone are known without it

    route, known, first_step, last_step = _compile()
    numbers = np.arange(first, first + n_cases)
    walking = np.arange(n_cases)
    keys = mix(numbers.astype(np.uint64) * np.uint64(_GAMMA))
    step = np.full(n_cases, first_step, dtype=np.uint8)
    now = _starts(keys)
    walked = [(walking, step, now)]
    for rank in range(1, MAX_EVENTS_PER_CASE):
        going = np.flatnonzero(~known["ends"][step])
        if going.size == 0:
            break
        walking, keys, before, now = walking[going], keys[going], step[going], now[going]
        if rank == MAX_EVENTS_PER_CASE - 1:
            step = np.full(going.size, last_step, dtype=np.uint8)
        else:
            column = _draw(keys, rank, _ROUTE) >> np.uint64(64 - _ROUTE_BITS)
            step = route[(before.astype(np.int64) << _ROUTE_BITS) + column.astype(np.int64)]
        draws = _draw(keys, rank, _TIME)
        gap = np.exp(known["log_median"][step] + known["sigma"][step] * ndtri(_uniform(draws)))
        same_draw = known["blood"][step] & known["blood"][before]
        same_draw &= (draws & np.uint64(0xFF)) < _SAME_DRAW
        gap[same_draw] = 0.0
        now = now + gap.astype(np.int64)
        time_of_day = now % _DAY
        night = known["planned"][step] & ((time_of_day < _MORNING) | (time_of_day >= _EVENING))
        in_round = ((draws >> np.uint64(8)) & np.uint64(0xFFF)).astype(np.int64)  # up to 68 minutes
        now += night * ((_MORNING - time_of_day) % _DAY + in_round)
        resolution = known["resolution"][step]
        now = -(-now // resolution) * resolution
        walked.append((walking, step, now))

    lengths = np.zeros(n_cases, dtype=np.int64)
    for walking, _, _ in walked:
        lengths[walking] += 1
    begins = np.cumsum(lengths) - lengths
    steps = np.empty(lengths.sum(), dtype=np.uint8)
    times = np.empty(lengths.sum(), dtype=np.int64)
    for rank, (walking, step, now) in enumerate(walked):
        steps[begins[walking] + rank] = step
        times[begins[walking] + rank] = now
    digits = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 7, "0")
    case_ids = pc.binary_join_element_wise("P", digits, "")
    names = pa.DictionaryArray.from_arrays(known["activity"][steps], list(ACTIVITIES))
    return pa.RecordBatch.from_arrays(
        [
            case_ids.take(pa.array(np.repeat(np.arange(n_cases), lengths))),
            names.cast(pa.string()),
            pa.array(times * 1_000_000).cast(pa.timestamp("us", "UTC")),
        ],
        schema=RELEASED_SCHEMA,
    )


def hospital_log(n_cases: int, batch_cases: int = 20_000) -> Iterator[pa.RecordBatch]:
    """Streams a synthetic hospital log of about 12 events a case.

    Every case begins with ACTIVITIES[0], ends with the only one of END_ACTIVITIES that it has, and
    has MIN_EVENTS_PER_CASE to MAX_EVENTS_PER_CASE events. 250,000 cases have 170,000
    variants, 2.5 million 1.57 million. Blood tests of one draw share their time stamp.

    Args:
        n_cases: How many cases; `hospital_log(n)` is the beginning of `hospital_log(m)` for n < m.
        batch_cases: Cases in a batch (the last one may have fewer). Bounds the memory, under 2 KB a
            case; the rows do not depend on it.

    Returns:
        An iterator over batches of RELEASED_SCHEMA: cases in the order of their numbers (`P0000001`
        first), the rows of a case contiguous and in the order of time. Without cases, none.

    Raises:
        UsageError: `n_cases` is negative or `batch_cases` is not positive.
    """
    check_least(0, n_cases=n_cases)
    check_least(1, batch_cases=batch_cases)
    return (
        _cases(first, min(batch_cases, n_cases + 1 - first))
        for first in range(1, n_cases + 1, batch_cases)
    )


def with_patients(rows: pa.RecordBatch, n_patients: int) -> pa.RecordBatch:
    """Adds to cases of `hospital_log` whose they are: a column `patient`, such as `N000042`.

    The patient of case i is a pure function of i and of `n_patients`. Each case is equally likely
    to be of any of them, so some patients have no case, and others several.

    Args:
        rows: A batch of `hospital_log`.
        n_patients: How many patients there are, at least 1.

    Returns:
        A batch of WITH_PATIENTS.
    """
    numbers = pc.utf8_slice_codeunits(rows.column(0), 1).cast(pa.uint64()).to_numpy()
    drawn = pa.array(mix(numbers * np.uint64(_GAMMA)) % np.uint64(n_patients))
    names = pc.binary_join_element_wise("N", pc.utf8_lpad(drawn.cast(pa.string()), 6, "0"), "")
    return pa.RecordBatch.from_arrays([*rows.columns, names], schema=WITH_PATIENTS)


def write_sample(n_cases: int, path: str, n_patients: int | None = None) -> None:
    """Streams a log of `n_cases` cases into a file; the same numbers give the same bytes.

    With `n_patients` there is a column `patient`, which says whose of so many people a case is.

    Raises:
        UsageError: The ending of the file's name tells no format that can be written, or none with
            that column; or a number is not positive.
    """
    name = SourceFormat().name_of(path)
    form = FORMATS[name]
    _, codec = unpacked(path)
    if form.is_packed and codec:
        raise UsageError(f"{name} is compressed inside; leave out the last ending in {path!r}")
    if form.writer is None:
        raise UsageError(f"{name} can be read only; end {path!r} otherwise")
    if n_patients is not None and (n_patients < 1 or name in ("avro", "jsonl")):
        raise UsageError("patients must be at least 1, in a file of csv, xes or parquet")
    with contextlib.ExitStack() as files:
        stream: Any = files.enter_context(Path(path).open("wb"))
        if codec == "gzip":  # without a time of writing in the header
            stream = files.enter_context(gzip.GzipFile("", "wb", 6, stream, mtime=0))
        elif codec:
            stream = files.enter_context(pa.CompressedOutputStream(stream, codec))
        schema = RELEASED_SCHEMA if n_patients is None else WITH_PATIENTS
        writer = form.open_writer(stream, schema)
        for rows in hospital_log(n_cases):
            writer.write(rows if n_patients is None else with_patients(rows, n_patients))
        writer.close()


def write_vocabulary(path: str) -> None:
    """Writes the activities that the log can have, one a line; they are public."""
    Path(path).write_text("\n".join([*sorted(ACTIVITIES), ""]), encoding="utf-8")


# --- A data lake of the synthetic hospital: a folder of Parquet files, one partition a day. -------
#     python -m tracecloak.examination.demo.hospital lake --first_day 2026-08-31 --days 91
#
# The command writes `lake/day=2026-08-31/part-0000.parquet` to `lake/day=2026-11-29/…`, with the
# columns case_id, activity and timestamp. An event is in the partition of its own day, in UTC, so
# a stay of a week is in several. The same flags write the same events. What has not happened at
# the end of the last day is in no file.


_DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1)
_WEEK = 7


def write_lake(folder: Path, first_day: date, n_days: int = 91, n_cases: int = 3000) -> list[Path]:
    """Writes a lake and returns its files by day; one that is there is replaced as a whole.

    Args:
        folder: Where the partitions go.
        first_day: The first day with events. Cases begin on it or later.
        n_days: Days with a partition.
        n_cases: Cases that begin within them; fewer where they are no whole number of weeks.

    Raises:
        UsageError: A number is not positive.
    """
    check_least(1, days=n_days, cases=n_cases)
    first = (first_day - _EPOCH).days
    table = pa.Table.from_batches(_moved(rows, first, n_days) for rows in hospital_log(n_cases))
    times_us = np.asarray(table.column(TIMESTAMP).cast(pa.int64()))
    order = np.argsort(times_us, kind="stable")  # tests of one draw of blood share their stamp
    table = table.take(pa.array(order))
    bounds = np.searchsorted(times_us[order], (first + np.arange(n_days + 1)) * _DAY_US).tolist()
    paths = []
    for number in range(n_days):
        path = folder / f"day={first_day + timedelta(number)}" / "part-0000.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"_{path.name}")  # which readers of a lake pass over
        pq.write_table(table.slice(bounds[number], bounds[number + 1] - bounds[number]), part)
        os.replace(part, path)
        paths.append(path)
    return paths


def _moved(batch: pa.RecordBatch, first: int, n_days: int) -> pa.RecordBatch:
    """Returns cases whose three years are folded into some weeks; each keeps its weekday."""
    case = np.asarray(batch.column(CASE_ID).dictionary_encode().indices)
    times_us = np.asarray(batch.column(TIMESTAMP).cast(pa.int64()))
    began = times_us[np.flatnonzero(np.diff(case, prepend=-1))] // _DAY_US  # days since 1970
    weeks = -(-n_days // _WEEK) * _WEEK
    origin = FIRST_DAY.astype(np.int64)
    place = (began - origin + (origin - first) % _WEEK) % weeks
    moved = times_us + ((first + place - began) * _DAY_US)[case]
    column = batch.schema.get_field_index(TIMESTAMP)
    stamps = pa.array(moved).cast(pa.timestamp("us", "UTC"))
    return batch.set_column(column, batch.schema.field(column), stamps)


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes a lake and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("folder", type=Path, help="where the partitions go")
    parser.add_argument(
        "--first_day", type=date.fromisoformat, required=True, help="the first day with events"
    )
    parser.add_argument("--days", type=int, default=91, help="how many days (default 91)")
    parser.add_argument("--cases", type=int, default=3000, help="how many cases (default 3000)")
    flags = parser.parse_args(arguments)
    try:
        write_lake(flags.folder, flags.first_day, flags.days, flags.cases)
    except TracecloakError as error:
        sys.stderr.write(f"lake: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
