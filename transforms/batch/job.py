"""What one release is, as its stages and its driver need to know; all of it pickles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracecloak.anonymizers.contract.draws import Draws, Unkept
from tracecloak.anonymizers.contract.method import Params
from tracecloak.anonymizers.registry import method_named
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.manifest import ReleaseManifest
from tracecloak.transforms.batch.dead_letter import DeadLetter
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.publish.names import PARTS
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.sources import EventSource

if TYPE_CHECKING:
    from tracecloak.transforms.batch.case_sketches import SketchFile
    from tracecloak.transforms.batch.window_part import WindowPart
    from tracecloak.transforms.keys.signing import SigningReference


@dataclass(frozen=True)
class ReleaseSpec:
    """What is released, as every stage of it needs to know.

    Attributes:
        method: Name of a registered method.
        params: Its parameters.
        release_id: The release's name; with the key, the input and the configuration it fixes all
            noise.
        key: Where the worker finds the release key.
        noise_digest: Of the configuration and the method's version (`contract.identity`).
        draws: Where decisions are made and kept; it pickles.
        sketch: Where the sketch of the cases goes; None: none is made.
        check_open: Called before the release appears; raises if it was given up meanwhile. None:
            there is no such check, but giving a release up also deletes its key.
        signer: Where the key is that signs the manifest; None: nobody signs.
        operator_folder: Where workers put their findings in the data; None: into their logs.
    """

    method: str
    params: Params
    release_id: str
    key: KeyReference
    noise_digest: str
    draws: Draws = field(default_factory=Unkept)
    sketch: SketchFile | None = None
    check_open: Callable[[], None] | None = None
    signer: SigningReference | None = None
    operator_folder: str | None = None

    @property
    def by_individual(self) -> bool:
        """Whether the cases of an individual must meet in one batch, to be bounded together."""
        bounds = method_named(self.method).bounds(self.params)
        return bounds.max_cases_per_individual is not None

    @property
    def columns(self) -> list[TraceBatch]:
        """A batch without cases that tells the attributes of the released log, if it has any."""
        carried = method_named(self.method).released_columns(self.params)
        if not carried:
            return []
        from tracecloak.schemas.published.rows import no_traces

        return [no_traces(carried)]


@dataclass(frozen=True)
class Target:
    """The release that is written, and where.

    Attributes:
        spec: What is released.
        folder: Where it is built.
        manifest: The manifest, still without what came out.
        formats: Forms of the released log.
        n_parts: Parts of the released log.
        shares_scripts: Whether its page shares its scripts with those of other releases.
    """

    spec: ReleaseSpec
    folder: ReleaseFolder
    manifest: ReleaseManifest
    formats: tuple[str, ...]
    n_parts: int
    shares_scripts: bool = False

    @property
    def keeps_parts(self) -> bool:
        """Whether the parts of the log are released, and not only the forms made from them."""
        return PARTS in self.formats

    @property
    def exports(self) -> list[str]:
        """The forms that are made from the parts."""
        return [kind for kind in self.formats if kind != PARTS]


@dataclass(frozen=True)
class Job:
    """All that a driver is given.

    Attributes:
        source: What is read.
        dead_letter: Where malformed records are listed.
        target: What is written of it.
        n_shards: Shards of cases.
        part: Which cases count, of a release of a window; None: all do.
        memory_bytes: How much memory a run in this process may take; None: as it judges.
        n_workers: How many threads such a run has; None: as it judges.
    """

    source: EventSource
    dead_letter: DeadLetter
    target: Target
    n_shards: int
    part: WindowPart | None = None
    memory_bytes: int | None = None
    n_workers: int | None = None
