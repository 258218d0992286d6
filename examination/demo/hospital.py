"""A synthetic hospital log of any size, for demonstrations, tests and benchmarks.

`hospital_log` streams the pathways of invented patients from the emergency department through wards
and intensive care to a discharge. It is a random walk over about eighty steps (an activity in a
phase of the stay), shaped like the public hospital logs: more than a quarter of the cases take
short, common paths, the others interleave and repeat tests and treatments, so that nearly all of
their variants occur once.

Case i is a pure function of i: the same whatever the number of cases and the size of the batches.
The randomness is a counter-based hash with published constants. It is NOT a privacy mechanism:
anyone can recompute every draw, and it must never be used for noise.

The module reads no data and writes no files, and its figures are estimated from no real log.

Writes the synthetic hospital log to a file of any format that has a writer.
"""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import RELEASED_SCHEMA, released_schema
from tracecloak.transforms.formats.registry import FORMATS, SourceFormat, unpacked

# What is public about the log, for methods that want it as a flag or a file. Exactly one of
# END_ACTIVITIES occurs in a case, as its last event; the first event is ACTIVITIES[0].
END_ACTIVITIES = (
    "Discharge home",
    "Discharge to general practitioner",
    "Discharge to nursing home",
    "Discharge to other hospital",
    "Death",
)
ACTIVITIES = (
    *("Registration", "Triage", "Nurse examination", "Physician examination"),
    *("Leucocytes", "CRP", "Lactic acid", "Blood culture", "Urine test", "X-ray", "CT scan"),
    *("IV liquid", "IV antibiotics", "Specialist consult", "Admission", "Ward move"),
    *("Intensive care", "Surgery", "Medication round", "Temporary leave", "Return to emergency"),
    *END_ACTIVITIES,
)
MIN_EVENTS_PER_CASE = 3
MAX_EVENTS_PER_CASE = 120
FIRST_DAY = np.datetime64("2021-01-01", "D")  # the first day on which a case can start
START_DAYS = 3 * 365  # all cases start within this many days

WITH_PATIENTS = released_schema({"patient": pa.string()})

_BLOOD = ("Leucocytes", "CRP", "Lactic acid", "Blood culture")


@dataclass(frozen=True)
class _Phase:
    """A part of the stay.

    Attributes:
        menu: Weights of what comes next, for every activity that has no rule of its own; an
            activity does not follow itself by the menu.
        median: Median time before an event of this phase, in minutes.
        sigma: Standard deviation of the logarithm of that time.
        then: Phase of the names without one in what comes next, empty for this phase.
    """

    menu: Mapping[str, float]
    median: float
    sigma: float
    then: str = ""


def _weights(text: str) -> dict[str, float]:
    """Parses `name weight, name weight`."""
    words = (item.rsplit(maxsplit=1) for item in text.split(","))
    return {name.strip(): float(weight) for name, weight in words}


_TESTS = _weights(
    "Nurse examination 5, Leucocytes 12, CRP 12, Lactic acid 9, Blood culture 5, Urine test 6,"
    "X-ray 8, CT scan 4, IV liquid 10, IV antibiotics 8, Specialist consult 4"
)
_EMERGENCY = _weights(
    "Physician examination 22, ward/Admission 10, icu/Intensive care 0.4, Death 0.1"
)
_WARD = _weights(
    "Leucocytes 12, CRP 14, Lactic acid 4, Urine test 2, Medication round 16, X-ray 4, CT scan 2,"
    "Specialist consult 5, IV liquid 3, IV antibiotics 5, Ward move 4, Surgery 1.5,"
    "icu/Intensive care 0.5, Temporary leave 1.2, Discharge home 23, Discharge to nursing home 6,"
    "Discharge to other hospital 0.8, Death 0.5"
)
_INTENSIVE = _weights(
    "Leucocytes 12, CRP 10, Lactic acid 16, Blood culture 4, Medication round 16, IV liquid 10,"
    "IV antibiotics 6, X-ray 5, CT scan 2, Specialist consult 3, ward/Ward move 8, Death 1"
)

