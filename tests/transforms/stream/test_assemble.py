"""The assembler on a streaming runner: what may go wrong around a case, and that it counts once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.trigger import AccumulationMode, AfterWatermark
from apache_beam.transforms.window import FixedWindows, IntervalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming

from tests.support.beam_state import Bag, Cell
from tests.support.stream_runs import Happening, Sent, in_time, random_messages, stream_of, ticking
from tracecloak.anonymizers.streams.steps import Identities
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.streams import stream_caps
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.schemas.streams.open_cases import OpenCases, hex_names
from tracecloak.schemas.streams.stream_caps import CaseCap
from tracecloak.transforms.formats.messages import MessageFormat
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.stream import beam_stages
from tracecloak.transforms.stream.beam_stages import AssembleCases, DecodeMessages

S = 1_000_000
KEY = KeyReference("env:TEST_KEY")
RULE = ClosingRule(
    vocabulary=("A", "B", "C", "END"),
    period_us=10 * S,
    inactivity_gap_us=12 * S,
    max_lifetime_us=60 * S,
    max_disorder_us=3 * S,
    max_trace_length=5,
    tombstone_us=1_000 * S,
    end_activities=("END",),
    release_delay_us=10 * S,  # the local runner holds no watermark, which may jump this far
)
HORIZON = 40
MAPPING = ColumnMapping(timestamp_unit="us")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "5a" * 32)


Counted = tuple[int, str, tuple[str, ...]]  # step, case, activities


class Pane(NamedTuple):
    window: IntervalWindow
    timing: int
    index: int
    is_last: bool
    counted: list[Counted]


def named(cases: Iterable[str]) -> dict[str, str]:
    """What the cases are called in the output."""
    ids = pa.array(sorted(set(cases)), pa.string())
    keys = Identities(KEY.resolve())._of["case"].text_blocks(ids)
    return dict(zip(hex_names(keys).to_pylist(), ids.to_pylist(), strict=True))


def counted_of(step: int, traces: TraceBatch, names: dict[str, str]) -> list[Counted]:
    activities = traces.vocabulary.names.take(pa.array(traces.activities)).to_pylist()
    return [
        (step, names.get(case, case), tuple(activities[i:j]))
        for case, i, j in zip(
            traces.case_ids.to_pylist(), traces.offsets[:-1], traces.offsets[1:], strict=True
        )
    ]


_KEPT: dict[str, list[Any]] = {}


class Keep(beam.DoFn):
    """Keeps every element with its window and its pane, in this process."""

    def __init__(self, name: str) -> None:
        self._name = name

    def process(
        self, element: Any, window: Any = beam.DoFn.WindowParam, pane: Any = beam.DoFn.PaneInfoParam
    ) -> None:
        _KEPT[self._name].append((element, window, pane))


def run(
    happenings: Iterable[Happening],
    rule: ClosingRule = RULE,
    n_shards: int = 3,
    layout: MessageFormat | None = None,
) -> tuple[list[Counted], list[Pane]]:
    """(closed cases in the order in which they came out, firings of the windows behind)."""
    _KEPT.update(closed=[], panes=[])
    happenings = list(happenings)
    together = [one for one in happenings if not isinstance(one, float | int)]
    names = {sent.case for sent in chain.from_iterable(together) if isinstance(sent, Sent)}
    options = PipelineOptions(["--streaming"])
    with beam.Pipeline("BundleBasedDirectRunner", options=options) as pipeline:
        decoded = (
            pipeline | stream_of(happenings) | DecodeMessages(layout or MessageFormat(MAPPING))
        )
        closed = decoded["events"] | AssembleCases(rule, KEY, HORIZON, n_shards)
        _ = closed | "KeepClosed" >> beam.ParDo(Keep("closed"))
        _ = (
            closed
            | beam.Map(lambda element: (0, element)).with_output_types(
                tuple[int, tuple[int, TraceBatch]]
            )
            | beam.GroupByKey()
            | "KeepPanes" >> beam.ParDo(Keep("panes"))
        )
    back = named(names)
    seen = []
    for (step, traces), window, _ in _KEPT["closed"]:
        assert window.end.micros == rule.release_time(step)
        seen += counted_of(step, traces, back)
    panes = [
        Pane(
            window,
            pane.timing,
            pane.index,
            pane.is_last,
            sorted(c for step, traces in grouped for c in counted_of(step, traces, back)),
        )
        for (_, grouped), window, pane in _KEPT["panes"]
    ]
    return seen, panes


def assembled(sent: Iterable[Sent], rule: ClosingRule = RULE) -> list[Counted]:
    """What a single addition and closing give, without Beam."""
    messages = [s.message() for s in sent]
    events, _ = MessageFormat(MAPPING).decode(
        [m.value for m in messages], [m.timestamp.micros for m in messages]
    )
    keyed = Identities(KEY.resolve()).keyed(events, rule, HORIZON)
    _, steps, _ = OpenCases.none().add(keyed, rule, 0).close(2**62, rule, 0)
    names = named(s.case for s in sent)
    return sorted(counted for step, traces in steps for counted in counted_of(step, traces, names))


def test_every_window_fires_once_at_the_watermark() -> None:
    """Whatever is late, and however many shards hand on their cases."""
    happenings: list[Happening] = []
    for second in range(5, 60, 5):
        happenings.append(
            [Sent(second, f"c{second}.{i}", "END", f"e{second}.{i}") for i in range(3)]
        )
        if second > 25:  # cases whose steps are released, and some of the current one
            happenings.append([Sent(second - 24, f"late{second}", "END", "l")])
            happenings.append([Sent(second - 2, f"just{second}", "END", "j")])
        happenings.append(float(second))
    _, panes = run([*happenings, *ticking(55, 95)])
    assert len({pane.window for pane in panes}) == len(panes) == 6
    for pane in panes:
        assert pane.timing == PaneInfoTiming.ON_TIME
        assert (pane.index, pane.is_last) == (0, True)
        ends = {RULE.release_time(step) for step, _, _ in pane.counted}
        assert ends == {pane.window.end.micros}
    # A message late for a step that is released is lost; one late for an open step is not.
    names = {case for pane in panes for _, case, _ in pane.counted}
    assert not any(name.startswith("late") for name in names)
    assert {f"just{second}" for second in range(30, 60, 5)} <= names
    assert {f"c{second}.{i}" for second in range(5, 60, 5) for i in range(3)} <= names


@pytest.mark.parametrize(
    ("name", "value"),
    [("period_us", 999), ("period_us", 1_500), ("release_delay_us", 0), ("origin_us", 1_500)],
)
def test_what_no_runner_keeps_is_refused(name: str, value: int) -> None:
    events = beam.Pipeline() | beam.Create([])
    with pytest.raises(UsageError, match=name):
        events | AssembleCases(replace(RULE, **{name: value}), KEY, HORIZON)  # type: ignore[arg-type]


def test_no_early_or_late_firing_can_be_had() -> None:
    pipeline = beam.Pipeline("BundleBasedDirectRunner")
    events = pipeline | beam.Create([]).with_output_types(pa.RecordBatch)
    rule = replace(RULE, release_delay_us=64 * S)
    windowing = (events | AssembleCases(rule, KEY, HORIZON)).windowing
    assert windowing.windowfn == FixedWindows(10, 4)
    assert windowing.triggerfn == AfterWatermark()
    assert windowing.accumulation_mode == AccumulationMode.DISCARDING
    assert windowing.allowed_lateness == 0


def test_a_replay_in_another_order_gives_the_same_cases_in_the_same_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a restart with seek, and however often messages are merged."""
    sent = random_messages()
    expected = assembled(sent)
    assert len({case for _, case, _ in expected}) == len(expected) == 40
    seen, panes = run(in_time(sent, 120))
    assert sorted(seen) == expected
    assert sorted(c for pane in panes for c in pane.counted) == expected
    rng = np.random.default_rng(5)
    shuffled = [sent[i] for i in rng.permutation(len(sent))]
    again, _ = run([shuffled[:50], shuffled[20:], *ticking(0, 120)], n_shards=1)
    monkeypatch.setattr(stream_caps, "_MERGE_EVENTS", 2)
    often, _ = run(in_time(sent, 120), n_shards=2)
    assert sorted(again) == sorted(often) == expected


