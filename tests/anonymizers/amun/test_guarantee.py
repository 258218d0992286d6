"""What Amun's guarantee says about itself, each sentence beside a log that shows it."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Sequence

import numpy as np
import pytest

from tests.support.keys import release_key
from tests.support.paper_log import DAY_US, MINUTE_US, table_1, traces_of
from tests.support.rounds import rows_of, run_rounds
from tracecloak.anonymizers.amun.guessing_advantage import epsilon_of_prior
from tracecloak.anonymizers.amun.method import Amun, AmunParams
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.schemas.events.events import RELEASED_SCHEMA
from tracecloak.schemas.published.guarantee import Guarantee
from tracecloak.schemas.published.manifest import OutputFile, ReleaseManifest
from tracecloak.schemas.published.yields import Yield

AMUN = Amun()
MODES = ("sampling", "filtering", "oversampling")
COMPRESSIONS = ("starts", "equation_4", "noise", "shifts", "none")


def guarantee(**params: object) -> Guarantee:
    return AMUN.guarantee(AmunParams(**params))


# --- no finite epsilon ----------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["paper", "reference", "tables"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_the_guarantee_is_published_and_without_an_epsilon(
    mode: str, profile: str, compression: str
) -> None:
    said = guarantee(mode=mode, profile=profile, compression=compression)
    assert said.kind == "published"
    assert said.epsilon is None
    assert said.delta is None
    assert said.unit == "case"
    assert said.sentence.startswith("No finite epsilon holds for this release")
    assert said.reality.startswith("No finite epsilon holds")


@pytest.mark.parametrize(
    ("mode", "profile", "epsilon"),
    [
        ("sampling", "paper", "1.2381"),
        ("filtering", "paper", "1.2381"),
        ("oversampling", "paper", "0.2833"),
        ("sampling", "reference", "1.2381"),
        ("oversampling", "reference", "1.2381"),
    ],
)
def test_the_claim_is_that_of_the_paper_or_of_its_authors(
    mode: str, profile: str, epsilon: str
) -> None:
    said = guarantee(mode=mode, profile=profile, guessing_advantage=0.3)
    assert f"epsilon_d = {epsilon}" in said.claim
    assert "0.3" in said.claim


# --- the support leaks: universal impossibility ---------------------------------------------------


def released_variants(rows: list[tuple[str, str, int]], number: int, mode: str) -> set[str]:
    params = AmunParams(mode=mode, guessing_advantage=0.3)
    made = anonymise(traces_of(rows), AMUN, params, release_key(number), "r", "c")
    return {"".join(name for name, _ in events) for _, events in rows_of(made.traces)}


@pytest.mark.parametrize("mode", ["sampling", "oversampling"])
def test_a_released_variant_of_one_case_proves_that_case(mode: str) -> None:
    """With the one case AXB its variant is released more often than not; without it never is.

    So delta is at least that share, whatever epsilon.
    """
    others = [(str(i), name, i) for i in range(20) for name in "AB"]
    one = [("one", name, 5) for name in "AXB"]
    n = 40
    with_it = sum("AXB" in released_variants([*others, *one], k, mode) for k in range(n))
    without = sum("AXB" in released_variants(others, k, mode) for k in range(n))
    assert with_it > n / 2
    assert without == 0
    assert "proves that case's presence" in guarantee(mode=mode).reality


def test_activity_names_are_the_inputs_own() -> None:
    assert "The activity names and the set of variants are the input's own." in (
        guarantee().not_covered
    )


# --- the filter -----------------------------------------------------------------------------------


def eleven_durations(*more: int) -> list[tuple[str, str, int]]:
    """Cases AB three weeks apart, eight of which take 60 minutes."""
    minutes = [*[60] * 8, 5, 7_000, 9_000, *more]
    return [
        (str(i), name, 21 * i * DAY_US + (minutes[i] * MINUTE_US if name == "B" else 0))
        for i in range(len(minutes))
        for name in "AB"
    ]


def n_kept(rows: list[tuple[str, str, int]]) -> int:
    params = AmunParams(mode="filtering", guessing_advantage=0.3, profile="paper")
    run = run_rounds(traces_of(rows), AMUN, params, release_key())
    return run.statistics["sampling"]["variants"].n_cases


def test_one_case_more_brings_eight_dropped_ones_back() -> None:
    """8 of 11: P + g = 1.027, so eight cases go; one far case more, and it is .967: none goes."""
    assert n_kept(eleven_durations()) == 3
    assert n_kept(eleven_durations(11_000)) == 12
    said = "Which cases the filter drops depends on the other cases."
    assert said in guarantee(mode="filtering").reality
    assert said not in guarantee(mode="sampling").reality


# --- the other sentences --------------------------------------------------------------------------


def test_oversampling_never_lowers_a_count_and_says_so() -> None:
    said = "Oversampling never lowers a count"
    assert said in guarantee(mode="oversampling").reality
    assert said not in guarantee(mode="sampling").reality
    rows = [(str(i), "A", 0) for i in range(5)]
    params = AmunParams(mode="oversampling")
    sizes = [
        len(rows_of(anonymise(traces_of(rows), AMUN, params, release_key(k), "r", "c").traces))
        for k in range(50)
    ]
    assert min(sizes) >= 5
    assert max(sizes) > 5


def test_a_smallest_time_that_counts_as_impossible_to_guess_is_said_to_be() -> None:
    """Ten durations of B from 1 to 10 hours, whatever g: the shortest has a tenth of their range.

    Equation 1 counts a time itself, so in the profile paper the shortest has noise as the others.
    """
    rows = [(str(i), "A", i * DAY_US) for i in range(10)]
    rows += [(str(i), "B", i * DAY_US + (i + 1) * 60 * MINUTE_US) for i in range(10)]
    for g in (0.05, 0.3):
        shortest = {}
        for profile in ("reference", "paper"):
            params = AmunParams(guessing_advantage=g, profile=profile)
            run = run_rounds(traces_of(rows), AMUN, params, release_key())
            n_groups = run.decisions["dafsa"].dafsa.n_transitions + 1
            times = run.statistics["sampling"]["times"]
            scales = run.decisions["sampling"].scales
            first = np.flatnonzero(times.groups < n_groups - 1)[0]
            assert times.values[first] == 60 * MINUTE_US // params.choices.time_unit_us
            shortest[profile] = 9 * 60 * MINUTE_US / scales[first]
        assert shortest["reference"] == pytest.approx(10)
        assert shortest["paper"] == pytest.approx(epsilon_of_prior(np.array([0.1]), g)[0])
    said = "gets epsilon 10 whatever the guessing advantage"
    assert said in guarantee(profile="reference").reality
    assert said not in guarantee(profile="paper").reality
    assert "gets epsilon 4 whatever" in guarantee(zero_prior_epsilon=4).reality


def test_noise_that_is_shrunk_after_it_was_drawn_is_said_to_be() -> None:
    """A1.9: the released deviation stays below half the range, however small g is."""
    said = "multiplies the noise"
    assert said in guarantee(compression="noise").reality
    assert said in guarantee(profile="reference").reality
    assert "at least twice what is claimed" in guarantee(profile="reference").reality
    assert said not in guarantee(compression="starts").reality
    rows = [(str(i), "A", i * DAY_US) for i in range(2)]
    params = AmunParams(mode="oversampling", compression="noise", guessing_advantage=1e-3)
    ends = []
    for number in range(5):
        made = anonymise(traces_of(rows), AMUN, params, release_key(number), "r", "c")
        starts = np.concatenate([batch.starts for batch in made.traces])
        ends.append((starts.min(), starts.max()))
    first, last = np.median(ends, axis=0)  # one start in sixty is further away
    assert first > -DAY_US and last < 2 * DAY_US


def test_a_group_of_equal_times_has_no_noise_and_that_is_said() -> None:
    """Table 1's A after D takes 120 minutes twice, and so it does in every release."""
    [said] = [s for s in guarantee().not_covered if "without noise" in s]
    assert "times are all equal" in said
    found = set()
    for number in range(10):
        params = AmunParams(mode="oversampling", compression="starts")
        made = anonymise(table_1(), AMUN, params, release_key(number), "r", "c")
        for _, events in rows_of(made.traces):
            if events[0][0] == "D":
                found.add(events[1][1] - events[0][1])
    assert found == {120 * MINUTE_US}


