"""What all checks of one configuration look at, and what each of them yields."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from tracecloak.pipelines.budget.opening import ledger_url, store_of
from tracecloak.pipelines.configuration.plan import ReleasePlan
from tracecloak.pipelines.ledger.cache import LedgerCache, lost_text
from tracecloak.pipelines.ledger.caps import load_accounts
from tracecloak.pipelines.ledger.database import LedgerError, place_of
from tracecloak.pipelines.ledger.ledger import Ledger, NoLedger
from tracecloak.schemas.errors import TracecloakError
from tracecloak.transforms.files import absolute, is_on_this_machine
from tracecloak.transforms.publish.release_folder import ReleaseFolder, beside

if TYPE_CHECKING:
    from tracecloak.pipelines.configuration.shared_keys import AccountConfig
    from tracecloak.pipelines.keys.key_store import KeyStore
    from tracecloak.pipelines.stream.plan import StreamPlan
    from tracecloak.pipelines.windows.batch import Day

Status = Literal["ok", "warning", "failure"]
CheckResult = tuple[Status, str]
"""What a check says of one thing: how it stands, a sentence, and the remedy if it is not ok."""

# A ledger that is locked for longer is told so, instead of keeping whoever asks waiting.
_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True)
class Setting:
    """A release or a stream, and what its run would open; nothing is opened before it is asked for.

    Attributes:
        of: The plan of a release, a schedule or a stream.
        of_beam: Flags of Beam.
        probes: Whether one file may be written into the staging area, and removed.
        is_private: Whether only the operator sees what is said.
        now: Seconds since 1970 UTC.
        n_sampled: How many messages from before the start of a stream are looked at; what is said
            of them is for the operator alone.
    """

    of: ReleasePlan | StreamPlan
    of_beam: Sequence[str] = ()
    probes: bool = False
    is_private: bool = False
    now: Callable[[], float] = time.time
    n_sampled: int = 0

    @property
    def config(self) -> AccountConfig:
        """The keys of the configuration."""
        return self.of.keys

    @property
    def release(self) -> ReleasePlan | None:
        """The plan of a release; None: it is a stream.

        Of a schedule it is that of its next window, or of the last one where none is left.
        """
        plan = self.of
        if not isinstance(plan, ReleasePlan):
            return None
        if plan.schedule is None:
            return plan
        try:
            day = self.next_day or self.days[-1]
        except TracecloakError:  # of the ledger, of which a check of its own tells
            return plan.of_window(plan.schedule.numbered(0))
        return plan.of_window(day.window)

    @property
    def stream(self) -> StreamPlan | None:
        """The plan of a stream; None: it is a release."""
        return None if isinstance(self.of, ReleasePlan) else self.of

    @property
    def output(self) -> str:
        """The folder of all releases."""
        return absolute(self.config.output)

    @property
    def staging_area(self) -> str:
        """Where files are built before they are seen."""
        area = self.config.staging_area
        return beside(self.output) if area is None else absolute(area)

    @cached_property
    def store(self) -> KeyStore:
        """The key store, of which nothing is read yet."""
        return store_of(self.config)

    @property
    def ledger(self) -> Ledger | None:
        """The ledger, which is read whole at each question; None: the first run begins it.

        It keeps no copy in the key store, as that would be written.

        Raises:
            UsageError: There is none, or it cannot be opened.
            LedgerUnavailable: It does not answer.
        """
        if isinstance(self._ledger, TracecloakError):
            raise self._ledger
        return self._ledger

    @cached_property
    def _ledger(self) -> Ledger | TracecloakError | None:
        """The ledger or why there is none, as one that does not answer is asked once."""
        config = self.config
        if config.ledger is None and config.new_ledger and not self.store.has_ledger_file:
            return None
        try:
            url = ledger_url(config.ledger, self.store)
            accounts = load_accounts(config.accounts, config.account)
            return Ledger(url, accounts, _PATIENCE_SECONDS)
        except NoLedger as error:
            memory = LedgerCache(self.store, place_of(url))
            seen = memory.heads().get(memory.name)
            return (
                error
                if seen is None or not seen.seq
                else LedgerError(lost_text(place_of(url), seen))
            )
        except TracecloakError as error:
            return error

    @cached_property
    def days(self) -> tuple[Day, ...]:
        """The calendar of a schedule; empty: there is none.

        Raises:
            LedgerError: The ledger cannot be read, or is older than the releases.
        """
        plan = self.of
        if not isinstance(plan, ReleasePlan) or plan.schedule is None:
            return ()
        from tracecloak.pipelines.windows.batch import calendar_of, check_releases_known

        days = calendar_of(plan, self.store, self.ledger, int(self.now() * 1e6))
        check_releases_known(plan, days, self.ledger)
        return days

    @property
    def next_day(self) -> Day | None:
        """The first window that is left to do, due or not; None: there is none."""
        return next((day for day in self.days if not day.is_ended), None)

    def folder_of(self, release_id: str) -> ReleaseFolder:
        """Returns the folder of a release."""
        area = None if self.config.staging_area is None else self.staging_area
        whose = self.store.identity(makes=False)
        return ReleaseFolder(self.output, release_id, area, store=whose)

    def folders_here(self) -> Iterator[tuple[str, str]]:
        """Yields (key of the configuration, folder) of what is written on this machine's disks."""
        for name, folder in (
            ("output", self.output),
            ("staging_area", self.staging_area),
            ("key_store", str(self.store.path.absolute())),
            ("dead_letter", self.config.dead_letter),
        ):
            if folder is not None and is_on_this_machine(folder):
                yield name, folder
