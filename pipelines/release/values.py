"""The values that the steps of a release pass on, its extensions, and its records."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tracecloak.pipelines.configuration.plan import ReleasePlan
from tracecloak.pipelines.keys.receipts import InputFile, Receipt
from tracecloak.pipelines.planning.verdict import unusable, unusable_sentence
from tracecloak.pipelines.runners.flags import is_durable
from tracecloak.schemas.errors import NotConfirmed, UnusableRelease
from tracecloak.schemas.events.tally import ReadTally
from tracecloak.schemas.plugins import load
from tracecloak.schemas.published.manifest import ReleaseManifest, Yield
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.sources import EventSource

if TYPE_CHECKING:
    from tracecloak.pipelines.budget.draw_guard import Unchanged
    from tracecloak.pipelines.budget.registry import ReleaseRegistry
    from tracecloak.pipelines.ledger.balance import Balance
    from tracecloak.pipelines.ledger.entries import Reservation
    from tracecloak.pipelines.runners.in_memory import InMemoryDriver
    from tracecloak.pipelines.runners.on_beam import BeamDriver
    from tracecloak.transforms.batch.job import DeadLetter, Job
    from tracecloak.transforms.keys.signing import SigningReference
    from tracecloak.transforms.keys.wrapping import KeyReference

    Driver: TypeAlias = InMemoryDriver | BeamDriver
    """Runs jobs. It can raise any error; `failures` says how much of one may be shown."""


# --- What the steps of a release pass on: a run as far as it has come, its concerns, its outcome. -
# A concern is what some releases need beside their numbers. A release that does not ask for one
# loads none of its code.


# A log that is not there is told before what pays for a release and writes it is loaded.

Signature = Literal["none", "there", "by another key"]


@dataclass(frozen=True)
class Run:
    """One run of a release's command, as far as it has come.

    Attributes:
        plan: What it is to make.
        driver: What runs it.
        source: What it reads.
        files: The same, as it was when it was looked at.
        input_fingerprint: Keyed digest of that.
        unchanged: What tells later whether that changed since.
        books: Where it is written down what becomes of it, and its folder.
        operator_folder: Where what only the operator may read of the release lies.
        dead_letter: Where malformed records are listed.
        concerns: What else there is to do at each step.
        sketch_key: Under which the sketch of its cases is made, by which the ledger recognises a
            copy of a log; None: none is made.
        signer: Where the key is that signs the release; None: nobody signs.
        key: Where the release's key is, once it is paid.
        receipt: Of what it was begun, once it is paid.
    """

    plan: ReleasePlan
    driver: Driver
    source: EventSource
    files: tuple[InputFile, ...]
    input_fingerprint: str
    unchanged: Unchanged
    books: ReleaseRegistry
    operator_folder: str
    dead_letter: DeadLetter
    concerns: tuple[Extension, ...] = ()
    sketch_key: KeyReference | None = None
    signer: SigningReference | None = None
    key: KeyReference | None = None
    receipt: Receipt | None = None


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        folder: The release's folder.
        was_released_before: Whether this run found the release there and did nothing.
        dead_letter: Where the operator reads what was found in the records, such as a list of those
            that are malformed.
        came_out: What the release holds, by its own numbers.
        outputs: Paths of its files in the folder, without the manifest.
        tally: For the operator: what was found of the records; None: nobody can tell.
        balance: What the account that paid has spent with it and has left; None: nobody can tell
            now.
        signature: Whether it is signed: `none`, `there`, or `by another key` than that of `sign`.
        n_left_out: For the operator: units of a window that are left out, as they counted in other
            windows; None: it is no release of a window, or was made before.
        warnings: For the operator: what the first records of its input say of it, see `FirstLook`.
        formulas: Activities in its CSV that a spreadsheet takes for formulas.
    """

    folder: ReleaseFolder
    was_released_before: bool
    dead_letter: str
    came_out: Yield
    outputs: tuple[str, ...]
    tally: ReadTally | None
    balance: Balance | None
    signature: Signature = "none"
    n_left_out: int | None = None
    warnings: tuple[str, ...] = ()
    formulas: tuple[str, ...] = ()


class Extension:
    """Does nothing at any step: a concern overrides those at which it has something to do.

    One instance goes through one run, from `check` to `tell`.

    Attributes:
        compares_input: Whether a run that finds the release there must have the same input.
        left_out: Absolute paths of files that a person decided not to be read, once it is
            `located`.
    """

    compares_input = True
    left_out: tuple[str, ...] = ()

    def check(self, plan: ReleasePlan) -> None:
        """Refuses what cannot be released, before anything is looked at."""

    def located(self, plan: ReleasePlan) -> ReleasePlan:
        """Returns the plan with inputs that stay what they are; nothing is paid yet.

        Raises:
            TracecloakError: There is none.
        """
        return plan

    def dropped(self) -> None:
        """Takes back what `located` fetched, as the run cannot be opened."""

    def open(self, run: Run) -> None:
        """Looks for what it needs, before anything is paid."""

    def reserved(self, reservation: Reservation) -> Reservation:
        """Returns what is asked of the account."""
        return reservation

    def claim(self, run: Run, job: Job) -> Job:
        """Takes what is its own once the release is paid, and returns the job with it.

        Raises:
            TracecloakError: It cannot; nothing is drawn.
        """
        return job

    def described(self, plan: ReleasePlan, manifest: ReleaseManifest) -> ReleaseManifest:
        """Returns what the release says of itself."""
        return manifest

    def tell(self, run: Run, outcome: Outcome) -> Outcome:
        """Ends what it has open, and returns what there is to tell.

        Also of a release that was there before.
        """
        return outcome


