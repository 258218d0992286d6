"""What every registered method keeps: names, parameters, rounds, decisions on the wire, edges."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import pickle
import random
import re
from collections.abc import Iterator
from dataclasses import fields
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pydantic
import pytest

from tests.support.examples import examples_of, options
from tests.support.keys import release_key
from tests.support.paper_log import DAY_US, MINUTE_US, traces_of
from tests.support.rounds import CONFIG_DIGEST, RELEASE_ID, Rounds, as_wanted, rows_of, run_rounds
from tracecloak.anonymizers.accounting.composition import Spend, total
from tracecloak.anonymizers.contract.in_memory import Anonymised, anonymise, bound
from tracecloak.anonymizers.contract.method import Anonymizer, Params
from tracecloak.anonymizers.registry import METHODS, method_named
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import Guarantee
from tracecloak.transforms.publish.statement import promise_in_short

# So many combinations of the named values of parameters are all tried, of more so many at random.
_COMBINATIONS = 60


@functools.cache
def variations(method: Anonymizer) -> tuple[Params, ...]:
    """The examples, each with every named value of a parameter, and with combinations of these."""
    fields = method.Params.model_fields.items()
    choices = {name: values for name, field in fields if (values := options(field.annotation))}
    together = list(itertools.product(*choices.values()))
    changes: list[dict[str, Any]] = []
    if len(together) > _COMBINATIONS:
        together = random.Random(method.name).sample(together, _COMBINATIONS)
        changes = [{name: value} for name, values in choices.items() for value in values]
    changes += [dict(zip(choices, values, strict=True)) for values in together]
    varied = [method.Params(**example) for example in examples_of(method)]
    for example, change in itertools.product(examples_of(method), changes):
        with contextlib.suppress(pydantic.ValidationError):  # some do not go together
            varied.append(method.Params(**{**example, **change}))
    return tuple(varied)


class Described(NamedTuple):
    """Parameters, and what a method says of them."""

    params: Params
    guarantee: Guarantee
    spends: tuple[Spend, ...]
    explained: tuple[str, ...]


@functools.cache
def descriptions(method: Anonymizer) -> tuple[Described, ...]:
    """Of every variation. Of whole logs this is long arithmetic, and several tests read it."""
    return tuple(
        Described(
            params,
            method.guarantee(params),
            tuple(method.spends(params)),
            tuple(method.explain(params)),
        )
        for params in variations(method)
    )


def modes(method: Anonymizer) -> Iterator[Params]:
    """The examples, and one of the variations for each further list of rounds."""
    seen = set()
    for i, params in enumerate(variations(method)):
        if (rounds := method.rounds(params)) not in seen or i < len(examples_of(method)):
            seen.add(rounds)
            yield params


every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
# The first example of each by day, all at night.
first_mode = pytest.mark.parametrize(
    ("method", "params"),
    [
        pytest.param(method, params, id=f"{method.name}-{i}", marks=[pytest.mark.slow] * (i > 0))
        for method in METHODS.values()
        for i, params in enumerate(modes(method))
    ],
)

WIRE_LOG = [
    (f"case {case}", activity, case * DAY_US + (case % 3 + 1) * place * MINUTE_US)
    for case in range(25)
    for place, activity in enumerate("ABCA"[: case % 4 + 1])
]


def same(value: Any) -> Any:
    return decode(encode(value))


def run(method: Anonymizer, params: Params, traces: list[TraceBatch]) -> Anonymised:
    traces = as_wanted(traces, method, params)
    return anonymise(traces, method, params, release_key(), RELEASE_ID, CONFIG_DIGEST)


def test_a_name_that_is_not_registered_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageError, match=r"amun.*got 'amnu'") as raised:
        method_named("amnu")
    assert raised.value.exit_code == 2


@every_method
def test_parameters_in_effect_are_json_and_make_the_same_parameters(method: Anonymizer) -> None:
    for name in method.Params.model_fields:
        assert not {"seed", "key", "secret", "random"} & set(name.split("_"))
    for params in variations(method):
        resolved = json.loads(json.dumps(params.resolved(), allow_nan=False))
        # A permission that is not given is left out, and so are groups that are not declared: what
        # was released before stays as it was.
        unset = {"allow_large_delta"} if not getattr(params, "allow_large_delta", True) else set()
        of_groups = ("groups", "group_separator", "group_depth")
        unset |= {name for name in of_groups if getattr(params, name, "") is None}
        assert set(resolved) == set(method.Params.model_fields) - unset
        again = method.Params(**resolved)
        assert again.resolved() == params.resolved()
        assert method.rounds(again) == method.rounds(params)
        assert pickle.loads(pickle.dumps(params)) == params  # noqa: S301  # our own bytes


@every_method
def test_the_guarantee_is_complete_and_json(method: Anonymizer) -> None:
    for params, said, spends, _ in descriptions(method):
        assert isinstance(said, Guarantee)
        body = json.loads(json.dumps(said.to_json(), allow_nan=False))
        assert body["sentence"].endswith(".")
        if said.kind == "rigorous":
            assert said.epsilon > 0
            assert 0 <= said.delta < 1
            assert method.exact_noise
            epsilon, delta = total(spends)
            assert (said.epsilon, said.delta) == (float(epsilon), float(delta))
            asked = getattr(params, "epsilon", None)
            assert asked is None or Fraction(asked) == epsilon
        else:
            assert said.claim.endswith(".")
            assert said.reality.endswith(".")
            assert said.epsilon is None or said.epsilon > 0
        assert all(sentence.endswith(".") for sentence in said.not_covered)


# An epsilon of which it is said that it holds, or that it is what all costs together.
_HELD = re.compile(r"e\^([\d.]+) times|(?<![\d.])([\d.]+\d|\d)(?: with delta [\d.]+)? holds")
_IN_ALL = re.compile(r"([\d.]+\d|\d) in all")


@every_method
def test_no_epsilon_that_is_said_is_below_the_one_that_holds(method: Anonymizer) -> None:
    """In every sentence of every method, with every combination of its named parameters."""
    n_found = 0
    for _, promise, _, explained in descriptions(method):
        if promise.epsilon is None or promise.kind == "syntactic":
            continue
        held = Fraction(repr(promise.epsilon))
        short = promise_in_short(promise)
        said = [promise.sentence, short, promise.reality, *promise.not_covered, *explained]
        found = [one or other for text in said for one, other in _HELD.findall(text)]
        if promise.kind == "published":
            found += _IN_ALL.findall(promise.reality)
        n_found += len(found)
        assert all(held <= Fraction(number) <= held * Fraction("1.00001") for number in found)
    kinds = {described.guarantee.kind for described in descriptions(method)}
    assert n_found or "rigorous" not in kinds


@first_mode
def test_rounds_are_the_same_however_they_are_counted_and_decided(
    method: Anonymizer, params: Params
) -> None:
    """Parts merge to the whole, a decision follows from its arguments, and counters pickle."""
    rounds = run_rounds(traces_of(WIRE_LOG), method, params, release_key())
    [whole] = bound(
        as_wanted(traces_of(WIRE_LOG), method, params), method, params, rounds.randomness
    )
    parts = [whole.take(np.arange(first, whole.n_cases, 4)) for first in range(4)]
    none = whole.take(np.zeros(0, np.int64))
    for i, name in enumerate(method.rounds(params)):
        before = dict(itertools.islice(rounds.decisions.items(), i))
        bytes_before = {known: encode(decided) for known, decided in before.items()}
        keyed = rounds.by_round[name] if i else rounds.randomness.unit_stream
        assert method.requires(name, params)
        for what, counter in method.requires(name, params).items():
            again = pickle.loads(pickle.dumps(counter))  # noqa: S301  # our own bytes
            assert again == counter and again.kind is counter.kind
            counted = [counter.count(part, method.known(before), keyed) for part in [*parts, none]]
            left = counter.kind.merge([counter.kind.merge(counted[:2]), *counted[2:]])
            right = counter.kind.merge(counted[::-1])
            expected = encode(rounds.statistics[name][what])
            assert encode(left) == encode(right) == expected, f"{name}/{what}"
            assert encode(counter.kind.merge([counter.kind.merge(()), left])) == expected
        statistics = rounds.statistics[name]
        decided = method.decide(name, statistics, before, params, rounds.by_round[name])
        assert encode(decided) == encode(rounds.decisions[name]), name
        assert {known: encode(value) for known, value in before.items()} == bytes_before
        if method.keeps(name, params):
            statistics = kept_of_parts(method, params, name, statistics, before, rounds)
            decided = method.decide(name, statistics, before, params, rounds.by_round[name])
            assert encode(decided) == encode(rounds.decisions[name]), name


def kept_of_parts(
    method: Anonymizer, params: Params, name: str, totals: Any, before: Any, rounds: Rounds
) -> dict[str, Any]:
    """What is kept of a round's statistics, part by part."""
    kinds = {what: counter.kind for what, counter in method.requires(name, params).items()}
    kept = []
    for _, part in Statistics(dict(totals)).split(16):
        whole = {what: part.by_name.get(what, kind.merge(())) for what, kind in kinds.items()}
        kept.append(method.keep(name, whole, before, params, rounds.by_round[name]))
    return {what: kind.merge([one[what] for one in kept]) for what, kind in kinds.items()}


