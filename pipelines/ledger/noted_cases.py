"""Sketches of the cases that releases read, by which copies of a log are recognised."""

from __future__ import annotations

import datetime
import hashlib
import logging
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import sqlalchemy as sa

from tracecloak.anonymizers.contract.case_digests import CaseSketch
from tracecloak.pipelines.keys.receipts import today
from tracecloak.pipelines.ledger.balance import charges
from tracecloak.pipelines.ledger.database import CASES, Database, LedgerError
from tracecloak.pipelines.ledger.entries import UNDRAWN, Entry, KeyedRelease
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.batch.job import WrittenSketch
from tracecloak.transforms.files import absolute, read_if_there

# --- How a privacy officer reads and erases the notes on releases' cases. -------------------------


def erase(
    ledger: OfficersLedger,
    output: str | None,
    release_id: str | None,
    before: str | None,
    by: str,
    reason: str,
) -> int:
    """Erases notes on releases' cases, and enters in the ledger that they were erased.

    The ledger is written first, so that nothing is gone without a reason that can be read.

    Args:
        ledger: The ledger beside which it is noted.
        output: The folder of all releases that they went to; None: any.
        release_id: Their name; None: any.
        before: They were noted before this day, as 2026-12-31; None: whenever.
        by: Who erases it.
        reason: Why.

    Returns:
        The number of releases whose notes were erased.

    Raises:
        UsageError: `before` is no day, or nobody and no reason is named.
        LedgerError: The ledger or the table cannot be written.
    """
    if before is not None:
        try:
            before = datetime.date.fromisoformat(before).isoformat()
        except ValueError:
            raise UsageError(f"before must be a day such as 2026-12-31, got {before!r}") from None
    given = {"output": output and absolute(output), "release_id": release_id, "before": before}
    which = {name: value for name, value in given.items() if value is not None}
    ledger.declare("erase", {}, which, by, reason)
    return NotedCases(ledger.url).erase(
        *(CASES.c[name] == value for name, value in which.items() if name != "before"),
        *([] if before is None else [CASES.c.noted_on < before]),
    )


def cases_text(entries: Sequence[Entry], releases: Sequence[Noted]) -> str:
    """Returns the notes as a text, and which accounts have cases in common."""
    from tracecloak.pipelines.ledger.reading import text_of

    # Only releases with a digest in common are compared.
    holders: dict[tuple[str, int], list[int]] = defaultdict(list)
    for number, noted in enumerate(releases):
        for digest in noted.sketch.digests.tolist():
            holders[noted.deployment_key, digest].append(number)
    alike = sorted({pair for held in holders.values() for pair in combinations(held, 2)})
    pairs = [
        (share_text(share), releases[one], noted)
        for one, other in alike
        for noted, share in shared_with(releases[one], [releases[other]])
    ]
    known = {(noted.output, noted.release_id) for noted in releases}
    without = [
        entry
        for entry in charges(entries).values()
        if entry.action not in (*UNDRAWN, "void") and (entry.output, entry.release_id) not in known
    ]
    return text_of(
        "cases",
        releases=releases,
        pairs=pairs,
        without=without,
        epsilon_of=partial(epsilon_of, entries),
    )


# --- What a ledger notes of the cases that releases read, so that a copy of a log is recognised. --
# Each release that draws noise leaves a sketch of its cases (`contract.input_digest`) in a table
# of its own beside the ledger. No hash chains its rows, so that they can be erased, and each is
# erased after its day. Where releases of two accounts read the same cases, no cap sees what both
# spent on them, so the operator is told. No release is refused for it, as a refusal would say
# what was in the log.


_LOG = logging.getLogger("tracecloak")
_OPERATOR = logging.getLogger("tracecloak.operator")

# From this share of the smaller log's cases on, the operator is told. Logs of other people whose
# cases are numbered as they arrive share less, also where times are dates.
SHARED = 0.2


@dataclass(frozen=True, eq=False)
class Noted:
    """What is noted of one release.

    Attributes:
        account: Which account paid for it.
        output: The folder of all releases that it went to.
        release_id: Its name.
        deployment_key: Tells the keys apart under which sketches are made.
        noted_on: When, a day as 2026-12-31, in UTC.
        kept_until: Day after which it is erased.
        sketch: Of the cases that it read.
    """

    account: str
    output: str
    release_id: str
    deployment_key: str
    noted_on: str
    kept_until: str
    sketch: CaseSketch