# The emergency department does three tests or treatments at least ("first", "second", "er") before
# it decides where the patient goes.
_PHASES = {
    "arrival": _Phase(_TESTS, 16, 0.8, then="first"),
    "first": _Phase(_TESTS, 14, 0.9, then="second"),
    "second": _Phase(_TESTS, 14, 0.9, then="er"),
    "er": _Phase(_TESTS | _EMERGENCY, 14, 0.9),
    "fast": _Phase(_weights("Physician examination 3, Discharge home 2"), 25, 0.7),
    "ward": _Phase(_WARD, 560, 0.8),
    "icu": _Phase(_INTENSIVE, 150, 0.7),
}

# What follows a step, or an activity in any phase, with the given probability; the rest of the
# probability is the phase's menu.
_RULES = {
    "arrival/Registration": (
        1.0,
        "fast/Triage 28, arrival/Triage 66, arrival/Physician examination 6",
    ),
    "arrival/Triage": (0.8, "arrival/Physician examination 5, arrival/Nurse examination 3"),
    "arrival/Nurse examination": (0.5, "arrival/Physician examination 1"),
    "fast/Triage": (
        1.0,
        "Discharge to general practitioner 18, Nurse examination 30, Physician examination 52",
    ),
    "fast/Physician examination": (
        1.0,
        "Discharge home 55, X-ray 25, Urine test 12, Discharge to general practitioner 8",
    ),
    "Leucocytes": (0.5, "CRP 1"),
    "CRP": (0.25, "Lactic acid 3, IV liquid 1"),
    "Lactic acid": (0.2, "Lactic acid 1, IV liquid 3"),
    "Blood culture": (0.6, "IV antibiotics 1"),
    "CT scan": (0.5, "Specialist consult 1"),
    "IV liquid": (0.35, "IV antibiotics 1"),
    "er/X-ray": (0.4, "Physician examination 1"),
    "er/Physician examination": (
        0.65,
        "ward/Admission 11, ward/Surgery 1, Discharge home 6, Discharge to general practitioner 2",
    ),
    "er/Specialist consult": (0.4, "ward/Admission 3, ward/Surgery 1"),
    "er/Return to emergency": (0.5, "Physician examination 1"),
    "ward/Admission": (0.4, "Leucocytes 3, Medication round 2"),
    "ward/Medication round": (0.2, "Medication round 1"),
    "ward/Surgery": (0.5, "icu/Intensive care 1, Ward move 3"),
    "ward/Temporary leave": (1.0, "er/Return to emergency 6, Discharge home 4"),
}

# (median minutes, sigma) of the time before a step that differs from its phase's.
_GAPS = {
    "arrival/Triage": (6, 0.6),
    "fast/Triage": (9, 0.6),
    "er/Physician examination": (25, 0.9),
    "fast/Physician examination": (40, 0.8),
    "er/CT scan": (55, 0.7),
    "ward/Admission": (70, 0.8),
    "ward/Surgery": (1500, 1.0),
    "ward/Discharge home": (900, 0.9),
    "ward/Discharge to nursing home": (2600, 0.9),
    "er/Return to emergency": (14_000, 0.8),
}

# Planned steps wait for the next morning when they would fall into the night.
_PLANNED_PHASE = "ward"
_PLANNED = ("Specialist consult", "Ward move", "Surgery", "Temporary leave", *END_ACTIVITIES[:4])
# People enter these, to the minute; the laboratory's and the devices' stamps have seconds.
_TO_THE_MINUTE = ("Admission", "Ward move", "Surgery", "Temporary leave", *END_ACTIVITIES)