@first_mode
def test_statistics_and_decisions_survive_the_wire(method: Anonymizer, params: Params) -> None:
    """Each goes through encode and decode, so that its arrays are read-only, as on a worker."""
    traces = traces_of(WIRE_LOG, n_shards=3)
    assert len(traces) == 3
    before = [encode(batch) for batch in traces]
    plain = run_rounds(traces, method, params, release_key())
    wired = run_rounds([same(batch) for batch in traces], method, params, release_key(), same)
    for name, decided in plain.decisions.items():
        assert encode(decided) == encode(wired.decisions[name]), name
    made = run(method, params, traces)
    copies = [TraceBatch(*(getattr(one, f.name) for f in fields(one))) for one in traces]
    assert [encode(batch) for batch in copies] == before  # the input is left as it was
    assert encode(method.products(wired.decisions, params)) == encode(made.products)
    assert set(made.products.by_name) == set(method.writes(params))
    # What the statement says of error bars.
    with_bars = {
        {"low", "high"} <= set(product.to_table().column_names)
        for product in made.products.by_name.values()
    }
    assert with_bars <= {method.has_error_bars}
    if method.log == "none":
        assert not made.traces
        return
    if method.log == "transformed":
        # In one batch and many, of which none may matter.
        wanted = as_wanted([*traces_of(WIRE_LOG, n_shards=7)], method, params)
        bounded = bound([same(batch) for batch in wanted], method, params, wired.randomness)
        released = [
            method.apply(batch, wired.decisions, params, wired.randomness) for batch in bounded
        ]
    else:
        released = [
            method.generate(piece, 5, wired.decisions, params, wired.randomness)
            for piece in range(5)
        ]
    assert rows_of(released) == rows_of(made.traces)
    assert rows_of([same(batch) for batch in released]) == rows_of(released)


