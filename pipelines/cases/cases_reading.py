"""How a privacy officer reads and erases the notes on releases' cases."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations

from tracecloak.pipelines.cases.noted_cases import (
    Noted,
    NotedCases,
    epsilon_of,
    share_text,
    shared_with,
)
from tracecloak.pipelines.ledger.balance import charges
from tracecloak.pipelines.ledger.entries import UNDRAWN, Entry
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.files import absolute


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
        output: See `NotedCases.erase`.
        release_id: See `NotedCases.erase`.
        before: See `NotedCases.erase`.
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
    place = None if output is None else absolute(output)
    given = (("output", place), ("release_id", release_id), ("before", before))
    ledger.note_erasure({name: value for name, value in given if value is not None}, by, reason)
    return NotedCases(ledger.url).erase(place, release_id, before)


def cases_text(entries: Sequence[Entry], releases: Sequence[Noted]) -> str:
    """Returns the notes as a text, and which accounts have cases in common."""
    lines = [
        f"{noted.release_id}  in {noted.output}\n"
        f"  about {noted.sketch.n_cases:,} cases, account {noted.account}, noted on "
        f"{noted.noted_on}, kept until {noted.kept_until}\n"
        for noted in releases
    ]
    pairs = [
        f"  {share_text(share)} of the smaller: {one.release_id} ({one.account}, "
        f"{epsilon_of(entries, one)}) and {other.release_id} ({other.account}, "
        f"{epsilon_of(entries, other)})\n"
        for one, other, share in _across_accounts(releases)
    ]
    if pairs:
        lines.append("\nThe same cases under several accounts, whose epsilons add up:\n")
    lines += pairs
    known = {(noted.output, noted.release_id) for noted in releases}
    without = [
        f"  {entry.release_id} in {entry.output} (account {entry.account})\n"
        for entry in charges(entries).values()
        if entry.action not in (*UNDRAWN, "void") and (entry.output, entry.release_id) not in known
    ]
    if without:
        lines.append("\nReleases whose cases are not noted, and not compared:\n")
    if not lines:
        return "Nothing was released yet, and nothing is noted.\n"
    return "".join([*lines, *without])


def _across_accounts(releases: Sequence[Noted]) -> Iterable[tuple[Noted, Noted, float]]:
    """Yields pairs of different accounts; looks only at those with a digest in common."""
    holders: dict[tuple[str, int], list[int]] = defaultdict(list)
    for number, noted in enumerate(releases):
        for digest in noted.sketch.digests.tolist():
            holders[noted.deployment_key, digest].append(number)
    pairs = Counter(pair for held in holders.values() for pair in combinations(held, 2))
    for one, other in sorted(pairs):
        for noted, share in shared_with(releases[one], [releases[other]]):
            yield releases[one], noted, share