def test_a_bundle_that_is_tried_again_gives_each_case_once(monkeypatch: pytest.MonkeyPatch) -> None:
    close = OpenCases.close
    failed = []

    def failing_once(self: OpenCases, *arguments: Any) -> Any:
        result = close(self, *arguments)
        if not failed:
            failed.append(True)
            raise RuntimeError("try again")
        return result

    sent = random_messages()
    expected = assembled(sent)
    monkeypatch.setattr(OpenCases, "close", failing_once)
    seen, _ = run(in_time(sent, 120), n_shards=2)
    assert failed
    assert sorted(seen) == expected


@pytest.mark.parametrize("tombstone_us", [None, 1_000 * S])
def test_messages_wait_until_merging_pays(
    monkeypatch: pytest.MonkeyPatch, tombstone_us: int | None
) -> None:
    """From a number on, or from half as many as the open cases have."""
    monkeypatch.setattr(stream_caps, "_MERGE_EVENTS", 3)
    state = Cell(), Bag(), Cell(), Cell(), Cell(), Cell()
    fn = beam_stages._Assemble(replace(RULE, tombstone_us=tombstone_us), HORIZON)
    waiting = []
    for i in range(17):
        list(fn.process((0, (1, S, keyed_bytes(Sent(1, f"c{i}", "A", "e")))), *state))
        waiting.append(len(state[1].values))
    if tombstone_us is not None:  # what an older message may keep closed goes in at the closing
        assert waiting == list(range(1, 18))
        return
    # Merged at 3, 6 and 9 events, then with 4 more, and then not before 6 more.
    assert waiting == [1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 4]


