"""What the steps of a release pass on: a run as far as it has come, its concerns, its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

# A log that is not there is told before what pays for a release and writes it is loaded.
if TYPE_CHECKING:
    from tracecloak.pipelines.budget.books import Books
    from tracecloak.pipelines.budget.gate import Unchanged
    from tracecloak.pipelines.configuration.config import ReleaseConfig
    from tracecloak.pipelines.keys.receipts import InputFile, Receipt
    from tracecloak.pipelines.ledger.balance import Balance
    from tracecloak.pipelines.ledger.entries import Reservation
    from tracecloak.pipelines.runners.driver import Driver
    from tracecloak.schemas.events.tally import ReadTally
    from tracecloak.schemas.published.manifest import ReleaseManifest
    from tracecloak.schemas.published.yields import Yield
    from tracecloak.transforms.batch.dead_letter import DeadLetter
    from tracecloak.transforms.batch.job import Job
    from tracecloak.transforms.keys.wrapping import KeyReference
    from tracecloak.transforms.publish.release_folder import ReleaseFolder
    from tracecloak.transforms.sources import EventSource

Signature = Literal["none", "there", "by another key"]


@dataclass(frozen=True)
class Run:
    """One run of a release's command, as far as it has come.

    Attributes:
        config: What it is to make.
        driver: What runs it.
        source: What it reads.
        files: The same, as it was when it was looked at.
        input_fingerprint: Keyed digest of that.
        unchanged: What tells later whether that changed since.
        books: Where it is written down what becomes of it.
        dead_letter: Where malformed records are listed.
        concerns: What else there is to do at each step.
        key: Where the release's key is, once it is paid.
        receipt: Of what it was begun, once it is paid.
        left_out: Absolute paths of files that a person decided not to be read.
    """

    config: ReleaseConfig
    driver: Driver
    source: EventSource
    files: tuple[InputFile, ...]
    input_fingerprint: str
    unchanged: Unchanged
    books: Books
    dead_letter: DeadLetter
    concerns: tuple[Concern, ...] = ()
    key: KeyReference | None = None
    receipt: Receipt | None = None
    left_out: tuple[str, ...] = ()

    @property
    def folder(self) -> ReleaseFolder:
        """Where the release is built and will lie."""
        return self.books.folder

    @property
    def operator_folder(self) -> str:
        """Where what only the operator may read of the release lies."""
        return self.books.store.operator_folder(self.folder.output, self.folder.release_id)


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


class Concern:
    """Does nothing at any step: a concern overrides those at which it has something to do.

    One instance goes through one run, from `check` to `tell`.

    Attributes:
        compares_input: Whether a run that finds the release there must have the same input.
        left_out: Absolute paths of files that a person decided not to be read, once it is
            `located`.
    """

    compares_input = True
    left_out: tuple[str, ...] = ()

    def check(self, config: ReleaseConfig) -> None:
        """Refuses what cannot be released, before anything is looked at."""

    def located(self, config: ReleaseConfig) -> ReleaseConfig:
        """Returns the configuration with inputs that stay what they are; nothing is paid yet.

        Raises:
            TracecloakError: There is none.
        """
        return config

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

    def described(self, config: ReleaseConfig, manifest: ReleaseManifest) -> ReleaseManifest:
        """Returns what the release says of itself."""
        return manifest

    def settle(self, run: Run) -> None:
        """Does what is left to do once the release is visible."""

    def tell(self, run: Run, outcome: Outcome) -> Outcome:
        """Returns what there is to tell, of a release that was there before, too."""
        return outcome
