"""Every rigorous method and stream, through all its rounds, on neighbours that come out alike.

A log or a stream and the same with one unit more are released, from the files that are read to the
files that are written, with every noisy sum and every choice forced to be equal; what must hold
then is in `tests.support.both_neighbours`. What is registered is under test without a line here.
By night all methods, parameters and kinds of units; by day some of them. Nothing is statistical:
each control is caught on the first pair that shows it.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.golden.releases import HEADER, files_under, run_example
from tests.support.both_neighbours import Claim, Compared, First, Forced, compared, drawn_by
from tests.support.coupled_noise import Coupled
from tests.support.examples import examples_of, options
from tests.support.local_streams import run_script
from tests.support.releasing import fix_key
from tests.support.stream_runs import Sent, files_of, in_time, random_messages, stream_config
from tests.support.tiers import at_night
from tracecloak.anonymizers.accounting import composed
from tracecloak.anonymizers.accounting.account_caps import Loss, loss_of
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity
from tracecloak.anonymizers.graphs import graph_kinds
from tracecloak.anonymizers.logs.params import GENERATORS
from tracecloak.anonymizers.noise.samplers import CellStream, draw_laplace
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.rigorous.budget import Allowance
from tracecloak.anonymizers.streams.continual import ContinualNoise
from tracecloak.anonymizers.streams.steps import STREAM_PRODUCTS, StepDecider, StreamState
from tracecloak.anonymizers.times import time_range
from tracecloak.anonymizers.times.time_range import (
    N_MONTHS,
    CaseMonths,
    TimeRange,
    TimeRangeDecision,
)
from tracecloak.anonymizers.variants import method
from tracecloak.anonymizers.variants.method import (
    VariantHistogramMethod,
    VariantHistogramParams,
)
from tracecloak.schemas.calendar.working_time import WorkingTime
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.clipped_flows import ClippedCells

DAY_S = 86_400
FIRST_S = 1_577_836_800  # 2020-01-01
YEAR = range(366)
# Of each seed the others are another log, and the noise is another.
SEEDS = (1, 2)
# Of methods, places among their parameters; and kinds of units.
BY_DAY = {("variant-histogram", 0), ("private-dfg", 2)}
KINDS_BY_DAY = ("usual", "of nobody else's variant")


@dataclass(frozen=True)
class Case:
    """A case.

    Attributes:
        activities: A letter each.
        start_s: Of its first event, seconds since 1970 UTC.
        gap_s: Between two events, in seconds.
        resource: Of all its events.
        age: Of the case.
        stamps: Whether its stamps can be read.
    """

    activities: str
    start_s: int = FIRST_S + 100 * DAY_S
    gap_s: int = 3_600
    resource: str = "R1"
    age: int = 30
    stamps: bool = True


USUAL = Case("ABC")
# What a unit's cases may be like, as far as a release could tell.
KINDS: Mapping[str, Case] = {
    "usual": USUAL,
    "of nobody else's variant": Case("CCB"),
    "longest": Case("A" * 40, gap_s=60),
    "of activities that nobody else has": Case("XYZ", resource="R2"),
    "with no activity that is declared": Case("Q"),
    "long before all others": replace(USUAL, start_s=FIRST_S - 40 * 365 * DAY_S),
    "long after all others": replace(USUAL, start_s=FIRST_S + 40 * 365 * DAY_S),
    "of many years": Case("ABC", FIRST_S, 60 * DAY_S),
    "of loops": Case("ABABABABABABAB", gap_s=86_400),
    "of one stamp": Case("ABCABC", gap_s=0),
    "of odd stamps": replace(USUAL, start_s=FIRST_S + 12_345_678, gap_s=7_919),
    "of values that nobody declared": replace(USUAL, resource="R9", age=250),
    "that cannot be read": replace(USUAL, stamps=False),
}


def others(seed: int) -> list[tuple[str, str, Case]]:
    """Cases of others by person and id: one variant of most of them, and some of a few."""
    draw = random.Random(f"others {seed}")
    variants = ["ABC"] * 6 + ["AB", "ABBC", "AC", "CBA", "BB"]
    return [
        (
            f"p{number // 3}",
            f"o{number}",
            Case(
                draw.choice(variants),
                FIRST_S + draw.choice(YEAR) * DAY_S + draw.randrange(DAY_S),
                draw.choice((60, 3_600, 2 * DAY_S)),
                draw.choice(("R1", "R2")),
                draw.randrange(100),
            ),
        )
        for number in range(60 * seed)
    ]


def write_log(
    path: Path, cases: Iterable[tuple[str, str, Case]], *, has_starts: bool = False
) -> Path:
    """Writes a log in the columns of `golden.releases`, each event begun at the hour before it."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow((*HEADER, "begun") if has_starts else HEADER)
        for person, name, case in cases:
            for place, activity in enumerate(case.activities):
                at = np.datetime64(case.start_s + place * case.gap_s, "s")
                stamp = f"{at}+00:00" if case.stamps else "soon"
                row = [name, activity, stamp, person, case.resource, case.age, "A", case.age]
                begun = f"{at.astype('datetime64[h]')}:00:00+00:00"
                writer.writerow([*row, begun] if has_starts else row)
    return path