class Shard:
    """A shard of the assembler without a runner, whose timers fire in their order or the other."""

    def __init__(self, horizon: int, cap: CaseCap | None = None, is_reversed: bool = False) -> None:
        self.is_reversed = is_reversed
        self.fn = beam_stages._Assemble(replace(RULE, cap=cap), horizon)
        self.opened, self.waiting, self.book = Cell(), Bag(), Cell()
        self.timer, self.following, self.over, self.counted = (Cell() for _ in range(4))
        self.closed: list[tuple[int, int]] = []  # step, cases
        self._give((0, (0, 0, b"")))

    def send(self, *sent: Sent) -> None:
        for one in sent:
            data = keyed_bytes(one, by_individual=one.individual is not None)
            self._give((0, (1, int(one.publish * S), data)))

    def _give(self, element: Any) -> None:
        state = self.opened, self.waiting, self.book, self.timer, self.following, self.over
        assert list(self.fn.process(element, *state)) == []

    def pass_to(self, second: float) -> None:
        """The watermark goes on to a moment."""
        while due := [t for t in (self.timer, self.over) if t.value and t.value <= second]:
            first = (max if self.is_reversed else min)(due, key=lambda timer: timer.value)
            fired, first.value = first.value, None
            state = self.opened, self.waiting, self.book, self.timer
            if first is self.over:
                made = list(self.fn.end_step(*state, self.counted, self.following, self.over))
            else:
                made = list(self.fn.close_step(*state, fired, self.counted, self.following))
            self.closed += [(one.value[0], one.value[1].n_cases) for one in made]


@pytest.mark.parametrize("somebody_else", [False, True])
@pytest.mark.parametrize("cap", [CaseCap(1), CaseCap(1, per_step=True)])
def test_a_late_case_takes_nothing_of_its_individual(cap: CaseCap, somebody_else: bool) -> None:
    """Whoever closes a case meanwhile: what is late is dropped before it counts for a cap."""
    shard = Shard(HORIZON, cap)
    shard.pass_to(35)  # steps 0 and 1 are released at 20 and 30
    if somebody_else:
        shard.send(Sent(33, "o", "END", "e", individual="other"))
    shard.pass_to(42)
    late = [Sent(12, f"late{i}", "END", "e", individual=f"p{i}") for i in range(9)]
    shard.send(*late)
    shard.pass_to(43)
    own = [Sent(45, f"own{i}", "END", "e", individual=f"p{i}") for i in range(9)]
    shard.send(*own)
    shard.pass_to(50)
    assert shard.closed == [*([(3, 1)] if somebody_else else []), (4, 9)]