# --- What some releases need beside their numbers: windows, queries, tables, to be of use. --------
# A concern is one class in one file and one line of `CONCERNS`. The steps of a release (`run`)
# call it where it may have something to do, and know nothing else of it: a release that does not
# ask for it loads none of its code. What a concern writes before the run, in the workplace of the
# release or in the folder of its operator, is there again for the run that goes on after a kill.


# By name: where its class is, and the value of the plan that asks for it unless it is empty.
_PACKAGE = "tracecloak.pipelines.release"
CONCERNS: dict[str, tuple[str, Callable[[ReleasePlan], object]]] = {
    "query": (f"{_PACKAGE}.querying:QueryExtension", lambda plan: plan.keys.query),
    "table": (f"{_PACKAGE}.querying:TableExtension", lambda plan: plan.keys.tables),
    "window": (f"{_PACKAGE}.window:WindowExtension", lambda plan: plan.window),
}


def extensions_of(plan: ReleasePlan) -> tuple[Extension, ...]:
    """Returns the concerns that a plan asks for."""
    return tuple(load(place)() for place, value in CONCERNS.values() if value(plan))


# --- What a release says of itself. ---------------------------------------------------------------


def manifest_of(run: Run) -> ReleaseManifest:
    """Returns what the release of a run says of itself, once it is paid."""
    plan, begun, beam_version = run.plan, run.receipt, run.driver.beam_version
    assert begun is not None  # its budget is reserved
    method, params, resolved = plan.method, plan.params, plan.params.resolved()
    manifest = ReleaseManifest(
        release_id=begun.release_id,
        method=method.name,
        method_version=method.version,
        params=resolved,
        guarantee=plan.guarantee.with_order_note(run.source.is_by_name),
        operations=method.operations_of(params),
        spends=tuple(part.to_json() for part in plan.spends),
        config_digest=plan.published_digest,
        key_fingerprint=begun.key_fingerprint,
        exact_noise=method.exact_noise,
        unsafe_barrier=beam_version is not None and not is_durable(plan.keys.runner),
        beam_version=beam_version,
        about=plan.keys.about.model_dump(exclude_none=True),
        released_on=begun.reserved_on,
        time_caveats=method.time_caveats(params),
        given={name: resolved[name] for name in params.given()},
        inner_versions=dict(method.inner_versions(params)),
    )
    for concern in run.concerns:
        manifest = concern.described(plan, manifest)
    return manifest


# --- Whether a release is of use: if public numbers say no, it is refused before it is paid. ------
# Where a person looks at a terminal, the first records count, too: if most of them do not count,
# the person is asked. Whether there is a release then follows from the data, by decision of its
# operator; the threat model says so. Nothing is asked of programs, and nothing is decided for
# them.


_LOG = logging.getLogger("tracecloak")
# In these states a run would begin a release, and pay for it.
STARTING_STATES = ("new", "reserved", "given up", "key lost")


def require_usable(run: Run) -> None:
    """Makes sure that somebody can use the release, or that it is made all the same on purpose.

    By the expected cases, the declared activities and epsilon. What is drawn already is finished,
    whatever is expected now: it is paid.

    Raises:
        UnusableRelease: Nobody could use it, and `even_if_unusable` is not set.
    """
    if run.books.look().state not in STARTING_STATES or (verdict := unusable(run.plan)) is None:
        return
    sentence = unusable_sentence(verdict)
    if not run.plan.keys.even_if_unusable:
        raise UnusableRelease(
            f"{sentence} Nothing was claimed or paid; to release it all the same, set "
            "even_if_unusable"
        )
    _LOG.warning("%s It is released all the same, as even_if_unusable is set", sentence)


def require_confirmation(run: Run, confirm: Callable[[str], bool] | None) -> None:
    """Asks whether to go on, if the run would pay and most of its first records do not count.

    Args:
        run: As it was opened.
        confirm: Asks the operator; True means yes. None: nobody is asked.

    Raises:
        NotConfirmed: The answer is no; nothing was reserved.
        InputSchemaError: A file cannot be read.
    """
    from tracecloak.pipelines.planning.findings import FirstLook  # loaded on use

    unread = ""
    if confirm is not None and run.books.look().state in STARTING_STATES:
        unread = FirstLook.at(run.plan, run.source).unread
    if confirm is None or not unread or confirm(f"{unread}. Release it all the same?"):
        return
    for concern in run.concerns:
        concern.dropped()
    raise NotConfirmed(
        "the release was not confirmed, so nothing was reserved or paid; correct what `tracecloak "
        "plan` says of the first records, or answer with yes"
    )
