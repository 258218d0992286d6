"""KeptSteps: the release of each step of an epoch is fixed before anybody can see a byte of it.

A stream that is started again, or a bundle that is tried again, may count other cases in a step
than were counted before: messages that were not acknowledged come again, and late ones are there
now. The noise that was drawn for the step must not be added to these counts. So the release of a
step is kept in the operator's folder, with a digest of the cases and exact counts that it was made
from. A later run of the step publishes the kept release or nothing.

The digests form a chain, as that of a step covers all steps before it. So a run that counted
something else in one step is never taken for the run that decided the later ones.

KeptLogs is in the same folder: which logs the epoch reads, and from where on, if a person set that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apache_beam.io.filesystems import FileSystems

import tracecloak.transforms.columnar_names  # noqa: F401  # names what is encoded
from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.anonymizers.streams.steps import DecidedStep
from tracecloak.schemas.published.step import Step
from tracecloak.transforms.keys.wrapping import KeyReference
from tracecloak.transforms.sealed import read_sealed, write_sealed

if TYPE_CHECKING:
    from tracecloak.transforms.services.kafka_identity import KnownLog

_ENDING = ".decision"
_MEND = "what the step released is not known; begin another epoch, which is another spend"
_LOGS_MEND = "which logs the epoch reads is not known; set them with `tracecloak stream positions`"


@dataclass(frozen=True)
class KeptSteps:
    """The releases of an epoch's steps in a folder that only the operator reads; it pickles.

    The folder holds only what is published, and no exact count.

    Attributes:
        folder: On any Beam file system.
        kind: The type of a release.
    """

    folder: str
    kind: type[Step]

    def of(self, step: int, key: ReleaseKey) -> DecidedStep | None:
        """Returns the release of a step; None: it is not decided yet.

        Raises:
            TracecloakError: The kept release was changed.
        """
        message = read_sealed(*_sealed(self.folder, "step", step, key), _MEND)
        return None if message is None else DecidedStep.from_kept(step, message, self.kind)

    def keep(self, decided: DecidedStep, key: ReleaseKey) -> DecidedStep:
        """Keeps a step's release; returns the kept one, as another worker may have been first.

        Raises:
            TracecloakError: The kept release was changed.
        """
        write_sealed(*_sealed(self.folder, "step", decided.step, key), decided.to_kept())
        return self.of(decided.step, key) or decided

    def last(self) -> int | None:
        """Returns the last step that was decided; None: there is none."""
        return _last(self.folder, "step")


@dataclass(frozen=True)
class KeptLogs:
    """The logs that workers read for an epoch, each as it was when it was kept; it pickles.

    Attributes:
        folder: That of `KeptSteps`.
        key: Where the epoch's key is.
    """

    folder: str
    key: KeyReference

    def last(self) -> tuple[int, dict[str, KnownLog]]:
        """Returns how often a person has set positions, and the logs by the names of sources.

        Reading goes on at their places if somebody has; (0, {}): nothing is kept.

        Raises:
            TracecloakError: What is kept was changed.
        """
        from tracecloak.transforms.services.kafka_identity import KnownLog

        number = _last(self.folder, "logs") or 0
        place = _sealed(self.folder, "logs", number, self.key.resolve())
        message = read_sealed(*place, _LOGS_MEND) or b"{}"
        return number, {name: KnownLog.from_json(log) for name, log in json.loads(message).items()}

    def keep(self, number: int, logs: Mapping[str, KnownLog]) -> None:
        """Keeps logs, for `last`."""
        message = json.dumps({name: log.to_json() for name, log in logs.items()}).encode()
        write_sealed(*_sealed(self.folder, "logs", number, self.key.resolve()), message)


def _last(folder: str, kind: str) -> int | None:
    (listing,) = FileSystems.match([f"{folder.rstrip('/')}/{kind}-*{_ENDING}"])
    names = (one.path.removesuffix(_ENDING) for one in listing.metadata_list)
    return max((int(name.rpartition("-")[2]) for name in names), default=None)


def _sealed(folder: str, kind: str, number: int, key: ReleaseKey) -> tuple[str, ReleaseKey, str]:
    """Returns the path of what is kept, the key that seals it, and for what it does so."""
    return f"{folder.rstrip('/')}/{kind}-{number:06d}{_ENDING}", key, f"stream {kind}/{number}"
