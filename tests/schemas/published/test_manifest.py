"""Guarantees and manifests: sentences, JSON, and the JSON Schema of the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracecloak.schemas as schemas
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import (
    TOOL_VERSION,
    Guarantee,
    Operation,
    OutputFile,
    ReleaseManifest,
    Yield,
    at_most,
)
from tracecloak.transforms.publish.statement import promise_in_short

SCHEMA = json.loads((Path(schemas.__path__[0]) / "files" / "manifest.schema.json").read_text())

PUBLISHED = Guarantee(
    "published", "individual", "replace_one", None, None, "epsilon = 1.", "It is spent twice.",
    ("A.",),
)  # fmt: skip
MANIFEST = ReleaseManifest(
    release_id="2026-01.a",
    method="amun",
    method_version=1,
    params={"guessing_advantage": 0.3, "mode": "sampling", "log_start": None},
    guarantee=PUBLISHED,
    operations=(Operation("substitution", "event", "time:timestamp"),),
    spends=(
        {"what": "edges", "mechanism": "discrete_gaussian", "epsilon": "1", "delta": "0.000001"},
    ),
    config_digest="5ae0",
    key_fingerprint="d708",
    exact_noise=False,
    unsafe_barrier=True,
    beam_version="2.77.0",
    came_out=Yield(n_cases=3, n_variants=2, n_activities=2, named_share=2 / 3),
    about={"title": "Claims"},
    released_on="2026-11-23",
)
OUTPUTS = [OutputFile("log/part-1", "b" * 64, 7), OutputFile("dfg.json", "a" * 64, 0)]


# --- guarantees -----------------------------------------------------------------------------------


def test_a_promise_about_replacing_says_so_in_a_line_too():
    of_dpim = replace(PUBLISHED, unit="case", epsilon=2.5, delta=0.0)
    assert promise_in_short(of_dpim) == (
        "Not what was published, but epsilon 2.5 and delta 0 hold for any one case that is "
        "replaced by another."
    )
    added = replace(of_dpim, adjacency="add_remove")
    assert "replaced" not in promise_in_short(added)


@given(st.decimals("1e-300", 1000, allow_nan=False) | st.decimals("1e-7", 60))
def test_a_number_of_a_sentence_is_not_below_the_one_that_holds(exact):
    value = float(exact)
    shown = Fraction(at_most(value))
    assert Fraction(repr(value)) <= shown <= Fraction(repr(value)) * (1 + Fraction(1, 10**5))
    assert len(at_most(value)) <= 20


def test_a_rigorous_guarantee_needs_its_numbers():
    for numbers in [(None, None), (1.0, None), (None, 1e-6)]:
        with pytest.raises(UsageError, match="a rigorous guarantee needs epsilon and"):
            Guarantee("rigorous", "case", "add_remove", *numbers, "", "")
        assert Guarantee("published", "case", "add_remove", *numbers, "", "").delta == numbers[1]


# --- manifests ------------------------------------------------------------------------------------


def test_what_the_files_carry_says_nothing_of_files_runners_or_tools():
    inside = MANIFEST.to_json()
    whole = MANIFEST.to_json([])
    assert whole.pop("outputs") == []
    assert whole.pop("verified") is False
    assert whole.pop("about") == {"title": "Claims"}
    assert whole.pop("released_on") == "2026-11-23"
    assert whole.pop("came_out")["n_cases"] == 3
    assert whole.pop("usability") == "not_judged"
    assert whole.pop("tool") == {"name": "tracecloak", "version": TOOL_VERSION, "beam": "2.77.0"}
    assert whole["randomness"].pop("unsafe_barrier") is True
    assert inside == whole
    elsewhere = replace(MANIFEST, beam_version=None, unsafe_barrier=False)
    assert elsewhere.to_json() == inside
    # A later version of the tool may have more parameters, whose defaults change no byte.
    some = replace(MANIFEST, given={"guessing_advantage": 0.3})
    assert some.to_json() == {**inside, "params": {"guessing_advantage": 0.3}}
    assert some.to_json([]) == MANIFEST.to_json([])


# --- the JSON Schema ------------------------------------------------------------------------------


def test_a_manifest_is_read_back_without_its_outputs():
    assert ReleaseManifest.from_json(MANIFEST.to_json(OUTPUTS)) == replace(
        MANIFEST, came_out=Yield(**MANIFEST.to_json([])["came_out"])
    )


def objects(part: Any, place: str = "$") -> Iterator[tuple[str, dict[str, Any]]]:
    """The schema's parts that describe objects, with their places."""
    if isinstance(part, dict):
        if part.get("type") == "object":
            yield place, part
        for name, inner in part.items():
            yield from objects(inner, f"{place}.{name}")


def test_the_schema_is_closed_and_complete_everywhere():
    found = dict(objects(SCHEMA))
    methods_own = found.pop("$.properties.params")
    concerns_own = found.pop("$.properties.noted")
    # The parameters are the method's, and what is noted is a concern's.
    assert not {"additionalProperties"} & {*methods_own, *concerns_own}
    versions = found.pop("$.properties.inner_versions")  # whatever has one is a number above 1
    assert versions["additionalProperties"] == {"type": "integer", "minimum": 2}
    since = found.pop("$.$defs.stream.properties.vocabulary_since")  # by name
    assert since["additionalProperties"] == {"type": "integer", "minimum": 0}
    assert len(found) == 14
    about = found.pop("$.properties.about")
    assert about["additionalProperties"] is False and "required" not in about
    # Of an epoch of a stream alone, of a window alone, of releases since they say so, of a log with
    # times alone, of figures alone, and of a joint mechanism alone.
    some = {
        "$": {
            "stream", "about", "released_on", "window", "time_caveats", "noted", "inner_versions",
            "usability",
        },
        "$.properties.came_out": {"max_events", "longest_share", "unclear_share", "n_figures"},
        "$.$defs.spend": {"blocks", "choices", "instead"},
        "$.$defs.guarantee": {"population"},  # of a query alone
        "$.$defs.stream": {"vocabulary_since"},  # of one whose vocabulary has grown
    }  # fmt: skip
    for place, part in found.items():
        assert part["additionalProperties"] is False, place
        assert set(part["properties"]) - set(part["required"]) == some.get(place, set()), place