# --- the parameters -------------------------------------------------------------------------------


def _given(name: str, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The parameters if they are some of a rigorous release."""
    method = METHODS[name]
    try:
        params = method.Params(**given)
        method.spends(params)
        is_rigorous = method.guarantee(params).kind == "rigorous"
    except (ValueError, UsageError):
        return None
    return given if is_rigorous else None


@lru_cache
def parameters(name: str) -> tuple[Mapping[str, Any], ...]:
    """The rigorous examples of a method, then with every switch turned and for individuals."""
    method = METHODS[name]
    examples = [e for e in examples_of(method) if _given(name, e) is not None]
    changes: list[Mapping[str, Any]] = [
        {field: value}
        for field, info in method.Params.model_fields.items()
        if field != "allow_large_delta"  # it lets others be given, and does nothing itself
        for value in dict.fromkeys(options(info.annotation))
    ]
    if "max_cases_per_individual" in method.Params.model_fields:
        changes += [{"max_cases_per_individual": 1}, {"max_cases_per_individual": 3}]
    if name == "private-indicators":  # of which the bins alone have the noise
        changes.append({"indicators": ("throughput of=histogram n_bins=4 at_most=30d",)})
    if name == "private-log":
        changes += [{"variants": generator} for generator in GENERATORS]
    found: list[Mapping[str, Any]] = list(examples)
    for change in changes:
        # Of each, the first example that it does something to.
        made = (
            given
            for e in examples
            if any(e.get(key) != value for key, value in change.items())
            and (given := _given(name, {**e, **change})) is not None
            and _params_of(name, given) != _params_of(name, e)
        )
        found += list(itertools.islice(made, 1))
    return tuple(found)


def _params_of(name: str, given: Mapping[str, Any]) -> Any:
    return METHODS[name].Params(**given).model_dump()


def units(m: int | None) -> dict[str, list[Case]]:
    """The cases of the one unit, by what it is like."""
    if m is None:
        return {kind: [case] for kind, case in KINDS.items()}
    found = {f"{m} cases {kind}": [case] * m for kind, case in KINDS.items()}
    found["a case of each kind"] = list(KINDS.values())
    found["more cases than count"] = [USUAL] * (m + 3)
    return found


# --- releases -------------------------------------------------------------------------------------


def release_of(
    name: str,
    given: Mapping[str, Any],
    seed: int,
    unit: Sequence[Case],
    folder: Path,
    called: str = "golden",
) -> Callable[[Forced], Mapping[str, bytes]]:
    """Returns what releases the others and the unit with some noise, and gives all files."""

    def made(noise: Forced) -> Mapping[str, bytes]:
        own = Path(folder, str(len(list(folder.iterdir()))))
        own.mkdir()
        cases = [*others(seed), *(("k", f"k{i}", case) for i, case in enumerate(unit))]
        has_starts = bool(given.get("service_times"))
        log = write_log(own / "log.csv", cases, has_starts=has_starts)
        with pytest.MonkeyPatch.context() as patch, drawn_by(noise, called):
            fix_key(patch, hashlib.sha256(f"{name} {seed}".encode()).digest())
            code = run_example(own, name, given, log, release_id=called)
        if code:
            noise.failures.append(f"exit code {code}")
            return {}
        return files_under(own / "out")

    return made


def found_of_release(
    name: str,
    given: Mapping[str, Any],
    folder: Path,
    seeds: Sequence[int] = SEEDS,
    kinds: Sequence[str] | None = None,
) -> Iterator[Compared]:
    """Yields what each kind of unit shows, beside the others alone."""
    for seed in seeds:
        first = First.of(release_of(name, given, seed, (), folder))
        for kind, unit in units(given.get("max_cases_per_individual")).items():
            if kinds is None or kind in kinds:
                label = f"{name} {dict(given)}, seed {seed}, {kind}"
                second = release_of(name, given, seed, unit, folder)
                yield compared(label, first, second)


def check(found: Iterable[Compared]) -> None:
    """Fails with all that does not hold, or if no unit moved anything that has noise."""
    compared = list(found)
    wrong = [f"{one.label}: {sentence}" for one in compared for sentence in one.sentences]
    assert not wrong, "\n".join(wrong)
    assert any(one.moved_any for one in compared)


RELEASES = [
    pytest.param(name, place, marks=[] if (name, place) in BY_DAY else [pytest.mark.slow])
    for name in METHODS
    for place in range(len(parameters(name)))
]


@pytest.mark.parametrize(("name", "place"), RELEASES)
def test_neighbours_that_come_out_alike_are_alike(
    name: str, place: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    is_example = parameters(name)[place] in examples_of(METHODS[name])
    by_day = (name, place) in BY_DAY
    seeds = SEEDS if is_example and not by_day else SEEDS[:1]
    kinds = KINDS_BY_DAY if by_day else None
    check(found_of_release(name, parameters(name)[place], tmp_path, seeds, kinds))


# --- sequences of releases, of which each depends on what the ones before it released ------------

GRAPH = {"vocabulary": ("A", "B", "C"), "max_trace_length": 12, "l2_clip": "4", "delta": "1e-7"}
Asked = tuple[str, Mapping[str, Any]]


def asked_after(answers: Sequence[Mapping[str, bytes]]) -> Asked | None:
    """Returns the next question of somebody who looks at the answers; None: there is none."""
    if not answers:
        return "private-dfg", {**GRAPH, "epsilon": "0.5"}
    if len(answers) == 3:
        return None
    digest = hashlib.sha256(b"".join(answers[-1][path] for path in sorted(answers[-1]))).digest()
    activity, epsilon = "ABC"[digest[0] % 3], ("0.2", "0.4")[digest[1] % 2]
    further: Sequence[Asked] = (
        ("private-dfg", {**GRAPH, "epsilon": epsilon, "l2_clip": "3"}),
        ("variant-histogram", {"epsilon": epsilon, "delta": "1e-7"}),
        ("private-indicators", {
            "epsilon": epsilon, "delta": "1e-7", "vocabulary": ("A", "B", "C"),
            "indicators": (f"frequency activity={activity} at_most=3", "cases"),
        }),
    )  # fmt: skip
    return further[digest[2] % 3]


def sequence_of(
    seed: int, unit: Sequence[Case], folder: Path, lost: list[Loss]
) -> Callable[[Forced], Mapping[str, bytes]]:
    """Returns what makes a sequence of releases, and notes what the account is charged for them."""

    def made(noise: Forced) -> Mapping[str, bytes]:
        lost.clear()
        answers: list[Mapping[str, bytes]] = []
        while (asked := asked_after(answers)) is not None:
            name, given = asked
            called = f"golden-{len(answers)}"
            answers.append(release_of(name, given, seed, unit, folder, called)(noise))
            method = METHODS[name]
            lost.append(loss_of(method.spends(method.Params(**given))))
        return {f"{n}/{path}": data for n, one in enumerate(answers) for path, data in one.items()}

    return made


def found_of_sequence(kind: str, seed: int, folder: Path, share: Fraction) -> Compared:
    """Compares one with what is charged, of which the Gaussian noise counts with a share."""
    lost: list[Loss] = []
    first = First.of(sequence_of(seed, (), folder, lost))
    squared_mu, pure, leaked = (sum(one, Fraction(0)) for one in zip(*lost, strict=True))
    charged = Loss(squared_mu * share, pure, leaked)
    promised = Claim(0.1, float(charged.delta(Fraction(1, 10)).float_above()))
    return compared(kind, first, sequence_of(seed, [KINDS[kind]], folder, lost), promised)


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 4))])
def test_what_depends_on_answers_loses_no_more_than_an_account_is_charged(
    seed: int, tmp_path: Path
) -> None:
    kinds = KINDS if seed > 1 else ("longest", *KINDS_BY_DAY)
    check(found_of_sequence(kind, seed, tmp_path, Fraction(1)) for kind in kinds)


def test_a_charge_for_nine_tenths_of_the_noise_is_caught(tmp_path: Path) -> None:
    assert found_of_sequence("longest", 1, tmp_path, Fraction(9, 10)).sentences


# --- streams --------------------------------------------------------------------------------------

HORIZON, PERIOD_S = 6, 10
# A case of a stream: when each of its messages is published, its activities, and how much older
# than that its events say they are, in seconds.
Messages = tuple[tuple[float, ...], str, float]
SENT: Mapping[str, Messages] = {
    "usual": ((3, 5), "A END", 0),
    "in the first step, of one loop": ((0, 1, 2, 3, 4), "A A A A A", 0),
    "in the last step": ((51, 52, 53), "B B END", 0),
    "in many steps": ((1, 12, 23, 34, 45), "A B C A END", 0),
    "that never ends": ((40, 45), "A B", 0),
    "longer than counts": ((11, 12, 13, 14, 15, 16, 17, 18), "A B A B A B A B", 0),
    "of activities that nobody declared": ((21, 22), "X Y", 0),
    "of nobody else's variant": ((31, 32, 33), "C C END", 0),
    "of events long ago": ((22, 24), "A END", 1e9),
    "of events to come": ((22, 24), "A END", -1e9),
    "of one moment": ((25, 25, 25), "A B END", 0),
    "that opens again": ((5, 6, 30, 31), "A END A END", 0),
    "behind the horizon": ((70, 75), "A END", 0),
}
# What products need beside the parameters that all have.
OF_PRODUCTS: Mapping[str, Mapping[str, Any]] = {
    "log": {
        "horizon": 2, "n_duration_bins": 4, "first_date": "1970-01-01",
        "last_date": "1970-01-02", "l2_clip": "4",
    },
    "indicators": {
        "indicators": (
            "cases", "throughput at_most=20s", "throughput of=0.5 at_most=20s", "rework",
            "frequency activity=A at_most=2", "rule template=response activity=A then=END",
        ),
    },
}  # fmt: skip
OF_VIEWS: Mapping[str, Mapping[str, Any]] = {"sliding": {"sliding_steps": 3}}
# What all steps cost is then accounted for anew in each run, which takes long for a large epsilon.
OF_GUARANTEES: Mapping[str, Mapping[str, Any]] = {"w_event": {"w_event_steps": 2, "epsilon": "2"}}


def stream_changes() -> Iterator[dict[str, Any]]:
    """Every product, view, promise, unit and kind of noise; some do not go together."""
    for name, product in STREAM_PRODUCTS.items():
        for view, guarantee in itertools.product(product.views, product.guarantees):
            for delta, m in itertools.product(("1e-6", "0"), (None, 1, 2)):
                changes = {"product": name, "view": view, "delta": delta, "epsilon": "20"}
                if guarantee != "case":
                    changes["guarantee"] = guarantee
                for more, which in (
                    (OF_PRODUCTS, name), (OF_VIEWS, view), (OF_GUARANTEES, guarantee)
                ):  # fmt: skip
                    changes |= more.get(which, {})
                if m is not None:
                    changes |= {"individual_id": "person", "max_cases_per_individual": m}
                yield changes


def _is_offered(changes: Mapping[str, Any], folder: Path) -> bool:
    try:
        stream_config(folder, **changes)
    except UsageError:
        return False
    return True


def sent_by_unit(kinds: Sequence[str], n_times: int = 1) -> list[Sent]:
    """The messages of a unit's cases, each so many times, as other cases."""
    return [
        Sent(at, f"k{number}.{again}", activity, f"k{number}.{again}.{place}", age, "k")
        for number, kind in enumerate(kinds)
        for again in range(n_times)
        for times, activities, age in [SENT[kind]]
        for place, (at, activity) in enumerate(zip(times, activities.split(), strict=True))
    ]


def sent_by_others(seed: int) -> list[Sent]:
    """Cases at random, and many alike, so that some variants pass a threshold."""
    alike = [Sent(i % 40, f"d{i}", name, name) for i in range(80) for name in ("A", "END")]
    return [
        sent._replace(individual=f"p{sent.case}") for sent in [*random_messages(20 * seed), *alike]
    ]


def stream_of(
    changes: Mapping[str, Any], seed: int, unit: Sequence[Sent], folder: Path
) -> Callable[[Forced], Mapping[str, bytes]]:
    """Returns what runs the stream of the others and the unit with some noise, to its end."""

    def made(noise: Forced) -> Mapping[str, bytes]:
        own = Path(folder, str(len(list(folder.iterdir()))))
        own.mkdir()
        config = stream_config(own, **changes)
        with pytest.MonkeyPatch.context() as patch, drawn_by(noise, "ward"):
            fix_key(patch, hashlib.sha256(f"stream {seed}".encode()).digest())
            run_script(config, in_time([*sent_by_others(seed), *unit], 80))
        return files_of(config)

    return made


@pytest.fixture(scope="module", autouse=True)
def losses_are_listed_once() -> Iterator[None]:
    """A stream is run a hundred times, and what its steps cost together takes seconds each time."""
    listed = lru_cache(composed._epsilon_from_losses)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            composed, "_epsilon_from_losses", lambda parts, delta: listed(tuple(parts), delta)
        )
        yield


