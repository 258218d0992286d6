"""A stream from messages to files: that it counts right, step by step, whatever the product."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.support.releasing import counting_charges
from tests.support.stream_runs import (
    Happening,
    Sent,
    accepted,
    batch_pairs,
    counts_of,
    files_of,
    in_time,
    no_noise,
    published,
    random_messages,
    run,
    stream_config,
    ticking,
)
from tracecloak.pipelines.stream.config import StreamConfig


def with_stragglers() -> tuple[list[Sent], list[Sent]]:
    """(messages, the tenth of them that comes late: half of them within max_disorder)."""
    rng = np.random.default_rng(11)
    sent = random_messages(60, 90)
    late = []
    for place in rng.choice(len(sent), len(sent) // 10, replace=False).tolist():
        by = float(rng.choice([2.0, 30.0]))
        late.append(sent[place]._replace(publish=sent[place].publish + by))
        sent[place] = late[-1]
    return sent, late


def test_windows_without_noise_are_what_a_batch_counts(tmp_path: Path) -> None:
    """For shuffled arrival, duplicates and stragglers."""
    sent, late = with_stragglers()
    expected = {step: batch_pairs(own) for step, own in accepted(sent).items()}
    counting = {message for own in accepted(sent).values() for message in own}
    assert 0 < len(counting & set(late)) < len(late)
    config = stream_config(tmp_path, horizon=20, release_delay="30s")
    rng = np.random.default_rng(12)
    happenings: list[Happening] = []
    for second in range(0, 200, 15):  # what is published within 15 seconds comes in any order
        own = [s for s in sent if second <= s.publish < second + 15]
        own += [own[i] for i in rng.integers(0, len(own), len(own) // 5)] if own else []
        shuffled = [own[i] for i in rng.permutation(len(own))]
        half = len(shuffled) // 2
        happenings += [part for part in (shuffled[:half], shuffled[half:]) if part]
        happenings.append(float(second + 5))
        happenings.append(float(second + 15))
    with no_noise():
        run(config, happenings)
    found = {release.step: counts_of(release) for release in published(config)}
    assert set(found) == set(range(20))
    assert {step: pairs for step, pairs in found.items() if pairs} == expected


# --- The ticker -------------------------------------------------------------------------------


def test_steps_in_which_nothing_closed_publish_every_cell_with_noise(tmp_path: Path) -> None:
    config = stream_config(tmp_path)
    run(config, [[Sent(1, "c", "END", "1")], *ticking(0, 90)])
    found = published(config)
    assert [release.step for release in found] == list(range(6))
    assert [release.n_steps_left for release in found] == [5, 4, 3, 2, 1, 0]
    assert len({release.cells for release in found}) == 1
    assert len(found[0].cells) == 35  # of five names: 25 pairs, 5 after START, 5 before END
    for release in found:
        assert np.count_nonzero(release.counts) > 20
    assert len({tuple(release.counts.tolist()) for release in found}) == 6


# --- Individuals ------------------------------------------------------------------------------


def person_messages() -> list[Sent]:
    """One person with a case in each of six steps and two in the first; another with one."""
    sent = [Sent(10 * i + 1, f"c{i}", "END", f"{i}", 0, "p") for i in range(6)]
    return [*sent, Sent(2, "again", "END", "7", 0, "p"), Sent(21, "d", "END", "8", 0, "q")]


@pytest.mark.parametrize(("cap", "counts"), [(1, [1, 0, 1]), (2, [2, 0, 1]), (3, [2, 1, 1])])
def test_so_many_cases_of_an_individual_count_over_the_horizon(
    tmp_path: Path, cap: int, counts: list[int]
) -> None:
    config = stream_config(
        tmp_path, individual_id="person", max_cases_per_individual=cap, epsilon="2"
    )
    with no_noise():
        run(config, in_time(person_messages(), 80))
    found = [counts_of(r).get(("▶", "END"), 0) for r in published(config)]
    assert found == [*counts, 0, 0, 0]
    [charge] = counting_charges(tmp_path / "keys")
    assert (charge.unit, charge.epsilon) == ("individual", "2")


def test_within_w_steps_a_cap_is_on_each_step_and_the_whole_horizon_is_paid(
    tmp_path: Path,
) -> None:
    config = stream_config(
        tmp_path,
        individual_id="person",
        guarantee="w_event",
        w_event_steps=2,
        epsilon="1",
        delta="0",
    )
    with no_noise():
        run(config, in_time(person_messages(), 80))
    found = [counts_of(r).get(("▶", "END"), 0) for r in published(config)]
    assert found == [1, 1, 2, 1, 1, 1]
    [charge] = counting_charges(tmp_path / "keys")
    assert (charge.unit, charge.epsilon) == ("individual", "3")  # three times two steps
    manifest = json.loads(files_of(config)["manifest.json"])
    assert manifest["guarantee"]["epsilon"] == 3
    assert "within any 2 of 6 steps: epsilon 1 " in manifest["guarantee"]["reality"]


# --- The log ----------------------------------------------------------------------------------


def log_config(folder: Path, **changes: Any) -> StreamConfig:
    dates = {"first_date": "1970-01-01", "last_date": "1970-01-02", "l2_clip": "4"}
    return stream_config(
        folder, product="log", horizon=2, epsilon="40", n_duration_bins=4, **{**dates, **changes}
    )


def test_a_log_of_every_step_is_released_whatever_closed_in_it(tmp_path: Path) -> None:
    sent = [Sent(1 + i % 3, f"c{i}", "A", "1") for i in range(40)]
    sent += [Sent(4, f"c{i}", "END", "2") for i in range(40)]
    config = log_config(tmp_path)
    run(config, in_time(sent, 60))
    files = files_of(config)
    assert {name for name in files if name.startswith("product")} == {
        f"product=log/view=window/step-00000{step}/{name}"
        for step in (0, 1)
        for name in ("log.parquet", "log.xes.gz", "step.json")
    }
    folder = tmp_path / "out" / "run_id=ward" / "epoch=1" / "product=log" / "view=window"
    first = pq.read_table(folder / "step-000000" / "log.parquet")
    assert 30 < len(set(first["case_id"].to_pylist())) < 50
    assert Counter(first["activity"].to_pylist())["A"] > 20
    assert not any("c1" == case for case in first["case_id"].to_pylist())
    [charge] = counting_charges(tmp_path / "keys")
    assert charge.epsilon == "40"  # once: the steps hold different cases
    assert sum(float(part["epsilon"]) for part in json.loads(charge.spends)) == pytest.approx(40)