_WEEKDAY_WEIGHTS = (1.15, 1.05, 1.0, 1.0, 1.05, 0.8, 0.75)  # Monday first
_HOUR_WEIGHTS = (
    *(0.45, 0.38, 0.32, 0.3, 0.3, 0.35, 0.5, 0.75, 1.1, 1.45, 1.6, 1.6),
    *(1.5, 1.45, 1.45, 1.4, 1.35, 1.3, 1.25, 1.15, 1.0, 0.85, 0.7, 0.55),
)

_MINUTE = 60
_HOUR = 3600
_DAY = 86_400
_MORNING, _EVENING = 7 * _HOUR, 20 * _HOUR
_ROUTE_BITS = 12  # the route table has 2^12 columns per step and fits the second-level cache
_SAME_DRAW = 191  # of 256 blood tests that follow a blood test are of the same draw

# Constants of splitmix64 (Steele, Lea, Flood 2014), and what the hash is drawn for.
_GAMMA = 0x9E3779B97F4A7C15
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ROUTE, _TIME, _N_PURPOSES = 0, 1, 2


@dataclass(frozen=True)
class _Process:
    """The random walk as tables indexed by step.

    Attributes:
        route: uint8[n_steps * 2^12], the next step by step and the top bits of a hash.
        activity: int32[n_steps], index into ACTIVITIES.
        ends: bool[n_steps], whether the case is over.
        blood: bool[n_steps], whether it is a blood test.
        planned: bool[n_steps], whether it waits for the morning.
        resolution: int64[n_steps], unit of its stamps in seconds.
        log_median: float64[n_steps], natural logarithm of the median time before it, in seconds.
        sigma: float64[n_steps], standard deviation of that logarithm.
        first: The step that every case begins with.
        last: The step that closes a case at MAX_EVENTS_PER_CASE.
    """

    route: npt.NDArray[np.uint8]
    activity: npt.NDArray[np.int32]
    ends: npt.NDArray[np.bool_]
    blood: npt.NDArray[np.bool_]
    planned: npt.NDArray[np.bool_]
    resolution: npt.NDArray[np.int64]
    log_median: npt.NDArray[np.float64]
    sigma: npt.NDArray[np.float64]
    first: int
    last: int


def _next_weights(step: str) -> dict[str, float]:
    """Returns the probabilities of the steps after `step`, empty after an end."""
    phase, activity = step.split("/")
    if activity in END_ACTIVITIES:
        return {}
    share, rule = _RULES.get(step, _RULES.get(activity, (0.0, "")))
    menu = {name: weight for name, weight in _PHASES[phase].menu.items() if name != activity}
    then = _PHASES[phase].then or phase
    weights: dict[str, float] = {}
    for part, choices in ((share, _weights(rule) if rule else {}), (1.0 - share, menu)):
        total = sum(choices.values())
        for name, weight in choices.items():
            target = name if "/" in name else f"{then}/{name}"
            weights[target] = weights.get(target, 0.0) + part * weight / (total or 1.0)
    return {target: weight for target, weight in weights.items() if weight > 0.0}


def _compile() -> _Process:
    """Turns the phases, rules and gaps above into tables."""
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
    gaps = [
        _GAPS.get(step, (_PHASES[phase].median, _PHASES[phase].sigma))
        for step, phase in zip(number, phases, strict=True)
    ]
    return _Process(
        route=route.ravel(),
        activity=np.array([ACTIVITIES.index(name) for name in activities], dtype=np.int32),
        ends=np.isin(activities, END_ACTIVITIES),
        blood=np.isin(activities, _BLOOD),
        planned=np.isin(activities, _PLANNED) & (np.array(phases) == _PLANNED_PHASE),
        resolution=np.where(np.isin(activities, _TO_THE_MINUTE), _MINUTE, 1).astype(np.int64),
        log_median=np.log([median * _MINUTE for median, _ in gaps]),
        sigma=np.array([sigma for _, sigma in gaps], dtype=np.float64),
        first=number[first],
        last=number[last],
    )


