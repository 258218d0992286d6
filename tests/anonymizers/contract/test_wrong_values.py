"""Wrong values of parameters and keys: refused by what is public, and told in our words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import pydantic
import pytest

from tests.support.keys import release_key
from tests.support.paper_log import table_1
from tests.support.tiers import each_row
from tracecloak.anonymizers.accounting.calibration import (
    gaussian_threshold,
    guessing_advantage_of,
    laplace_scale,
    stability_threshold,
    truncated_noise_bound,
)
from tracecloak.anonymizers.accounting.composed import composed_epsilon
from tracecloak.anonymizers.accounting.composition import (
    Block,
    Spend,
    Way,
    decimal_text,
)
from tracecloak.anonymizers.accounting.intervals import Interval, smallest
from tracecloak.anonymizers.accounting.joint import (
    Unseen,
    block_scale,
    gaussian_scale,
    joint_deviation,
)
from tracecloak.anonymizers.accounting.sensitivity import (
    Sensitivity,
    of_clipped,
    of_clipped_flows,
    of_count,
    of_directly_follows,
    of_distinct_cells,
    of_one_cell,
)
from tracecloak.anonymizers.amun.method import Amun
from tracecloak.anonymizers.amun.params import AmunParams
from tracecloak.anonymizers.contract.bounding import ContributionBounds, distinct_activities
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.contract.wrong_values import usage_error
from tracecloak.anonymizers.indicators.declared import Filter
from tracecloak.anonymizers.queries import pripel
from tracecloak.anonymizers.queries.sapa import MAX_ARCS, refuse_excess
from tracecloak.anonymizers.registry import METHODS, method_named
from tracecloak.anonymizers.rigorous.budget import Allowance, Budget, Choice, Instead, Sums
from tracecloak.anonymizers.rigorous.names import most_names_of_pairs, possible_pairs
from tracecloak.anonymizers.streams.steps import STREAM_PRODUCTS
from tracecloak.pipelines.configuration.config import Columns, ReleaseConfig, Where
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.events.events import ActivityVocabulary

_STREAM: Mapping[str, Any] = {
    "release_id": "r", "epoch": "1", "input_subscription": "projects/p/subscriptions/s",
    "output": "o", "epsilon": "1", "vocabulary": ("A",), "period": "1d", "horizon": 3,
    "start": "2026-01-01", "gap": "1d", "max_lifetime": "9d",
}  # fmt: skip
MODELS: Mapping[str, tuple[type[pydantic.BaseModel], Mapping[str, Any]]] = {
    **{name: (method.Params, method.examples[0]) for name, method in METHODS.items()},
    **{f"stream of {name}": (kind.Params, {}) for name, kind in STREAM_PRODUCTS.items()},
    "release": (ReleaseConfig, {"log": "a", "method": "amun", "output": "o"}),
    "stream": (StreamConfig, _STREAM),
    "columns": (Columns, {}),
    "where": (Where, {"column": "a", "equals": "b"}),
}
WRONG: tuple[Any, ...] = (
    "", "x", "-1", "0", "1.5", "1e400", "nan", "inf", "true", "maybe", "1,2,3", "2026-13-01",
    "2026-01-01", "2026-01-01T00:00", b"\xff", -1, 0, 1.5, 10**30, float("nan"), float("inf"), True,
    None, [], [1], ["x", "y", "z"], [[]], [{}], {}, {"a": 1}, {"a": {"b": []}}, "9" * 5000, ("x",),
)  # fmt: skip
# How pydantic, and Python's own parsers, speak.
FOREIGN = re.compile(
    r"Input should|should be|should have|valid (string|number|integer|boolean|tuple|list|dict)|"
    r"unable to|Extra inputs|not permitted|Decimal input|instance of|isoformat|Value error|"
    r"validation error|type=|constrained-|literal\[|pydantic|<class|wrong kind"
)


@pytest.mark.parametrize("name", MODELS)
def test_no_wrong_value_is_told_in_words_of_pydantic(name: str) -> None:
    model, example = MODELS[name]
    n_wrong = 0
    for field, info in model.model_fields.items():
        key = info.alias or field
        for wrong in WRONG:
            try:
                model(**{**example, key: wrong})
            except pydantic.ValidationError as error:
                n_wrong += 1
                told = str(usage_error(error))
                assert not FOREIGN.search(told), told
                if any(found["loc"][:1] == (key,) for found in error.errors()):
                    assert re.search(rf"(^|; ){key}\b", told), told
            except UsageError as error:  # a check of ours that needs no help
                assert not FOREIGN.search(str(error))
    assert n_wrong > 5


ANY: Any = None
like: Any = SimpleNamespace
ONE, D6 = Fraction(1), Fraction(1, 10**6)
LATE = datetime(2100, 1, 2, tzinfo=UTC)
NAMES = ("A1", "A2", "B1")
MANY = tuple(f"A{n}" for n in range(most_names_of_pairs(1) + 1))
OF_NUMBERS, OF_TEXTS = {"bounds": [0, 1000]}, {"values": ["1", "2"]}
RIGOROUS = {"epsilon": "1", "delta": "1e-6", "vocabulary": NAMES}
PURE = {"delta": "0", "max_trace_length": 5}
COUNTS = {"delta": None, "indicators": ["cases"]}
NEW_YEAR = {"first_date": "2024-01-01", "last_date": "2024-01-02"}
STREAM = {"epsilon": "1", "vocabulary": NAMES, "max_trace_length": 5, "horizon": 3}

OTHERS = ValueError, TypeError, ArithmeticError, AssertionError
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a property that no number has": (
        lambda: smallest(lambda n: False, 1, "threshold"),
        "no threshold below 2",
    ),
    "no whole number": (lambda: laplace_scale(Fraction(1), Sensitivity(1, Fraction(1, 2), 1, 1)),
        "must be a whole number, got 1/2"),
    "a delta of 2": (lambda: composed_epsilon((), Fraction(2)), "delta must be"),
    "a block without change": (lambda: Block("b", (9, 1), Fraction(0)), "must be positive"),
    "a block without a denominator": (lambda: Block("b", (9, 0), ONE), "must be positive"),
    "a block with next to no noise": (lambda: Block("b", (1, 1), ONE), "must be above 2"),
    "a third as a decimal": (lambda: decimal_text(Fraction(1, 3)), "no finite decimal"),
    "a divisor of 0": (lambda: Interval.of(1) / Interval.of(0), "not proven to be positive"),
    "an unseen block of twice all": (lambda: Unseen(Fraction(2), Fraction(1, 4)), "a share above"),
    "a block of twice all": (lambda: block_scale(ONE, Fraction(2), 1), "must be above 0"),
    "a choice that comes after what it decides on": (
        lambda: Budget(ONE, ONE, (Instead("i", "w", ONE, ()),), {"i": Allowance(ONE)}).check_order(
            [Sums("s", ONE, of_one_cell()), Choice("c", ONE)]),
        "comes after a block"),
    "a threshold without epsilon": (
        lambda: stability_threshold(Fraction(0), D6), "epsilon must be .* got Fraction"),
    "a float for epsilon": (lambda: stability_threshold(0.5, D6), "epsilon must be an exact"),
    "epsilon of millions": (lambda: stability_threshold(10**7, D6), "epsilon must be"),
    "a threshold without delta": (
        lambda: stability_threshold(ONE, Fraction(0)), "with delta 0 choose a method"),
    "a delta above a half": (
        lambda: stability_threshold(ONE, Fraction(3, 4)), "delta must be .* at most 1/2"),
    "a float for delta": (lambda: stability_threshold(ONE, 1e-6), "delta must be an exact"),
    "a threshold of no case": (lambda: stability_threshold(ONE, D6, 0), "at least 1, got 0"),
    "a bound of no case": (lambda: truncated_noise_bound(ONE, D6, -1), "at least 1, got -1"),
    "a truth for a change": (lambda: of_count(True), "an exact number above 0, got True"),
    "no change": (lambda: of_count(0), "an exact number above 0, got 0"),
    "a float for a change": (lambda: of_count(1.5), "an exact number above 0, got 1.5"),
    "next to no epsilon": (
        lambda: gaussian_scale(Fraction(1, 10**10), D6, of_count(1)), "at least 1e-9"),
    "a change beyond all noise": (
        lambda: gaussian_scale(ONE, D6, of_count(2**49)), "a coarser lattice or raise epsilon"),
    "a Gaussian threshold without delta": (
        lambda: gaussian_threshold((5, 1), 1, Fraction(0)), "delta must be .* above 0"),
    "an advantage at a delta of 1": (
        lambda: guessing_advantage_of(ONE, 1, "add_remove"), r"delta must be .* \[0, 1\)"),
    "an advantage of other neighbours": (
        lambda: guessing_advantage_of(ONE, 0, cast(Any, "none")), "adjacency must be add_remove"),
    "cells of no case": (lambda: of_distinct_cells(3, 0), "max_cases must be at least 1, got 0"),
    "no cell": (lambda: of_distinct_cells(0), "n_cells must be at least 1"),
    "no event": (lambda: of_directly_follows(0), "max_trace_length must be at least 1, got 0"),
    "no clip": (lambda: of_clipped(0, 1, is_pure=False), "l2_clip must be at least 1, got 0"),
    "a clip of one step": (lambda: of_clipped_flows(1), "l2_clip must be at least 2"),
    **{
        f"a part: {said}": (lambda given=given: Spend("p", *given), said)
        for given, said in (
            (("pure", Fraction(0), Fraction(0)), "epsilon must be"),
            (("pure", 0.5, Fraction(0)), "epsilon must be an exact number"),
            (("approximate", ONE, ONE), "delta of p must be exact"),
            (("pure", ONE, D6), "must be 0, since it is pure"),
            (("pure", ONE, Fraction(0), (1, 1), 1), "are for noise on counts only"),
            (("discrete_laplace", ONE, Fraction(0)), "scale of p must be positive"),
            (("discrete_laplace", ONE, Fraction(0), (1, 1)), "sensitivity of p must be"),
            (("discrete_laplace", ONE, Fraction(0), (9, 1), Fraction(1, 2)), "must be whole"),
            (("discrete_laplace", ONE, Fraction(0), (1, 1), 2), "too small for its epsilon"),
        )
    },
    **{
        f"a joint part: {said}": (lambda given=given: joint_part(**given), said)
        for given, said in (
            ({"blocks": ()}, "blocks are for a joint mechanism, which needs"),
            ({"mechanism": "approximate"}, "blocks are for a joint mechanism"),
            ({"mechanism": "approximate", "blocks": ()}, "choices are for a joint mechanism"),
            ({"scale": (1, 1)}, "for noise on counts only"),
            ({"sensitivity": 1}, "noise on counts only"),
            ({"epsilon": Fraction(0)}, "epsilon must be"),
            ({"delta": 1e-6}, "delta of all must be exact"),
            ({"instead": (Way("tree", (("splits", ONE),)),)}, "than the choices leave"),
        )
    },
    **{
        f"a budget of parts: {said}": (lambda given=given: joint_budget(**given), said)
        for given, said in (
            ({"epsilon": 1.0}, "epsilon must be an exact number"),
            ({"epsilon": Fraction(9, 10**10)}, "must be at least 1e-9, got 9e-10"),
            ({"epsilon": D6, "delta": ONE / 100, "unseen": (Unseen(ONE / 5, D6),)},
             "raise epsilon"),
            ({"delta": Fraction(0)}, "delta must be above 0"),
            ({"choices": (ONE / 2, ONE / 2)}, "leave nothing of epsilon 1"),
            ({"unseen": (Unseen(ONE / 5, D6),)}, "leaves nothing of delta"),
            ({"unseen": (Unseen(ONE / 5, D6 / 9),) * 6}, "add up to more than 1"),
        )
    },
    "a cap of 0": (lambda: ContributionBounds(max_trace_length=0), "must be at least 1, got 0"),
    "no activity of a case": (lambda: distinct_activities(ANY, 0, ANY), "must be at least 1"),
    "a cap per individual without individuals": (
        lambda: ContributionBounds(max_cases_per_individual=1).bound(table_1()[0], ANY),
        "needs the individuals"),
    "a log before its public start": (
        lambda: anonymise(table_1(), Amun(), AmunParams(log_start=LATE), release_key(), "r", "c"),
        "must enclose the log"),
    "a public start after the end": (
        lambda: AmunParams(log_start=LATE, log_end=LATE - timedelta(1)), "not be after log_end"),
    "more pairs than noise is drawn for": (
        lambda: possible_pairs(ActivityVocabulary.public(MANY), 1), "every possible pair"),
    "a filter of nothing": (Filter, "needs occurs, or attribute and equals"),
    "more activities than pripel matches": (
        lambda: matched(range(pripel.MAX_ACTIVITIES + 1)),
        "pripel takes logs of at most"),
    "more arcs than can be played out": (lambda: refuse_excess(MAX_ARCS + 1), "epsilon"),
    **{
        f"{name} {i}: {said}": (lambda name=name, given=given: params(name, **given), said)
        for i, (name, given, said) in enumerate((
            ("private-log", {"groups": {"A1": "A"}, "group_separator": "_", "group_depth": 1},
             "exclude each other"),
            ("private-log", {"groups": {"A1": "A"}, "vocabulary": None}, "groups are of declared"),
            ("private-log", {"group_separator": "_"}, "go together"),
            ("private-log", {"groups": {"A1": "A"}, "delta": "0", "max_trace_length": 5},
             "groups need a delta"),
            ("private-log", {"groups": {"A1": " "}}, "has no name"),
            ("private-log", {"groups": {"A1": "A"}, "variants": "privtree"}, "by joint-variants"),
            ("private-log", {"groups": {"A1": "B1", "B1": "C"}}, "name of an activity"),
            ("private-log", {"vocabulary": MANY}, "activities"),
            ("private-log", {"variants": "magic"}, "be one of auto, joint-variants"),
            ("private-log", {"variants": "hybrid-log"}, "hybrid-log was removed"),
            ("private-log", {**PURE, "variants": "markov-log"}, "must work without delta"),
            ("private-log", {**PURE, "vocabulary": None}, "needs a public vocabulary"),
            ("private-log", {**PURE, "l2_clip": None, "max_trace_length": None}, "a public max_tr"),
            ("private-log", {**PURE, "l2_clip": "4"}, "l2_clip is for delta above 0"),
            ("private-log", {"last_date": None}, "first_date and last_date go together"),
            ("private-log", {"first_date": "2025-01-01", "last_date": "2024-12-31"}, "is after"),
            ("private-log", {"first_date": "soon", "last_date": "2024-12-31"}, "first_date"),
            ("private-log", {"working_hours": "8 to 18"}, "like 8-18, got '8 to 18'"),
            ("private-log", {"working_hours": "18-8"}, "from_hour"),
            ("private-log", {"working_days": "mon,holiday"}, "working_days"),
            ("private-log", {"calendar_time_zone": "Mars/North"}, "Mars/North"),
            ("private-log", {"working_days": "sat", **NEW_YEAR}, "working"),
            ("private-log", {"budget_split": {"luck": "1"}}, "has parts vocabulary, granularity,"),
            ("private-log", {"budget_split": {"starts": "0"}}, "starts must be above 0"),
            ("private-log", {"budget_split": {"variants": "1e-9"}}, "too little for the variants"),
            ("private-log", {"products": "variants", "budget_split": {"starts": "1"}}, "are for"),
            ("private-log", {"products": "variants", "attributes": {"x": OF_TEXTS}}, "are for"),
            ("private-log", {"vocabulary": MANY[:3000], "times_by": "activity"}, "fewer bins"),
            ("private-dfg", {"delta": "0", "vocabulary": None}, "needs a public vocabulary"),
            ("private-dfg", {"delta": "0"}, "needs a public max_trace_length"),
            ("private-dfg", {**PURE, "l2_clip": 2}, "with delta 0 leave it out"),
            ("private-dfg", {"l2_clip": "0.9"}, "l2_clip"),
            ("private-dfg", {"l2_clip": "100001"}, "l2_clip"),
            ("private-dfg", {"max_activities": 0}, "max_activities"),
            ("private-dfg", {"n_duration_bins": 2}, "n_duration_bins"),
            ("private-dfg", {"vocabulary": MANY}, "4,470 .* give a smaller vocabulary"),
            ("private-dfg", {"vocabulary": MANY[:400], "durations": True, "n_duration_bins": 200},
             "314 activities at most with 200 duration bins.* or fewer bins"),
            ("process-tree", {"vocabulary": MANY}, "activities"),
            ("dpim", {"vocabulary": MANY}, "activities"),
            ("sapa", {"vocabulary": MANY, "delta": None}, "activities"),
            ("sacofa", {"vocabulary": MANY, "delta": None}, "activities"),
            ("sacofa", {"p_harmless": 5}, "1 <= p_harmless <= p_harmful"),
            ("sacofa", {"p_harmful": "inf", "p_harmless": None}, "inf needs p_harmless"),
            ("sacofa", {"score": "continuous"}, "is needed with score"),
            ("sacofa", {"max_violations": 2}, "max_violations is needed with"),
            ("sacofa", {"rules": "model"}, "is needed with rules model"),
            ("sacofa", {"model": {"activities": NAMES, "begins": ()}}, "model is needed with"),
            ("sacofa", {"budget": "honest", "vocabulary": None}, "honest needs a public"),
            ("sacofa", {"budget": "honest"}, "honest needs rules"),
            ("sacofa", {"rules": "bought"}, "bought needs budget honest"),
            ("sacofa", {"rules": "bought", "budget": "honest", "epsilon": "1e-200"}, "scale"),
            ("laplace-variants", {"budget": "honest", "vocabulary": None}, "needs a public voc"),
            ("laplace-dfg", {"vocabulary": MANY}, "smaller vocabulary"),
            ("pripel", {"p_harmless": 2}, "p_harmless goes with query sacofa"),
            ("pripel", {"query": "sacofa", "p_harmless": 4}, "must not be above p_harmful"),
            ("pripel", {"attributes": {"x": {}}}, "needs either values or bounds"),
            ("dpim", {"epsilon": "0.01"}, "above epsilon_0"),
            ("dpim", {"pairs_share": "0.7"}, "must sum to 1, got 1.05"),
            ("dpim", {"size_bounds": (5, 4)}, "the smaller first"),
            ("dpim", {"size_bounds": (0, 4)}, "from 1 up"),
            ("dpim", {"size_bounds": (1, 4), "bounds_from_log": True}, "exclude each other"),
            ("pappi", {**COUNTS, "indicators": ["throughput of=median at_most=1d"]}, "counts,"),
            ("pappi", {**COUNTS, "indicators": ["cases", "cases by=month"]}, "rs.1: where and by"),
            ("pappi", {**COUNTS, "indicators": ["throughput"]}, "at_most must be declared"),
            ("pappi", {**COUNTS, "max_cases_per_individual": 2}, "the paper protects cases"),
            ("pappi", {"delta": "1e-6"}, "delta"),
            ("process-tree", {"vocabulary": None, "delta": "0"}, "delta 0 needs a public"),
            ("process-tree", {"min_size": "3", "max_size": "2"}, "must be at most max_size"),
            ("pretsa", {"rho_addition": 3.5}, "above rho_addition, got 3 and 3.5"),
            ("pretsa", {"duration": {"case:cost": OF_NUMBERS}}, "one attribute of events"),
            ("pretsa", {"duration": {"cost": OF_TEXTS}}, "declared by bounds"),
            ("pretsa", {"duration": {"a": OF_NUMBERS, "b": OF_NUMBERS}}, "one attribute of"),
            ("tlkc", {"perspective": "resource"}, "resources go with the perspectives"),
            ("tlkc", {"resources": {"who": OF_TEXTS}}, "resources go with the perspectives"),
            ("tlkc", {"perspective": "resource", "resources": {"case:who": OF_TEXTS}},
             "one attribute of events"),
            ("tlkc", {"perspective": "resource", "resources": {"cost": OF_NUMBERS}},
             "one attribute of events"),
            ("tlkc", {"sensitive": {"who": OF_TEXTS}}, "must be attributes of the case"),
            ("amun", {"start_precision_days": "author"}, "start_precision_days"),
            ("amun", {"log_start": "2020-01-01T00:00:00"}, "log_start"),
        ))
    },
    "more names than a generator counts by": (
        lambda: method_named("markov-log").rounds(params("markov-log", vocabulary=MANY)),
        "markov-log: "),
    **{
        f"stream of {name} {i}: {said}": (
            lambda name=name, given=given: stream(name, **given), said)
        for i, (name, given, said) in enumerate((
            ("dfg", {"guarantee": "w_event", "w_event_steps": 2}, "is for individuals"),
            ("dfg", {"vocabulary": MANY}, "activities"),
            ("dfg", {"view": "sliding"}, "sliding_steps goes with view sliding"),
            ("dfg", {"sliding_steps": 3}, "sliding_steps goes with view sliding"),
            ("dfg", {"guarantee": "w_event"}, "w_event_steps goes with"),
            ("dfg", {"delta": "0", "view": "total"}, "delta 0 is only for"),
            ("dfg", {"delta": "0", "l2_clip": "3"}, "l2_clip is for a dfg with delta above 0"),
            ("dfg", {"view": "total", "horizon": 60_000}, "at most 50000"),
            ("dfg", {"view": "total", "horizon": 9_000, "vocabulary": MANY[:200]}, "too many to"),
            ("dfg", {"delta": "1e-4"}, "delta must be at most 1e-5"),
            ("dfg", {"epsilon": "1e-15"}, "epsilon of Gaussian noise"),
            ("variants", {"delta": "0"}, "delta 0 is only for"),
            ("variants", {"l2_clip": "3"}, "Extra inputs are not permitted"),
            ("indicators", {"indicators": ["cases", "amount attribute=case:a bounds=0|1"]},
             "indicators.1: a stream carries"),
            ("indicators", {"indicators": ["cases by=month"]}, "steps of a stream are its periods"),
            ("indicators", {"indicators": ["throughput"]}, "at_most must be declared"),
            ("indicators", {"indicators": ["waiting by=pair at_most=1d"]}, "by pair must be decl"),
            ("indicators", {"indicators": ["frequency activity=Z"]}, "not in the vocabulary"),
            ("indicators", {"indicators": ["cases"], "delta": "0", "view": "total"}, "only for"),
            ("variants", {"delta": "1e-5", "horizon": 60_000, "guarantee": "w_event",
                          "w_event_steps": 1, "max_cases_per_individual": 1},
             "which promises nothing"),
            ("log", {"service_times": True}, "service_times cannot be released"),
            ("dfg", {"delta": "0.4", "l2_clip": "5", "allow_large_delta": True}, "delta"),
            ("log", {"max_cases_per_individual": 2}, "must be 1 for product log"),
            ("log", {"delta": "1e-6", "groups": {"A1": "A"}}, "groups cannot be released"),
            ("log", {"attributes": {"x": {"values": ["1", "2"]}}}, "attributes cannot be carried"),
        ))
    },
}  # fmt: skip


def joint_part(**changes: Any) -> Spend:
    given = {"mechanism": "joint", "epsilon": ONE, "delta": D6, "choices": (("clip", ONE / 50),)}
    blocks = (Block("edges", (4231, 100), Fraction(7, 2)),)
    return Spend("all", **{**given, "blocks": blocks, **changes})  # type: ignore[arg-type]


def joint_budget(**changes: Any) -> Fraction:
    given: dict[str, Any] = {"epsilon": ONE, "delta": D6, "choices": (), "unseen": ()}
    return joint_deviation(**{**given, **changes})


def matched(names: Sequence[Any]) -> Any:
    """What pripel does with an answer of a query, of so many names."""
    given = like(statistics={"variants": like(n_variants=1), "names": names}, randomness=None)
    query = like(decide=lambda *_: like(variants=None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pripel, "_QUERIES", {"any": query})
        return pripel._matched(given, cast(Any, like(query="any", query_params=None)))


def stream(name: str, **changes: Any) -> Any:
    product = STREAM_PRODUCTS[name]
    return product(product.Params(**{**STREAM, **changes}))


def params(name: str, **changes: Any) -> Any:
    method = method_named(name)
    known = method.Params.model_fields
    given = {**METHODS[name].examples[0], **RIGOROUS, **changes}
    given = {key: value for key, value in given.items() if key in known and value is not None}
    return method.Params(**given)


@each_row("name", REFUSED)
def test_it_is_refused_by_what_is_public(name: str) -> None:
    """Catches a guard that is gone: what it keeps out would fail late, or not at all."""
    call, said = REFUSED[name]
    with pytest.raises((TracecloakError, *OTHERS), match=said):
        call()