def units_of_stream(m: int | None) -> dict[str, list[Sent]]:
    """The messages of the one unit, by what it is like."""
    found = {kind: sent_by_unit([kind], m or 1) for kind in SENT}
    if m is not None:
        found["a case of each kind"] = sent_by_unit(list(SENT))
        found["more cases than count"] = sent_by_unit(["usual"], m + 3)
    return found


def found_of_stream(
    changes: Mapping[str, Any],
    folder: Path,
    seeds: Sequence[int] = SEEDS,
    kinds: Sequence[str] | None = None,
) -> Iterator[Compared]:
    """Yields what each kind of unit shows, as `found_of_release` does."""
    m, w = changes.get("max_cases_per_individual"), changes.get("w_event_steps")
    # Of a promise on fewer steps the manifest says what holds of all; a unit whose cases all close
    # in one step is promised what was asked for.
    asked = Claim(float(changes["epsilon"]), float(changes["delta"])) if w else None
    for seed in seeds:
        first = First.of(stream_of(changes, seed, (), folder))
        for kind, unit in units_of_stream(m).items():
            if kinds is None or kind in kinds:
                label = f"{dict(changes)}, seed {seed}, {kind}"
                promised = None if kind == "a case of each kind" else asked
                second = stream_of(changes, seed, unit, folder)
                yield compared(label, first, second, promised)