def test_whether_the_public_ends_were_public_is_said() -> None:
    read = "were read from the input."
    days = ("2020-01-01T00:00:00Z", "2020-02-01T00:00:00Z")
    for given, is_read in [
        ({}, True),
        ({"log_start": days[0]}, True),
        ({"log_end": days[1]}, True),
        ({"log_start": days[0], "log_end": days[1]}, False),
    ]:
        assert any(read in s for s in guarantee(**given).not_covered) == is_read


def test_the_division_by_the_longest_case_is_said() -> None:
    said = "divided by the length of the longest case"
    assert any(said in s for s in guarantee(correlated_times=True).not_covered)
    assert not any(said in s for s in guarantee().not_covered)


# --- nothing that would give a prior away ---------------------------------------------------------


def test_released_rows_are_case_activity_and_time_only() -> None:
    """A1.8: an epsilon per event, as appendix B.2 publishes it, would give the prior away."""
    params = AmunParams(mode="filtering", profile="reference")
    for batch in anonymise(table_1(), AMUN, params, release_key(), "r", "c").traces:
        rows = batch.to_rows()
        assert rows.schema == RELEASED_SCHEMA
        assert rows.schema.names == ["case_id", "activity", "timestamp"]
        assert not rows.schema.metadata


def _names(value: object) -> Sequence[str]:
    if isinstance(value, dict):
        inner = itertools.chain.from_iterable(map(_names, value.values()))
        return [*value.keys(), *inner]
    if isinstance(value, list):
        return list(itertools.chain.from_iterable(map(_names, value)))
    return []


