"""An epoch that has begun, with more names or another horizon."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_streams import run_script
from tests.support.releasing import counting_charges
from tests.support.stream_runs import (
    Happening,
    Sent,
    counts_of,
    files_of,
    in_time,
    made,
    no_noise,
    published,
    stream_config,
    ticking,
)
from tracecloak.pipelines.budget.opening import open_ledger, open_store
from tracecloak.pipelines.stream import epoch
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import (
    check_goes_on,
    counted_again,
    explained,
    manifest_of,
    resumed,
)
from tracecloak.pipelines.stream.plan import resolve
from tracecloak.pipelines.verification.verify import verify
from tracecloak.schemas.errors import BudgetExhausted, TracecloakError, UsageError
from tracecloak.transforms.stream.local_stream import LocalState

# Every ten seconds a case begins and ends, with a name that comes to the vocabulary later.
SENT = [
    Sent(second + 10 * i, f"c{i}", activity, f"{i}.{second}")
    for i in range(6)
    for second, activity in ((1, "A"), (2, "New"), (6, "END"))
]
UNNAMED = [s._replace(activity="?") if s.activity == "New" and s.publish < 30 else s for s in SENT]
STOPPED = 4  # happenings, after which it is second 20 and the names come
GROWS = 3


def script(sent: Iterable[Sent] = SENT) -> list[Happening]:
    return [*in_time(sent, 60), *ticking(60, 90)]


def more(folder: Path, names: str = "A B C END New", **changes: Any) -> StreamConfig:
    path = folder / "more.txt"
    path.write_text(names.replace(" ", "\n"))
    return stream_config(folder, **{"vocabulary": str(path), **changes})


def begin(config: StreamConfig) -> None:
    run_script(config, script(), until=STOPPED, clock=lambda: 20.0)


@pytest.mark.parametrize("changes", [{}, {"view": "total"}, {"closed_vocabulary": True}])
def test_more_names_count_from_the_next_step_on_and_cost_nothing(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    grown, always = made(tmp_path, "grown", "always")
    config, whole = more(tmp_path / grown, **changes), more(tmp_path / always, **changes)
    with no_noise():
        begin(stream_config(tmp_path / grown, **changes))
        before = files_of(config)
        run_script(config, script(), until=STOPPED + 1, clock=lambda: 21.0)
        run_script(config, script(), until=STOPPED + 2, clock=lambda: 35.0)  # as it was noted
        run_script(config, script())
        run_script(whole, script(UNNAMED))
    found, expected = published(config), published(whole)
    assert [r.step for r in found] == [r.step for r in expected] == list(range(6))
    assert [counts_of(r) for r in found] == [counts_of(r) for r in expected]
    assert any("New" in cell for cell in counts_of(found[-1]))
    assert [any("New" in c for c in r.cells) for r in found] == [s >= GROWS for s in range(6)]
    assert len(counting_charges(tmp_path / grown / "keys")) == 1
    after = files_of(config)
    assert {name for name in before if before[name] != after[name]} <= {"manifest.json"}
    body = json.loads(after["manifest.json"])
    assert body["stream"]["vocabulary_since"] == {"New": GROWS}
    assert any("New came to the vocabulary" in said for said in body["stream"]["explained"])
    first = json.loads(before["manifest.json"])
    assert {**body, "stream": None} == {**first, "stream": None}
    [folder] = (tmp_path / grown).glob("out/run_id=*/epoch=*")
    assert verify(str(folder)).holds
    with pytest.raises(BudgetExhausted, match="its last step is published"):
        run_script(config, script())


def test_a_stream_that_died_while_its_state_grew_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a default clip stays that of the first names."""
    names = made(tmp_path, "died", "whole")
    config, whole = (more(tmp_path / n, l2_clip=None, max_trace_length=50) for n in names)
    first = [stream_config(tmp_path / n, l2_clip=None, max_trace_length=50) for n in names]
    for one in first:
        begin(one.model_copy(update={"vocabulary": ("A", "END")}))
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(LocalState, "write", lambda *_: 1 / 0)
        run_script(config, script(), until=STOPPED, clock=lambda: 20.0)
    store = open_store(config)
    with no_noise():
        run_script(whole, script(), until=STOPPED, clock=lambda: 20.0)
        for one in (config, whole):
            run_script(one, script())
    assert [r.to_json() for r in published(config)[1:]] == [
        r.to_json() for r in published(whole)[1:]
    ]
    clip = resolve(first[0].model_copy(update={"vocabulary": ("A", "END")})).begun.l2_clip
    assert resumed(resolve(config), store).keys.l2_clip == clip
    assert clip != resolve(config).begun.l2_clip