STREAMS = list(stream_changes())


def _named(changes: Mapping[str, Any]) -> str:
    return "-".join(map(str, changes.values()))


@pytest.mark.slow
@pytest.mark.parametrize("changes", STREAMS, ids=_named)
def test_neighbouring_streams_that_come_out_alike_are_alike(
    changes: Mapping[str, Any], tmp_path: Path
) -> None:
    if not _is_offered(changes, tmp_path):
        pytest.skip("these parameters do not go together")
    Path(tmp_path, "runs").mkdir()
    check(found_of_stream(changes, tmp_path / "runs", SEEDS[:1]))


GRAPHS = {"product": "dfg", "view": "total", "delta": "1e-6", "epsilon": "20"}


def test_a_stream_by_day(tmp_path: Path) -> None:
    """Totals, in which a case moves all later steps."""
    Path(tmp_path, "runs").mkdir()
    kinds = ("in the first step, of one loop",)
    check(found_of_stream(GRAPHS, tmp_path / "runs", SEEDS[:1], kinds))


@pytest.mark.slow
def test_every_product_view_and_promise_is_offered_in_some_way(tmp_path: Path) -> None:
    """What is skipped is no product, and no view or promise of one."""
    offered = {
        (changes["product"], changes["view"], changes.get("guarantee", "case"))
        for changes in STREAMS
        if _is_offered(changes, tmp_path)
    }
    assert offered == {
        (name, view, guarantee)
        for name, product in STREAM_PRODUCTS.items()
        for view, guarantee in itertools.product(product.views, product.guarantees)
    }