def test_a_timer_closes_what_is_complete_when_it_fires_and_nothing_else() -> None:
    """Another may be in the book by then: a late message sets one while this is under way."""
    shard = Shard(HORIZON)

    def fire(second: int) -> list[int]:
        state = shard.opened, shard.waiting, shard.book, shard.timer
        made = shard.fn.close_step(*state, Timestamp(second), shard.counted, shard.following)
        return [one.value[0] for one in made]

    shard.send(Sent(31, "c", "END"), Sent(2, "late", "END"))
    assert shard.timer.value == Timestamp(10)
    assert [fire(10), fire(10)] == [[0], []]  # once more, though 40 is in the book
    assert shard.timer.value == Timestamp(40)
    assert fire(40) == [3]


@pytest.mark.parametrize("is_reversed", [False, True])
def test_no_case_is_late_because_of_the_order_of_timers(is_reversed: bool) -> None:
    """A watermark that leaps lets a runner fire them in any order."""
    shard = Shard(horizon=6, is_reversed=is_reversed)
    shard.send(*(Sent(second, f"c{second}", "END", "e") for second in range(1, 60, 4)))
    shard.send(Sent(3, "open", "A", "e"))
    shard.pass_to(1_000)
    counted = {step: sum(n for at, n in shard.closed if at == step) for step, _ in shard.closed}
    assert counted == {0: 2, 1: 3, 2: 3, 3: 2, 4: 3, 5: 2}
    assert shard.opened.value is None


def test_a_case_of_two_individuals_is_one_of_each() -> None:
    layout = MessageFormat(replace(MAPPING, individual_id="person"))
    sent = [
        Sent(1, "c", "A", "1", individual="anna"),
        Sent(2, "c", "B", "1", individual="bert"),
        Sent(3, "c", "C", "2", individual="anna"),
        Sent(3, "d", "C", "2", individual="anna"),
    ]
    run([sent, *ticking(0, 40)], replace(RULE, cap=CaseCap(9)), 5, layout)
    found = [traces for (_, traces), _, _ in _KEPT["closed"]]
    cases = [counted for traces in found for counted in counted_of(0, traces, {})]
    assert sorted(activities for _, _, activities in cases) == [("A", "C"), ("B",), ("C",)]
    assert len({name for _, name, _ in cases}) == 3
    whose = {traces.n_cases: set(traces.individuals.to_pylist()) for traces in found}
    assert {n: len(names) for n, names in whose.items()} == {2: 1, 1: 1}
    assert whose[1].isdisjoint(whose[2])


def keyed_bytes(sent: Sent, key: str = "env:TEST_KEY", by_individual: bool = False) -> bytes:
    """What of a message meets the state."""
    message = sent.message()
    mapping = replace(MAPPING, individual_id="person") if by_individual else MAPPING
    events, _ = MessageFormat(mapping).decode([message.value], [message.timestamp.micros])
    rule = replace(RULE, cap=CaseCap(1)) if by_individual else RULE
    fn = beam_stages._Key(rule, KeyReference(key), HORIZON, 1)
    fn.setup()
    [(_, (_, _, data))] = fn.process(events)
    return data


def test_no_text_of_a_message_meets_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent(1, "patient-7", "A very own activity", "event-of-patient-7")
    data = keyed_bytes(sent)
    assert b"patient" not in data
    assert b"very own" not in data
    assert len(keyed_bytes(sent._replace(case="patient-7" * 1_000))) == len(data)
    monkeypatch.setenv("OTHER_KEY", "6b" * 32)
    assert keyed_bytes(sent) == data != keyed_bytes(sent, "env:OTHER_KEY")
