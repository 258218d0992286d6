"""One window of a schedule: what its release reads, claims, costs and states of itself."""

from __future__ import annotations

import datetime
import logging
import time
import uuid
from dataclasses import replace

from tracecloak.anonymizers.rigorous.parts_method import windows_sentence
from tracecloak.pipelines.budget.opening import store_of
from tracecloak.pipelines.configuration.plan import ReleasePlan
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.notes import left_out_of
from tracecloak.pipelines.ledger.case_registry import CaseRegistry, scope_of
from tracecloak.pipelines.ledger.entries import Reservation, WindowCharge
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.release.values import Extension, Outcome, Run
from tracecloak.pipelines.runners.flags import is_local
from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.schemas.published.manifest import ReleaseManifest
from tracecloak.transforms import files
from tracecloak.transforms.batch.job import Job, WindowPart
from tracecloak.transforms.keys.wrapping import KeyReference

# --- What a release says of the window that it is of: public numbers alone. -----------------------


# How many, which and why is for the operator, and neither is computed from what is released.
_LEFT_OUT = (
    "Files that could not be read were left out by decision, before its cases were counted. The "
    "promise compares logs after this decision: it does not cover that there were such files, or "
    "what was in them."
)


def moment(time_us: int) -> str:
    """Returns a time in UTC, such as 2026-11-23 14:00:00Z."""
    time = datetime.datetime.fromtimestamp(time_us // 1_000_000, datetime.UTC)
    return f"{time:%Y-%m-%d %H:%M:%S}Z"


# ---
# One window of a schedule: what its release reads, which units it claims, and what it pays for.


_OPERATOR = logging.getLogger("tracecloak.operator")
_UNITS = "units"


class WindowExtension(Extension):
    """Has a release count the units of one window that no other window has, and pay for these."""

    # What came late into a window that is released stays outside, so its input may be another.
    compares_input = False

    # Once it is opened: what the ledger is told of it, which cases count, and the counted units.
    _charge: WindowCharge | None = None
    _part: WindowPart | None = None
    _book: CaseRegistry | None = None
    _plan: ReleasePlan | None = None
    _n_left_out: int | None = None

    def check(self, plan: ReleasePlan) -> None:
        """Makes sure that the window can be released now.

        Raises:
            RetryLater: It is not over, or what belongs to it can still come.
        """
        window = plan.window
        if window is not None and time.time_ns() // 1_000 < window.due_us:
            raise RetryLater(
                f"window {window.label} is released from {moment(window.due_us)} on: until then "
                "what belongs to it can still come; nothing was read or paid"
            )

    def located(self, plan: ReleasePlan) -> ReleasePlan:
        """Looks up which files a person decided to leave out of this window.

        Raises:
            KeyStoreError: That cannot be read.
        """
        self.left_out = _left_out_of(plan)
        return plan

    def open(self, run: Run) -> None:
        """Opens the book of counted units.

        Raises:
            UsageError: Its key is not there.
        """
        self._plan, books = run.plan, run.books
        opened = released_window(run.plan, books.store, books.ledger, run.operator_folder)
        self._charge, self._part, self._book = opened

    def reserved(self, reservation: Reservation) -> Reservation:
        """Returns what is asked of the account, for this window.

        Raises:
            CaseRegistryError: It is not known what was counted, so nothing may be paid.
            RetryLater: Somebody decided meanwhile which files are left out.
        """
        assert self._book and self._charge and self._plan  # it is opened
        # Nobody decides while the release is at work, but somebody may have just before.
        if _left_out_of(self._plan) != self.left_out:
            raise RetryLater(
                "it was decided just now which files this window leaves out, and nothing was paid: "
                "run the same command again"
            )
        self._book.check(self._charge.scope)
        return replace(reservation, window=self._charge)

    def claim(self, run: Run, job: Job) -> Job:
        """Claims the units of the window, which a first run over the log finds, unless they are.

        Raises:
            LedgerError: What was counted is gone or was changed, or the ledger cannot be used.
        """
        book, part, key = self._book, self._part, run.key
        assert book and part and key  # its budget is reserved
        job, keyed_release = replace(job, part=part), run.books.keyed_release(key.fingerprint)
        claimed = book.frozen(*keyed_release)
        if claimed is None:
            claimed = book.claim(*keyed_release, run.driver.units(job))
        files.write_anew(part.frozen, claimed.units.to_bytes())
        self._n_left_out = claimed.n_left_out
        if claimed.n_left_out:
            _OPERATOR.info(
                "units that are left out, as they counted in other windows: %d", claimed.n_left_out
            )
        return job

    def described(self, plan: ReleasePlan, manifest: ReleaseManifest) -> ReleaseManifest:
        """Says which window it is, and what several cost together."""
        schedule, window = plan.schedule, plan.window
        if schedule is None or window is None:
            return manifest
        costs = windows_sentence(plan.method, plan.params)
        composition = "none" if not costs else "sum" if plan.windows_add_up else "largest"
        belongs = "ends" if schedule.by == "close" else "begins"
        sentence = (
            f"This is window {window.label} of {schedule.dataset}, from {moment(window.begin_us)} "
            f"to before {moment(window.end_us)}. A case belongs to the window in which it "
            f"{belongs}, and counts in one window only. {costs}"
        ).rstrip()
        facts = {
            "label": window.label,
            "begin": moment(window.begin_us),
            "end": moment(window.end_us),
            "dataset": schedule.dataset,
            "period": schedule.period,
            "time_zone": schedule.time_zone,
            "by": schedule.by,
            "composition": composition,
            "sentence": f"{sentence} {_LEFT_OUT}" if self.left_out else sentence,
        }
        return replace(manifest, window=facts)

    def tell(self, run: Run, outcome: Outcome) -> Outcome:
        """Removes the copy of the units that the run read, and says how many are left out."""
        assert self._part is not None  # before it was made
        files.remove_folder(self._part.frozen)
        return replace(outcome, n_left_out=self._n_left_out)


def released_window(
    plan: ReleasePlan, store: KeyStore, ledger: Ledger, place: str
) -> tuple[WindowCharge, WindowPart, CaseRegistry]:
    """Returns what the ledger is told of the window of a plan, which cases count, and their book.

    Args:
        plan: With a window.
        store: The key store that releases it.
        ledger: The ledger that pays for it.
        place: Folder that the operator and the workers alone read: the size of a file of units
            tells how many there are.

    Raises:
        UsageError: The key of the counted units is not there.
    """
    schedule, window, cap = plan.schedule, plan.window, plan.bounds.max_cases_per_individual
    scoped = _scope_and_key(plan, store)
    assert schedule is not None and window is not None and scoped is not None
    scope, key = scoped
    # Of each run its own, so that none reads what another one with other input left.
    found = files.join(place, f"{_UNITS}-{uuid.uuid4().hex[:16]}")
    part = WindowPart(schedule, window, key, cap is not None, found, files.join(place, _UNITS))
    charge = WindowCharge(scope, window.label, plan.windows_add_up)
    return charge, part, CaseRegistry(key.resolve(), ledger, cap)


def known_scope(plan: ReleasePlan, store: KeyStore) -> str | None:
    """Returns the scope that a plan's windows are charged to; nothing is made for it.

    None: there is no schedule, or no key of a book yet, so that no window was charged.

    Raises:
        UsageError: The key of the book that is named is not there.
    """
    scoped = _scope_and_key(plan, store, makes=False)
    return None if scoped is None else scoped[0]


def _scope_and_key(
    plan: ReleasePlan, store: KeyStore, makes: bool = True
) -> tuple[str, KeyReference] | None:
    """Returns the scope of a plan's windows, and where its key is; None: there is none.

    Raises:
        UsageError: The key is not there, or workers elsewhere could not find it.
    """
    schedule, columns = plan.schedule, plan.keys.columns
    if schedule is None or not (makes or plan.book_key or (store.path / "book.secret").exists()):
        return None
    if plan.book_key is not None:
        key = KeyReference(plan.book_key)
        key = replace(key, fingerprint=key.resolve().fingerprint)
    else:
        check_book_key(plan)
        key = store.own_key("book")
    names = [columns.case_id or "", columns.individual_id or ""]
    # Read in another way an identity is another one, which the book does not know.
    names += [
        f"{name} in whole numbers"
        for name in ("case_id", "individual_id")
        if plan.mapping.has_whole_numbers(name)
    ]
    scope = scope_of(
        schedule.digest, schedule.dataset, plan.guarantee.unit, names,
        plan.bounds.max_cases_per_individual, key.resolve().fingerprint,
    )  # fmt: skip
    return scope, key


def check_book_key(plan: ReleasePlan) -> None:
    """Makes sure that workers elsewhere are told where the key of the book is.

    Raises:
        UsageError: They are not.
    """
    runner = plan.keys.runner
    if plan.schedule is not None and not plan.book_key and not is_local(runner):
        raise UsageError(
            f"book_key is missing: workers of runner {runner} do not see the key store; name a key "
            "that they can read and that never changes, such as file:gs://BUCKET/keys/book"
        )


def verify_book(plan: ReleasePlan, store: KeyStore, ledger: Ledger) -> int:
    """Compares all counted units of a plan's schedule with the ledger.

    Returns:
        How many claims there are.

    Raises:
        LedgerError: Some are gone or were changed, or the ledger cannot be used.
    """
    scoped = _scope_and_key(plan, store, makes=False)
    if scoped is None:
        return 0
    scope, key = scoped
    return CaseRegistry(key.resolve(), ledger, None).check(scope, compares_all=True)


def _left_out_of(plan: ReleasePlan) -> tuple[str, ...]:
    """Returns the files that are left out of the window of a plan by decision."""
    keys = plan.keys
    decided = left_out_of(store_of(keys), files.absolute(keys.output), str(keys.release_id))
    return tuple(one.path for one in decided)