# --- controls -------------------------------------------------------------------------------------

Weakening = Callable[[pytest.MonkeyPatch], None]
# By what is weakened: the method, the place of its parameters, the kind of unit that shows it,
# what is done to it, and what is said of it.
CONTROLS: dict[str, tuple[str, int, str, Weakening, str]] = {}


def control(name: str, place: int, kind: str, said: str) -> Callable[[Weakening], Weakening]:
    """Adds a control by the name of what weakens the method."""

    def added(weaken: Weakening) -> Weakening:
        CONTROLS[weaken.__name__] = name, place, kind, weaken, said
        return weaken

    return added


@control("private-log", 0, "usual", "what the noise of golden is made for costs delta")
def half_a_scale(patch: pytest.MonkeyPatch) -> None:
    """The blocks have half the noise that their shares of the budget pay for."""
    noise = Allowance.noise

    def half(self: Allowance, changed: Sensitivity, units: int | None = None) -> SumNoise:
        made = noise(self, changed, units)
        return replace(made, scale=(made.scale[0], 2 * made.scale[1]))

    patch.setattr(Allowance, "noise", half)


@control("variant-histogram", 0, "usual", "by variant count")
def half_a_scale_of_laplace_noise(patch: pytest.MonkeyPatch) -> None:
    whole = VariantHistogramParams.scale.fget  # type: ignore[attr-defined]
    patch.setattr(
        VariantHistogramParams, "scale", property(lambda self: (whole(self)[0], 2 * whole(self)[1]))
    )