def test_what_is_no_growth_is_refused_with_its_reason(tmp_path: Path) -> None:
    first, config = stream_config(tmp_path), more(tmp_path)
    begin(first)
    before = files_of(first)
    for change, said, at in (
        (more(tmp_path, "A B END New"), "its vocabulary has 'C'", 20),
        (more(tmp_path, max_trace_length=4), "another configuration; begin", 20),
        (config, "no step begins in which more names could count", 52),
    ):
        with pytest.raises(UsageError, match=said):
            run_script(change, script(), clock=lambda at=at: float(at))
    assert files_of(first) == before
    with pytest.raises(UsageError, match="runner Local alone"):
        elsewhere = config.model_copy(update={"runner": "FlinkRunner"})
        resumed(resolve(elsewhere), open_store(config), lambda: 20.0)
    with pytest.MonkeyPatch.context() as patch:
        dearer = resolve(stream_config(tmp_path, epsilon=2))
        made = lambda *given: dearer if len(given) > 1 else resolve(*given)  # noqa: E731
        patch.setattr(epoch, "resolve", made)
        with pytest.raises(UsageError, match="more names would need other noise"):
            resumed(resolve(config), open_store(config), lambda: 20.0)
    run_script(more(tmp_path, "END B C A"), script(), until=5)  # the order does not matter
    run_script(config, script(), until=6, clock=lambda: 21.0)
    with pytest.raises(UsageError, match="its vocabulary has 'New'"):
        run_script(first, script())
    run_script(more(tmp_path, "A B C END New Later"), script(), until=7, clock=lambda: 31.0)
    body = json.loads(files_of(first)["manifest.json"])
    assert body["stream"]["vocabulary_since"] == {"New": GROWS, "Later": GROWS + 1}
    assert len(counting_charges(tmp_path / "keys")) == 1


def test_a_manifest_that_is_damaged_is_told(tmp_path: Path) -> None:
    """It has the names of an epoch whose key store has none, as one that lost its key."""
    begin(stream_config(tmp_path))
    for path in (tmp_path / "keys").rglob("*.names"):
        path.unlink()
    [path] = (tmp_path / "out").rglob("manifest.json")
    for text in ('{"params": {"horizon"', "[]", '{"params": 3}'):
        path.write_text(text)
        with pytest.raises(TracecloakError, match=r"manifest\.json is damaged.*restore it"):
            run_script(more(tmp_path), script(), clock=lambda: 20.0)


def test_another_version_of_its_product_does_not_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = stream_config(tmp_path)
    begin(config)
    store = open_store(config)
    assert not check_goes_on(resolve(config), store, open_ledger(config, store))[1]
    monkeypatch.setattr(type(resolve(config).product), "version", 99)
    with pytest.raises(TracecloakError, match="this build has version 99 of product"):
        check_goes_on(resolve(config), store, open_ledger(config, store))


def test_no_other_product_takes_more_names(tmp_path: Path) -> None:
    begin(stream_config(tmp_path, product="variants"))
    with pytest.raises(UsageError, match="grows with product dfg"):
        run_script(more(tmp_path, product="variants"), script(), clock=lambda: 20.0)


def test_another_horizon_is_refused_in_a_run_and_to_doctor(tmp_path: Path) -> None:
    config = stream_config(tmp_path)
    begin(config)
    longer = config.model_copy(update={"horizon": 12})
    said = r"charged epsilon 1 with delta 0.000001 for 6 steps"
    with pytest.raises(UsageError, match=said):
        run_script(longer, script())
    store = open_store(config)
    with pytest.raises(UsageError, match="Set horizon to 6 again"):
        check_goes_on(resolve(longer), store, open_ledger(config, store))


WEEKLY = {"period": "1d", "horizon": 365, "gap": "1d", "max_lifetime": "5d", "tombstone": "7d"}


@pytest.mark.parametrize(
    ("changes", "epsilon"),
    [
        ({}, 9.2),  # the root of 53 times the norm, at the same delta
        ({"view": "total"}, 55.0),
        ({"product": "variants"}, 53),
        ({"product": "log"}, 53),
    ],
)
def test_a_memory_that_ends_before_the_horizon_says_what_that_costs(
    changes: dict[str, str], epsilon: float, tmp_path: Path
) -> None:
    config = stream_config(tmp_path, **{**WEEKLY, **changes})
    plan = resolve(config)
    [said] = counted_again(plan)
    assert "in up to 53 steps" in said and "remembered for 7 days" in said
    found = re.search(r"epsilon ([\d.]+) with delta ([\d.e-]+) holds", said)
    assert found is not None
    assert float(found[1]) == pytest.approx(epsilon, rel=0.02)
    assert float(found[2]) >= float(config.delta)
    assert explained(plan)[-1] == said
    guarantee = manifest_of(plan, "0" * 64).guarantee
    assert said in guarantee.not_covered
    if config.product != "variants":  # for an individual it costs nothing
        config = stream_config(tmp_path, **{**WEEKLY, **changes}, individual_id="person")
        assert "epsilon" not in counted_again(resolve(config))[0]