def _mix(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Finalises splitmix64: a public bijection of 64 bits whose output looks random."""
    state = (state ^ (state >> np.uint64(30))) * _MIX_1
    state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return state ^ (state >> np.uint64(31))


def _draw(keys: npt.NDArray[np.uint64], step: int, purpose: int) -> npt.NDArray[np.uint64]:
    """Returns the hash of (case, step, purpose) for cases with these keys."""
    counter = (step * _N_PURPOSES + purpose + 1) * _GAMMA & 0xFFFFFFFFFFFFFFFF
    return _mix(keys + np.uint64(counter))


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
    day_weights = np.array(_WEEKDAY_WEIGHTS)[(days - 4) % 7]
    day = days[_pick(day_weights, _uniform(_draw(keys, 0, _ROUTE)))]
    within = _draw(keys, 0, _TIME)
    hour = _pick(np.array(_HOUR_WEIGHTS), _uniform(within))
    second = ((within & np.uint64(0xFFFFFFFF)) * np.uint64(_HOUR)) >> np.uint64(32)
    return day * _DAY + hour * _HOUR + second.astype(np.int64)


def _arrive(
    process: _Process,
    step: npt.NDArray[np.uint8],
    before: npt.NDArray[np.uint8],
    now: npt.NDArray[np.int64],
    draws: npt.NDArray[np.uint64],
) -> npt.NDArray[np.int64]:
    """Returns when `step` happens in cases whose latest event was `before` at `now`."""
    from scipy.special import ndtri  # the activities alone are known without it

    gap = np.exp(process.log_median[step] + process.sigma[step] * ndtri(_uniform(draws)))
    same_draw = process.blood[step] & process.blood[before]
    same_draw &= (draws & np.uint64(0xFF)) < _SAME_DRAW
    gap[same_draw] = 0.0
    now = now + gap.astype(np.int64)
    of_day = now % _DAY
    night = process.planned[step] & ((of_day < _MORNING) | (of_day >= _EVENING))
    in_round = ((draws >> np.uint64(8)) & np.uint64(0xFFF)).astype(np.int64)  # up to 68 minutes
    now += night * ((_MORNING - of_day) % _DAY + in_round)
    resolution = process.resolution[step]
    return -(-now // resolution) * resolution


def _cases(process: _Process, first: int, n_cases: int) -> pa.RecordBatch:
    """Returns the cases numbered from `first`, walked in step: one numpy pass per event rank."""
    numbers = np.arange(first, first + n_cases)
    walking = np.arange(n_cases)
    keys = _mix(numbers.astype(np.uint64) * np.uint64(_GAMMA))
    step = np.full(n_cases, process.first, dtype=np.uint8)
    now = _starts(keys)
    walked = [(walking, step, now)]
    for rank in range(1, MAX_EVENTS_PER_CASE):
        going = np.flatnonzero(~process.ends[step])
        if going.size == 0:
            break
        walking, keys, before, now = walking[going], keys[going], step[going], now[going]
        if rank == MAX_EVENTS_PER_CASE - 1:
            step = np.full(going.size, process.last, dtype=np.uint8)
        else:
            column = _draw(keys, rank, _ROUTE) >> np.uint64(64 - _ROUTE_BITS)
            step = process.route[(before.astype(np.int64) << _ROUTE_BITS) + column.astype(np.int64)]
        now = _arrive(process, step, before, now, _draw(keys, rank, _TIME))
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
    names = pa.DictionaryArray.from_arrays(process.activity[steps], list(ACTIVITIES))
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
    if n_cases < 0:
        raise UsageError(f"the number of cases must be at least 0, got {n_cases}")
    if batch_cases < 1:
        raise UsageError(f"the cases in a batch must be at least 1, got {batch_cases}")
    process = _compile()
    return (
        _cases(process, first, min(batch_cases, n_cases + 1 - first))
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
    drawn = pa.array(_mix(numbers * np.uint64(_GAMMA)) % np.uint64(n_patients))
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