@control("variant-histogram", 0, "of nobody else's variant", "by variant count")
def a_low_threshold(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VariantHistogramParams, "threshold", property(lambda self: 6))


@control("private-dfg", 2, "of loops", "what the unit moved costs")
def a_bound_that_is_doubled(patch: pytest.MonkeyPatch) -> None:
    truncate = TraceBatch.truncate
    patch.setattr(TraceBatch, "truncate", lambda self, most: truncate(self, 2 * most))


@control("private-dfg", 0, "longest", "the unit moves the sums by")
def a_case_that_is_not_clipped(patch: pytest.MonkeyPatch) -> None:
    of_cases = ClippedCells.from_cases.__func__  # type: ignore[attr-defined]

    def unclipped(cls: Any, cells: Any, clip: int, units: int) -> Any:
        return of_cases(cls, cells, 1 << 30, units)

    patch.setattr(ClippedCells, "from_cases", classmethod(unclipped))


def forced(patch: pytest.MonkeyPatch, vote: int) -> None:
    """The kind of the graph is given: Laplace noise if the vote is for it."""
    patch.setattr(graph_kinds, "_graph_of_variants", lambda *_: None)
    patch.setattr(graph_kinds, "votes", lambda *given: np.full(given[-1], vote))


@pytest.mark.slow
@pytest.mark.parametrize("place", [3, 4])
@pytest.mark.parametrize("vote", [-(10**6), 10**6])
def test_graphs_of_either_noise_are_compared(
    place: int, vote: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all kinds of units, cases and individuals, whatever kind the log would choose."""
    forced(monkeypatch, vote)
    given = parameters("private-dfg")[place]
    check(found_of_release("private-dfg", given, tmp_path, SEEDS[:1]))


@control("private-dfg", 4, "longest", "the unit moves the sums by")
def a_case_that_is_not_clipped_in_l1(patch: pytest.MonkeyPatch) -> None:
    forced(patch, 10**6)
    a_case_that_is_not_clipped(patch)


@control("private-dfg", 4, "of nobody else's variant", "variants/count")
def a_low_threshold_of_the_graph_of_variants(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(graph_kinds, "missing_cases", lambda *_: 0.0)
    patch.setattr(Allowance, "threshold", lambda *_: 2)


def decided_otherwise(
    patch: pytest.MonkeyPatch, changed: Callable[[ReleasedVariants, Any], Mapping[str, Any]]
) -> None:
    """Parts of the released variants follow from the exact statistics."""
    decide = VariantHistogramMethod.decide

    def telling(self: Any, round_name: str, statistics: Any, *given: Any) -> Any:
        decided = decide(self, round_name, statistics, *given)
        parts = changed(decided.variants, statistics)
        return replace(decided, variants=replace(decided.variants, **parts))

    patch.setattr(VariantHistogramMethod, "decide", telling)


@control("variant-histogram", 0, "longest", "variants.json: differs")
def an_exact_number_beside_the_noise(patch: pytest.MonkeyPatch) -> None:
    def plus_longest(made: ReleasedVariants, statistics: Any) -> Mapping[str, Any]:
        return {"counts": made.counts + int(np.diff(statistics["variants"].offsets).max())}

    decided_otherwise(patch, plus_longest)


@control("variant-histogram", 0, "of activities that nobody else has", "variants.json: differs")
def a_vocabulary_of_the_data(patch: pytest.MonkeyPatch) -> None:
    def of_the_data(_: ReleasedVariants, statistics: Any) -> Mapping[str, Any]:
        return {"names": pa.array(statistics["names"].names.to_pylist(), pa.string())}

    decided_otherwise(patch, of_the_data)


@control("variant-histogram", 0, "of nobody else's variant", "variant count: laplace noise of")
def a_scale_of_the_data(patch: pytest.MonkeyPatch) -> None:
    def wide(stream: CellStream, numerator: int, denominator: int) -> np.ndarray:
        return draw_laplace(stream, numerator * len(stream), denominator)

    patch.setattr(method, "draw_laplace", wide)


@control("variant-histogram", 0, "usual", "numbers of noise are added to nothing")
def noise_that_is_drawn_and_left_out(patch: pytest.MonkeyPatch) -> None:
    def nothing(stream: CellStream, *scale: int) -> np.ndarray:
        return np.zeros_like(draw_laplace(stream, *scale), subok=False)

    patch.setattr(method, "draw_laplace", nothing)


@control("process-tree", 0, "usual", "process-tree/selection: the unit moves the scores by")
def a_choice_for_half_of_what_moves(patch: pytest.MonkeyPatch) -> None:
    real = Coupled.select

    def half(*given: Any, **named: Any) -> int:
        *others, epsilon, sensitivity = given
        return real(*others, epsilon / 2, sensitivity / 2, **named)

    patch.setattr(Coupled, "select", half)


@control("private-log", 0, "long before all others", "exit code 6")
def a_time_out_of_the_range_that_ends_the_release(patch: pytest.MonkeyPatch) -> None:
    elapsed_us = WorkingTime.elapsed_us

    def refusing(self: WorkingTime, times_us: np.ndarray) -> np.ndarray:
        if (times_us < self.first_us).any():
            raise ValueError("a time lies before the range")
        return elapsed_us(self, times_us)

    patch.setattr(WorkingTime, "elapsed_us", refusing)


@control("private-log", 5, "long before all others", "log.csv.gz: differs")
def a_range_of_the_data(patch: pytest.MonkeyPatch) -> None:
    def from_first_to_last(counted: CaseMonths, *_: Any) -> TimeRangeDecision:
        begins, ends = np.divmod(counted.keys, N_MONTHS)
        first, last = np.array([begins.min(), ends.max()]).astype("datetime64[M]").astype(str)
        return TimeRangeDecision(TimeRange.from_dates(f"{first}-01", f"{last}-01", "UTC"))

    patch.setattr(time_range, "choose_time_range", from_first_to_last)


CONTROLS_BY_DAY = {
    "half_a_scale_of_laplace_noise",
    "a_bound_that_is_doubled",
    "a_case_that_is_not_clipped",
    "an_exact_number_beside_the_noise",
    "a_scale_of_the_data",
}


@pytest.mark.parametrize(
    "weakened", [name if name in CONTROLS_BY_DAY else at_night(name) for name in CONTROLS]
)
def test_a_weakened_method_is_caught(
    weakened: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names what the noise is for, or the file."""
    name, place, kind, weaken, said = CONTROLS[weakened]
    weaken(monkeypatch)
    [found] = found_of_release(name, parameters(name)[place], tmp_path, SEEDS[:1], (kind,))
    assert any(said in sentence for sentence in found.sentences), found.sentences
    assert found.label.startswith(name)


def test_a_step_that_knows_how_many_cases_are_open_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = StepDecider.decide

    def telling(self: StepDecider, state: StreamState) -> Any:
        after, made = decide(self, state)
        n_open = state.opened.n_cases
        released = replace(made.released, n_steps_left=made.released.n_steps_left + n_open)
        return after, replace(made, released=released)

    monkeypatch.setattr(StepDecider, "decide", telling)
    [found] = found_of_stream(GRAPHS, tmp_path, SEEDS[:1], ("that never ends",))
    assert any("step-000004.json: differs" in sentence for sentence in found.sentences)


@pytest.mark.slow
def test_a_stream_with_half_the_noise_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = ContinualNoise.add

    def half(self: ContinualNoise, *given: Any) -> np.ndarray:
        return add(replace(self, scale=(self.scale[0], 2 * self.scale[1])), *given)

    monkeypatch.setattr(ContinualNoise, "add", half)
    kinds = ("in the first step, of one loop",)
    [found] = found_of_stream(GRAPHS, tmp_path, SEEDS[:1], kinds)
    assert any("by stream pairs" in sentence for sentence in found.sentences)
