"""A topic of releases: what a message says, and that a consumer takes each release once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.published.step import StepRelease
from tracecloak.transforms.stream.topic_sinks import (
    KEY_ATTRIBUTES,
    FirstOfEach,
    StepSink,
    attributes_of,
    key_of,
)

FIRST = StepRelease.of(
    [("▶", "Triage"), ("Triage", "■")],
    np.array([-1, 7], np.int64),
    np.array([1.25, 1.25]),
    release_id="hospital",
    epoch="2026",
    product="dfg",
    view="total",
    step=3,
    start_us=0,
    end_us=40_000_000,
    n_steps_left=8,
    epsilon="0.5",
    delta="0",
)
ATTRIBUTES = {
    "release_id": "hospital",
    "epoch": "2026",
    "product": "dfg",
    "view": "total",
    "step": "3",
}


@pytest.mark.parametrize("missing", KEY_ATTRIBUTES)
def test_a_message_of_another_kind_is_told(missing: str) -> None:
    others = {name: value for name, value in ATTRIBUTES.items() if name != missing}
    with pytest.raises(UsageError, match="has the attributes release_id, epoch"):
        FirstOfEach().take(FIRST.to_json(), others)


@pytest.mark.parametrize("bad", [{"step": "third"}, {"step": ""}])
def test_a_step_is_a_number(bad: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="has the attributes"):
        key_of({**ATTRIBUTES, **bad})


def test_a_release_too_large_for_a_message_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [("▶", f"{i:0>500}") for i in range(20_000)]
    large = StepRelease.of(
        names,
        np.zeros(len(names), np.int64),
        np.zeros(len(names)),
        **{name: getattr(FIRST, name) for name in ("release_id", "epoch", "product", "view")},
        **{name: getattr(FIRST, name) for name in ("step", "start_us", "end_us", "n_steps_left")},
        epsilon="1",
        delta="0",
    )
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "localhost:1")
    with pytest.raises(UsageError, match="publish it to files"):
        StepSink("projects/p/topics/t").send(large)


def test_a_consumer_takes_the_first_message_of_a_key_and_drops_its_repetitions() -> None:
    first_of_each = FirstOfEach()
    others = [
        replace(FIRST, **{name: value})
        for name, value in (
            ("release_id", "ward"),
            ("epoch", "2027"),
            ("product", "variants"),
            ("view", "window"),
            ("step", 4),
        )
    ]
    messages = [(one.to_json(), attributes_of(one)) for one in (FIRST, *others)]
    assert all(first_of_each.take(*message) for message in messages)
    assert not any(first_of_each.take(*message) for message in messages)


def test_two_releases_with_one_key_are_an_error() -> None:
    first_of_each = FirstOfEach()
    first_of_each.take(FIRST.to_json(), ATTRIBUTES)
    other = replace(FIRST, counts=np.array([0, 7], np.int64))
    with pytest.raises(TracecloakError, match="step 3 of release hospital was published twice"):
        first_of_each.take(other.to_json(), ATTRIBUTES)


@pytest.mark.parametrize("data", [replace(FIRST, step=4).to_json(), b"", b"[]", b"{}"])
def test_data_that_contradict_their_attributes_are_an_error(data: bytes) -> None:
    with pytest.raises(TracecloakError, match="not what its attributes say"):
        FirstOfEach().take(data, ATTRIBUTES)