class NotedCases:
    """The table beside one ledger."""

    def __init__(self, url: str) -> None:
        """Does not connect yet.

        Args:
            url: That of the ledger.
        """
        self._database = Database(url)

    def note(self, entry: Entry, written: WrittenSketch) -> list[tuple[Noted, float]]:
        """Notes the cases that a release read; a second call for the release changes nothing.

        Args:
            entry: An entry of the release's charge.
            written: What its run wrote.

        Returns:
            The releases of other accounts that read some of the same cases, each with the share of
            the smaller log's cases.

        Raises:
            LedgerError: The table cannot be used.
        """
        noted = Noted(
            entry.account, entry.output, entry.release_id, written.key_fingerprint, today(),
            written.kept_until, written.sketch,
        )  # fmt: skip
        charge = hashlib.sha256(repr(entry.charge).encode()).hexdigest()

        def insert(connection: sa.Connection) -> None:
            same = sa.select(CASES.c.charge).where(CASES.c.charge == charge)
            if connection.execute(same).first() is None:
                row = {**vars(noted), "sketch": noted.sketch.to_bytes(), "charge": charge}
                connection.execute(sa.insert(CASES).values(row))

        self._database.transact(insert, writes=True)
        others = self.all(CASES.c.account != noted.account)
        elsewhere = sum(other.deployment_key != noted.deployment_key for other in others)
        if elsewhere:
            told = "the cases of %d releases are not compared; give all jobs one deployment_key"
            _LOG.warning(told, elsewhere)
        return list(shared_with(noted, others))

    def all(self, *conditions: sa.ColumnElement[bool]) -> list[Noted]:
        """Returns what is noted of releases that satisfy conditions, the earliest first.

        Raises:
            LedgerError: The table cannot be read.
        """
        self.erase(CASES.c.kept_until < today())
        wanted = [column for column in CASES.columns if column.name != "charge"]
        order = CASES.c.noted_on, CASES.c.output, CASES.c.release_id, CASES.c.charge
        asked = sa.select(*wanted).where(*conditions).order_by(*order)
        rows = self._database.transact(lambda one: one.execute(asked).mappings().all(), False)
        return [Noted(**{**row, "sketch": CaseSketch.from_bytes(row["sketch"])}) for row in rows]

    def erase(self, *conditions: sa.ColumnElement[bool]) -> int:
        """Erases what is noted of releases that satisfy conditions; returns of how many.

        Raises:
            LedgerError: The table cannot be written.
        """
        gone = sa.delete(CASES).where(*conditions)
        return self._database.transact(lambda one: one.execute(gone).rowcount, writes=True)


def note_cases(ledger: Ledger, keyed_release: KeyedRelease, path: str) -> None:
    """Notes the sketch that a run wrote, and warns of other accounts that read the same cases.

    No release depends on it: if it fails, that is a warning, and the release goes on.

    Args:
        ledger: Who paid.
        keyed_release: The folder of releases, the release's name, the fingerprint of its key.
        path: The file that the run wrote, if it came to know its cases.
    """
    try:
        data = read_if_there(path)
        if data is None or not (states := (past := ledger.past()).states(*keyed_release)):
            return
        erased = (e for e in past.declared if e.action == "erase")
        if any(_is_erased_by(e, states[-1].reserved) for e in erased):
            return
        shared = NotedCases(ledger.url).note(states[-1].last, WrittenSketch.parse(data))
        past = ledger.past() if shared else past  # with releases that were noted meanwhile
        releases = "; ".join(
            f"{share_text(share)} with release {noted.release_id} in {noted.output} (account "
            f"{noted.account}, "
            f"{epsilon_of(past.release_entries(noted.output, noted.release_id), noted)})"
            for noted, share in shared
        )
    except (LedgerError, OSError, ValueError) as error:
        reason = str(error) if isinstance(error, LedgerError) else type(error).__name__
        told = "the cases of release %s were not noted, and will not be recognised: %s"
        _LOG.warning(told, keyed_release[1], reason)
        return
    if releases:
        _OPERATOR.warning(
            "other accounts paid for releases of the same cases, as a share of the smaller log: "
            "%s. Their epsilons add up, which no account's cap sees. If it is the same data, give "
            "it one name with dataset, and use `tracecloak ledger bind`",
            releases,
        )


def _is_erased_by(entry: Entry, reserved: Entry) -> bool:
    """Whether an entry `erase` is about the notes on a release, of which none are written again."""
    return (
        entry.seq > reserved.seq
        and entry.facts.get("output", reserved.output) == reserved.output
        and entry.facts.get("release_id", reserved.release_id) == reserved.release_id
        and reserved.recorded_at[:10] < entry.facts.get("before", "9999-12-31")
    )


def shared_with(noted: Noted, others: Sequence[Noted]) -> Iterable[tuple[Noted, float]]:
    """Yields the releases of other accounts that read the same cases, with the smaller's share."""
    for other in others:
        if other.account == noted.account or other.deployment_key != noted.deployment_key:
            continue
        share = noted.sketch.shared_with(other.sketch)
        if share is not None and share >= SHARED:
            yield other, share


def share_text(share: float) -> str:
    """Returns a share of cases as a reader wants it."""
    if share > 0.95:
        return "nearly all"
    return f"about {math.floor(10 * share + 0.5) * 10} %"


def epsilon_of(entries: Sequence[Entry], noted: Noted) -> str:
    """Returns what the charges of a release cost, for the reader."""
    ended = [
        entry
        for entry in charges(entries).values()
        if (entry.output, entry.release_id) == (noted.output, noted.release_id)
        and entry.account == noted.account
        and entry.action != "void"
    ]
    costs = [f"epsilon {entry.epsilon}" for entry in ended if entry.epsilon is not None]
    return " and ".join(costs) if costs and len(costs) == len(ended) else "no finite epsilon"