def test_the_manifest_has_no_place_for_anything_counted() -> None:
    """It is made of parameters, before a log is read; its names are these and no more.

    What came out is added at the end, from the files as they are released.
    """
    params = AmunParams(mode="filtering", profile="reference")
    manifest = ReleaseManifest(
        release_id="r",
        method=AMUN.name,
        method_version=1,
        params=params.resolved(),
        guarantee=AMUN.guarantee(params),
        operations=AMUN.operations,
        spends=(),
        config_digest="c",
        key_fingerprint=release_key().fingerprint,
        exact_noise=AMUN.exact_noise,
        unsafe_barrier=False,
        beam_version=None,
    )
    body = json.loads(json.dumps(manifest.to_json([OutputFile("log.parquet", "0" * 64, 7)])))
    assert set(_names(body)) == {
        "schema_version",
        *("tool", "name", "version", "beam"),
        *("release_id", "method", "params", "guarantee", "operations", "spends", "randomness"),
        *("method_version", "config_digest", "about", "released_on"),
        "verified",
        *("came_out", *Yield().to_json(), "usability"),
        *AmunParams.model_fields,
        # Its population is stated of a query's result alone.
        *({field.name for field in dataclasses.fields(Guarantee)} - {"population"}),
        "sentence",
        *("type", "level", "target"),
        *("keyed", "exact", "key_fingerprint", "unsafe_barrier"),
        *("outputs", "path", "sha256", "n_bytes"),
    }
    assert body["randomness"]["exact"] is False
    assert not any(body["came_out"].values())
    assert body["guarantee"]["epsilon"] is None
