"""An epoch of a stream: what is checked, paid and noted before and while it runs, and its end."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import logging
import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apache_beam.io.filesystems import FileSystems

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.anonymizers.contract.sentences import sentences
from tracecloak.pipelines.budget.draw_guard import DrawGuard, draw_guard_of
from tracecloak.pipelines.budget.opening import check_worker_keys, open_ledger, open_store
from tracecloak.pipelines.budget.registry import ReleaseRegistry, ledger_state
from tracecloak.pipelines.keys.key_store import STREAM_STATE, KeyStore
from tracecloak.pipelines.keys.receipts import Origin
from tracecloak.pipelines.ledger.entries import Reservation, reservation_of
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.runners.flags import LOCAL, is_durable
from tracecloak.pipelines.runners.on_beam import version
from tracecloak.pipelines.stream.plan import (
    StreamPlan,
    digest_of,
    forms_of,
    resolve,
    step_sinks,
    table_sinks,
)
from tracecloak.schemas.calendar.durations import duration_text
from tracecloak.schemas.errors import BudgetExhausted, TracecloakError, UsageError
from tracecloak.schemas.published.manifest import MANIFEST_NAME, ReleaseManifest
from tracecloak.schemas.published.step import Step
from tracecloak.transforms.files import (
    join,
    read_if_there,
    remove_folder,
    require_writable,
)
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.operator_log import operator_log
from tracecloak.transforms.publish import statement as statements
from tracecloak.transforms.publish.release_folder import STATEMENT_NAME, check_places
from tracecloak.transforms.services.kafka_clock import CLOCK_SKEW_US
from tracecloak.transforms.stream.step_sinks import (
    FileSink,
    KeptLogs,
    KeptSteps,
    add_up,
    epoch_workplace,
    write_whole,
)

if TYPE_CHECKING:
    from tracecloak.transforms.stream.local_stream import Sink


# --- What is noted of an epoch that has begun: its configuration, and its decided steps. ----------
# A stream whose state is lost, and whose files a consumer moved away, looks as if it had
# published nothing. Its steps would be drawn once more, on other counts, for one spend. So a step
# is noted in the ledger and in the key store before anybody sees a byte of it. A stream that
# begins with fewer steps than are noted publishes nothing.


# --- The configuration of an epoch that has begun: a vocabulary that grows, and another horizon. --
# A public vocabulary may get more names. A case still counts in one step, with a vector of the
# same clip, over more cells; and noise of the same scale is drawn for each cell, whatever their
# number. So what one case changes over all steps, and epsilon and delta, are as before. The names
# count from the first step on that begins after the stream has started with them: a message that
# was published before that is of `__other__`, or of a closed vocabulary left out, whenever it is
# read. So which cell an event is in is a function of the event and of public numbers, and never
# of how far the messages of others were read. The names are a person's choice, and are never
# taken from the data.
#
# Another horizon is another epoch, since what was published promises this one.


def resumed(
    plan: StreamPlan, store: KeyStore, clock: Callable[[], float] = time.time
) -> StreamPlan:
    """Returns the plan with which an epoch begins or goes on. Nothing is written.

    It is the given one, with what is known of names that came later, and under the clip of the
    first vocabulary. If the epoch did not begin with it, and not with fewer names, it is returned
    as it is: its digest is not that of the receipt. So is one that this has returned.

    Args:
        plan: What is published, of what.
        store: The key store.
        clock: Seconds since 1970 UTC.

    Raises:
        UsageError: Nothing differs but the horizon, or a vocabulary that cannot grow so.
        TracecloakError: The published manifest is damaged.
    """
    keys, place = plan.keys, plan.place
    receipt, last_step = store.receipt(*place), store.last_step(*place)
    is_running = store.key_state(receipt) == "there"
    if receipt is None or plan.since or not (is_running or last_step is not None):
        return plan
    noted = json.loads(store.noted(*place, ".names") or "{}")
    if noted.pop("key", None) != receipt.key_fingerprint:  # or it is of a run that lost its key
        if receipt.config_digest == plan.digest:
            return plan
        path = join(plan.folder, MANIFEST_NAME)
        try:
            noted = dict(json.loads(read_if_there(path) or "{}").get("params", {}))
        except (ValueError, TypeError, AttributeError):  # no JSON, or another value
            raise TracecloakError(
                f"{path} is damaged, by which the stream knows how its epoch was begun; restore it"
            ) from None
    noted = {"vocabulary": keys.vocabulary, "horizon": keys.horizon, "since": {}} | noted
    since: dict[str, int] = noted["since"]
    changed = {"vocabulary": tuple(noted["vocabulary"]), "horizon": noted["horizon"]}
    begun = keys.model_copy(update=changed)
    if digest_of(begun) != receipt.config_digest:  # a manifest that was changed is found, too
        return plan

    def refused(reason: str, remedy: str) -> UsageError:
        return UsageError(
            f"epoch {keys.epoch!r} of {keys.release_id!r} was begun with another "
            f"configuration: {reason}. {remedy}, or begin another epoch, which is another spend"
        )

    first = resolve(begun)
    if begun.horizon != keys.horizon:
        charged = f"epsilon {decimal_text(first.epsilon)} with delta {decimal_text(first.delta)}"
        raise refused(
            f"it is charged {charged} for {begun.horizon:,} steps, and each step promises that",
            f"Set horizon to {begun.horizon} again",
        )
    known, names = {*begun.vocabulary, *since}, set(keys.vocabulary)
    if lost := sorted(known - names):
        raise refused(
            f"its vocabulary has {lost[0]!r}, and can only get more names",
            "Add what is missing",
        )
    if is_running and (new := sorted(names - known)):
        now_us: Any = int(clock() * 1e6) + CLOCK_SKEW_US  # no message from then on is read yet
        step = max(int(plan.rule.step_of(now_us)) + 1, 0)
        since |= dict.fromkeys(new, step)
        if step >= keys.horizon:
            raise refused("no step begins in which more names could count", "Leave them out")
    if since and (keys.runner not in (LOCAL, "DirectRunner") or keys.product != "dfg"):
        raise refused(
            f"its vocabulary grows with product dfg and runner {LOCAL} alone, as other state has "
            "the numbers of its names for good",
            "Leave the new names out",
        )
    grown = resolve(keys, begun, since)
    if grown.spends != first.spends:
        raise refused("more names would need other noise than was paid for", "Leave them out")
    return grown


# --- Notes on the decided steps of a stream, in the ledger and in the key store. ------------------


@dataclass(frozen=True)
class NotedSteps:
    """The steps of one epoch that are decided, as ledger and key store note them; it pickles.

    Attributes:
        gate: Of the epoch; by it workers on this machine find the ledger.
    """

    gate: DrawGuard

    def send(self, released: Step) -> None:
        """Notes that a step is decided, first in the ledger; a step that is noted stays as it is.

        Args:
            released: What the step releases, of which nobody has seen a byte.

        Raises:
            UsageError: The epoch was withdrawn.
            GuaranteeError: The step was decided before, with another release.
            RetryLater: The ledger does not answer now.
            LedgerError: The ledger cannot be used.
            KeyStoreError: The key store cannot be used.
        """
        step = released.key[-1]
        sha256 = hashlib.sha256(released.to_kept()).hexdigest()
        self.gate.ledger().note_step(self.gate.keyed_release, step, sha256)
        self.gate.store().note_step(self.gate.output, self.gate.release_id, step)

    def last(self, ledger: Ledger | None = None) -> int:
        """Returns the last step that the ledger or the key store notes; -1: they note none.

        Args:
            ledger: The ledger that pays; None: as the gate opens it, which keeps a copy of it.

        Raises:
            LedgerError: The ledger cannot be read.
            KeyStoreError: The key store cannot be read.
        """
        ledger = ledger or self.gate.ledger()
        past = ledger.past(is_sound=True)
        decided = past.last_decided(self.gate.keyed_release)
        noted = self.gate.store().last_step(self.gate.output, self.gate.release_id)
        return max(-1 if step is None else step for step in (decided, noted))


def end_epoch(store: KeyStore, output: str, name: str) -> None:
    """Deletes what only a running epoch needs; see `Epoch.end`.

    Args:
        store: The key store.
        output: The folder of all releases.
        name: Of the stream and its epoch.

    Raises:
        KeyStoreError: The key store cannot be used.
    """
    store.commit(output, name)
    identities = f"{name.partition('@')[0]}@"
    epochs = [one.release_id for one in store.receipts(".key") if one.output == output]
    if not any(one.startswith(identities) and one != identities for one in epochs):
        store.forget_for_workers(output, identities)


# --- An epoch of a stream: what is checked, paid and written before a message is read, and its end.
# The cost of the whole horizon is charged to the ledger before a message is read, and never given
# back, as nobody knows how much a stream that was cut off has published. The key of the epoch
# stays in the key store until the last step is published. Every runner of streams begins here.


_LOG = logging.getLogger("tracecloak")
_ORIGIN = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NO_KEY = "0" * 64  # a fingerprint that no key has
_STEP = re.compile(r"step-(\d+)[^\d][^\\]*$")


# (Key of the epoch's noise, key of identities).
Keys = tuple[KeyReference, KeyReference]


@dataclass(frozen=True)
class StreamOutcome:
    """How a stream ended.

    Attributes:
        folder: Where its epoch lies.
        is_spent: Whether the last step of the horizon is published.
    """

    folder: str
    is_spent: bool


@dataclass(frozen=True)
class Epoch:
    """An epoch that is paid for.

    Attributes:
        plan: What is published, of what.
        keys: (key of the epoch's noise, key of identities).
        noted: What ledger and receipt note of its steps.
        private: Folder of the operator, beside the keys.
        workplace: Where files are written before they appear, see `step_sinks.write_whole`.
        rejected: The folder in which messages that cannot be read are listed.
        steps: Where what each step releases is kept.
        logs: Which topics of Kafka it reads where workers keep their places in them.
        state_path: Where a stream on this machine keeps its state until all is published.
    """

    plan: StreamPlan
    keys: Keys
    noted: NotedSteps
    private: str
    workplace: str
    rejected: str
    steps: KeptSteps
    logs: KeptLogs
    state_path: Path

    @classmethod
    def of(cls, plan: StreamPlan, keys: Keys, gate: DrawGuard, store: KeyStore) -> Epoch:
        """Returns an epoch that is paid for; see the attributes."""
        private, config = store.operator_folder(*plan.place), plan.keys
        steps = KeptSteps(FileSystems.join(private, "decisions"), plan.product.released)
        workplace = epoch_workplace(
            plan.place[0], config.release_id, config.epoch, config.staging_area
        )
        logs, state_path = KeptLogs(steps.folder, keys[0]), Path(private) / STREAM_STATE
        rejected = config.dead_letter or private
        noted = NotedSteps(gate)
        return cls(plan, keys, noted, private, workplace, rejected, steps, logs, state_path)

    @cached_property
    def manifest(self) -> ReleaseManifest:
        """What the stream says of itself."""
        return manifest_of(self.plan, self.noted.gate.key_fingerprint)

    @property
    def sinks(self) -> list[Sink]:
        """What gets its steps, in this order: the files, and the table if there is one; it pickles.

        Raises:
            UsageError: The table is of a kind that is not written.
        """
        plan, manifest = self.plan, self.manifest
        files = FileSink(plan.place[0], forms_of(plan.keys), manifest, self.workplace)
        return [files, *table_sinks(plan.keys, manifest.key_fingerprint)]

    @property
    def last_published(self) -> int:
        """The last step whose files are there; -1: there is no step."""
        keys = self.plan.keys
        place = FileSystems.join(self.plan.folder, f"product={keys.product}", f"view={keys.view}")
        ending = self.plan.product.released.json_ending
        (listing,) = FileSystems.match([FileSystems.join(place, f"step-*{ending}")])
        numbers = (_STEP.search(one.path) for one in listing.metadata_list)
        return max((int(number[1]) for number in numbers if number is not None), default=-1)

    @property
    def is_spent(self) -> bool:
        """Whether the last step of the horizon is published, in all places that get it."""
        if self.plan.keys.runner == LOCAL:  # a consumer may have moved the files away
            store = self.noted.gate.store()
            receipt = store.receipt(*self.plan.place)
            return receipt is not None and receipt not in store.receipts(".key")
        return self.last_published == self.plan.keys.horizon - 1

    def send_last(self) -> None:
        """Sends the last step once more to all that get it, as its job may not have come so far.

        Files and tables take a step once; in a topic it has the key that it has.

        Raises:
            RetryLater: One of them takes nothing now.
            TracecloakError: One refuses it, or the kept step was changed.
        """
        last = self.steps.of(self.plan.keys.horizon - 1, self.keys[0].resolve())
        if last is not None:
            for sink in (*self.sinks, *step_sinks(self.plan.keys)):
                sink.send(last.released)

    def note_kept(self) -> None:
        """Notes kept steps that workers decided and could not note themselves.

        Raises:
            TracecloakError: See `NotedSteps`; or what is kept was changed.
        """
        key = self.keys[0].resolve()
        for step in range(self.noted.last() + 1, self.steps.last() + 1):
            if (kept_step := self.steps.of(step, key)) is not None:
                self.noted.send(kept_step.released)

    def end(self) -> None:
        """Notes that all steps are published: the key of the epoch and its state are deleted.

        Of the key of identities the copy for workers is deleted, unless another epoch of the stream
        needs it.

        Raises:
            KeyStoreError: The key store cannot be used.
        """
        store = self.noted.gate.store()
        store.note_step(*self.plan.place, self.plan.keys.horizon - 1)
        end_epoch(store, *self.plan.place)
        remove_folder(self.steps.folder)

    def last_decided(self, ledger: Ledger | None = None) -> int:
        """Returns the last decided step, by the files, the ledger or the kept steps; -1: none is.

        Args:
            ledger: See `NotedSteps.last`.

        Raises:
            LedgerError: The ledger cannot be read.
            KeyStoreError: The key store cannot be read.
        """
        return max(self.last_published, self.noted.last(ledger), self.steps.last())


@contextlib.contextmanager
def paid_epoch(plan: StreamPlan, clock: Callable[[], float] = time.time) -> Iterator[Epoch]:
    """Begins an epoch, or goes on with one; no other process can run it during the block.

    The cost of the horizon is charged once, and the manifest is written. If the last step is
    published when the block ends, the key is deleted, as nothing more is drawn.

    Args:
        plan: What is published, of what.
        clock: Seconds since 1970 UTC.

    Raises:
        UsageError: A place cannot be written to, another process runs the epoch, or it was begun
            with another configuration, or was withdrawn.
        BudgetExhausted: The account has too little left, or the epoch is over.
        MadeByAnother: Another key store has begun the epoch, and paid for it.
    """
    config = plan.keys
    check_places(plan.place[0], config.dead_letter)
    require_writable("output", config.output)
    if config.dead_letter is not None:
        require_writable("dead_letter", config.dead_letter)
    store = open_store(config)
    ledger = open_ledger(config, store)
    check_worker_keys(config)
    with store.alone(*plan.place):
        plan, keys = _paid(plan, store, ledger, clock)
        keyed_release = *plan.place, keys[0].resolve().fingerprint
        epoch = Epoch.of(plan, keys, draw_guard_of(store, keyed_release, ledger.url), store)
        remove_folder(epoch.workplace)  # a run that was cut off may have left some of a file
        _write_manifest(epoch)
        for line in explained(plan):
            _LOG.info("%s", line)
        _LOG.info("findings in the messages are for the operator alone, in %s", epoch.rejected)
        if config.runner != LOCAL and epoch.is_spent:  # nobody was there to note the end
            epoch.send_last()
            epoch.end()
            raise spent_error(plan)
        with operator_log(epoch.rejected):
            add_up(epoch.rejected)
            yield epoch
        remove_folder(epoch.workplace)
        if epoch.is_spent:
            epoch.end()


def manifest_of(plan: StreamPlan, key_fingerprint: str) -> ReleaseManifest:
    """Returns what a stream says of itself; nothing of it was counted on the input."""
    keys, product = plan.keys, plan.product
    names = (
        "product", "view", "sliding_steps", "epsilon", "delta", "max_cases", "vocabulary",
        "max_trace_length", "l2_clip", "guarantee", "w_event_steps", "max_cases_per_individual",
        "log_params", "horizon", "end_activity",
    )  # fmt: skip
    dumped = plan.begun.model_dump(mode="json")
    durations = ("period", "gap", "max_lifetime", "max_disorder", "tombstone", "release_delay")
    given = (name for name in durations if dumped[name] is not None)
    params = {
        **{name: dumped[name] for name in names},
        **{f"{name}_seconds": dumped[name] / 1_000_000 for name in given},
        "start": (_ORIGIN + datetime.timedelta(microseconds=keys.start)).isoformat(),
    }
    if keys.allow_large_delta:
        params["allow_large_delta"] = True
    guarantee = plan.guarantee
    restarted = (
        "Epochs add up: a case in steps of two of them, as after a restart that forgets who has "
        "closed, is protected with the sum of their epsilons."
    )
    return ReleaseManifest(
        release_id=plan.name.both,
        method=plan.method_name,
        method_version=product.version,
        params=params,
        guarantee=replace(
            guarantee,
            not_covered=(*guarantee.not_covered, *counted_again(plan), restarted),
        ),
        operations=product.operations,
        spends=tuple(part.to_json() for part in plan.spends),
        config_digest=plan.published_digest,
        key_fingerprint=key_fingerprint,
        exact_noise=True,
        unsafe_barrier=not is_durable(keys.runner),
        beam_version=version(),
    )


def explained(plan: StreamPlan) -> tuple[str, ...]:
    """Returns what each step publishes, at which error, and how often a case counts."""
    again = counted_again(plan) or sentences("streams", "once", None)
    return (*plan.product.explain(), *again)


def counted_again(plan: StreamPlan) -> tuple[str, ...]:
    """Returns what it costs that closed cases are forgotten before the horizon ends, if so."""
    n_times, gap = plan.rule.most_counts(plan.keys.horizon)
    if n_times == 1:
        return ()
    costs = None
    if plan.rule.cap is None:
        epsilon, delta = plan.product.repeated(n_times, gap)
        costs = f"{math.ceil(epsilon * 100) / 100:g}", f"{float(delta):.3g}"
    remembered = duration_text(plan.keys.tombstone or 0)
    return sentences("streams", "again", None, n_times=n_times, remembered=remembered, costs=costs)


def _write_manifest(epoch: Epoch) -> None:
    """Writes manifest and statement when an epoch begins, and when its vocabulary has grown."""
    plan, config, manifest = epoch.plan, epoch.plan.keys, epoch.manifest
    path = FileSystems.join(plan.folder, MANIFEST_NAME)
    if FileSystems.exists(path) and not plan.since:
        return
    body = {
        **manifest.to_json([]),
        "stream": {
            "epoch": config.epoch,
            "start_us": config.start,
            "period_us": config.period,
            "n_steps": config.horizon,
            **({"vocabulary_since": plan.since} if plan.since else {}),
            "explained": list(explained(plan)),
            "runner": config.runner,
            "runner_facts": [
                *statements.sentences("runner_facts.txt.j2", runner=config.runner).values()
            ],
        },
    }
    has_counts = not plan.product.released.has_log
    statement = statements.publishable_statement(manifest, has_error_bars=has_counts).encode()
    write_whole(FileSystems.join(plan.folder, STATEMENT_NAME), statement, epoch.workplace)
    text = json.dumps(body, indent=2, ensure_ascii=False) + "\n"
    write_whole(path, text.encode(), epoch.workplace)


def _paid(
    plan: StreamPlan, store: KeyStore, ledger: Ledger, clock: Callable[[], float]
) -> tuple[StreamPlan, Keys]:
    """Charges the cost of the horizon to the account once.

    Returns:
        See `resumed`; and (noise key, identity key).

    Raises:
        UsageError: The epoch was begun with another configuration, or was withdrawn, or there is no
            place in which files can be written before they are seen.
        BudgetExhausted: The account has too little left, or the epoch is over.
        MadeByAnother: Another key store has begun the epoch, and paid for it.
        TracecloakError: Steps of it were decided, and its key is gone.
    """
    place = output, _ = plan.place
    try:
        plan, _ = check_goes_on(plan, store, ledger, clock)
    except BudgetExhausted:
        end_epoch(store, *place)  # who noted its end may have been stopped before this
        raise
    plan.release_folder.prepare()
    shared = identities_name(plan)
    with store.alone(output, shared):  # another epoch may begin, which holds another lock
        identities = store.reserve(output, shared, "", "")
    books = ReleaseRegistry(store, ledger, plan.release_folder, plan.name.both)
    asked = partial(reservation_of_epoch, plan)
    key, _ = books.reserve(("", plan.digest), _origin(plan), asked)
    ledger.commit(*place, key.fingerprint)
    if plan.since:
        first = {"vocabulary": plan.begun.vocabulary, "horizon": plan.keys.horizon}
        note = json.dumps({"key": key.fingerprint, **first, "since": plan.since})
        store.note(*place, ".names", note)
    return plan, (key, identities)


def reservation_of_epoch(plan: StreamPlan, key_fingerprint: str) -> Reservation:
    """Returns what an epoch takes from its account, for all of its steps together."""
    asked = reservation_of(plan, plan.release_folder, key_fingerprint)
    return replace(asked, release_id=plan.name.both)


def identities_name(plan: StreamPlan) -> str:
    """Returns the name of the key of identities of all epochs: who has closed stays closed."""
    return f"{plan.keys.release_id}@"


def check_goes_on(
    plan: StreamPlan, store: KeyStore, ledger: Ledger, clock: Callable[[], float] = time.time
) -> tuple[StreamPlan, bool]:
    """Makes sure that an epoch can begin or go on. It writes nothing.

    Returns:
        See `resumed`; and whether it begins.

    Raises:
        UsageError: It was withdrawn, begun with another configuration, or has another horizon, or
            its vocabulary cannot grow so.
        BudgetExhausted: It is over.
        MadeByAnother: Another key store has begun it, and paid for it.
        TracecloakError: Steps of it were decided, and its key is gone; or the key is gone under
            which it remembers identities; or another version of its product began it.
    """
    output, both = plan.place
    plan = resumed(plan, store, clock)
    keys = plan.keys
    epoch = f"epoch {keys.epoch!r} of {keys.release_id!r}"
    states = ledger.states(output, both)
    if ledger_state(states, None) == "withdrawn":
        raise UsageError(
            f"release_id {both!r} in {output} was withdrawn, and is not released again; begin "
            "another epoch, which is another spend"
        )
    receipt = store.receipt(output, both)
    key = store.key_state(receipt)
    last_step = store.last_step(output, both)
    begun = receipt if key == "there" else None
    known = begun if last_step is None else receipt
    if known is not None and known.config_digest != plan.digest:
        raise UsageError(
            f"{epoch} was begun with another configuration; begin another epoch, which is another "
            "spend"
        )
    if key == "ended" and last_step == keys.horizon - 1:
        raise spent_error(plan)
    if begun is None and last_step is not None:
        raise TracecloakError(
            f"step {last_step} of {epoch} was decided, and the key of the epoch is gone from the "
            "key store: restore the whole store, or begin another epoch, which is another spend"
        )
    now, whose = _origin(plan), f"product {keys.product}"
    if begun is not None and not begun.origin.is_drawn_alike(now):
        raise TracecloakError(
            f"{epoch} was begun by {begun.origin.versions(whose)}, and this build has "
            f"{now.versions(whose)}, whose noise is another: go on with that build, or begin "
            "another epoch, which is another spend"
        )
    if begun is not None and store.unfinished(output, identities_name(plan)) is None:
        raise TracecloakError(
            f"the key of identities of {keys.release_id!r} is gone: closed cases would count anew; "
            "restore the whole key store, or begin another epoch, which is another spend"
        )
    if states:
        from tracecloak.pipelines.ledger.caps import is_charged

        fingerprint = _NO_KEY if begun is None else begun.key_fingerprint
        is_charged(states, reservation_of_epoch(plan, fingerprint))
    return plan, begun is None


def begun_epoch(plan: StreamPlan, store: KeyStore, ledger: Ledger) -> Epoch | None:
    """Returns an epoch that goes on, as its run has it; None: it begins. It writes nothing.

    Raises:
        TracecloakError: See `check_goes_on`.
    """
    plan, is_new = check_goes_on(plan, store, ledger)
    if is_new:
        return None
    output, name = plan.place
    begun, remembers = (store.unfinished(output, one) for one in (name, identities_name(plan)))
    assert begun is not None and remembers is not None  # it goes on
    key, identities = store.key_of(begun), store.key_of(remembers)
    gate = DrawGuard(str(store.path / "releases" / "gate"), output, name, key.fingerprint)
    return Epoch.of(plan, (key, identities), gate, store)


def spent_error(plan: StreamPlan) -> BudgetExhausted:
    """Returns the error of an epoch that is over."""
    return BudgetExhausted(
        f"the budget of epoch {plan.keys.epoch!r} of {plan.keys.release_id!r} is spent: its last "
        "step is published. Begin another epoch, which is another spend"
    )


def _origin(plan: StreamPlan) -> Origin:
    product = plan.product
    return Origin(
        product.version,
        staging_area=plan.keys.staging_area,
        inner_versions=dict(product.inner_versions),
    )