EDGES: dict[str, list[tuple[str, str, int]]] = {
    "nothing": [],
    "one event": [("1", "A", 0)],
    "one case": [("1", "A", 0), ("1", "B", 5), ("1", "A", 9)],
    "two equal cases": [("1", "A", 0), ("2", "A", 0)],
    "two different cases": [("1", "A", 0), ("2", "B", DAY_US)],
    "all times equal": [(str(case), name, 3) for case in range(5) for name in "ABC"],
    "prefixes of each other": [
        (str(case), name, case) for case in range(1, 5) for name in "ABCD"[:case]
    ],
    "strange names": [("", "", 0), ("\0", "\0", 1), ("é\n", "🙂", 2), (" ", ",", 3)],
    "the whole calendar": [("1", "A", MIN_TIME_US), ("1", "B", MAX_TIME_US), ("2", "A", 0)],
}


@first_mode
def test_a_log_at_the_edge_is_released_or_refused_in_our_words(
    method: Anonymizer, params: Params
) -> None:
    for edge, log in EDGES.items():
        try:
            released = run(method, params, traces_of(log)).traces
        except TracecloakError as error:
            # To refuse a log is to tell something of it.
            assert method.guarantee(params).kind != "rigorous", edge
            assert error.exit_code in (3, 5), edge
            assert len(str(error)) > 20
            assert not any(name and name in str(error) for name in ("é\n", "🙂"))
            continue
        assert edge != "nothing" or method.log != "transformed"
        for batch in released:
            rows = batch.to_rows()
            rows.validate(full=True)
            assert rows.num_rows == batch.n_events
            assert batch.case_ids.type == pa.string()
