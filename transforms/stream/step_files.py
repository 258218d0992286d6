"""Files of steps: what each step released is kept for the operator, and then published.

A stream that is started again, or a bundle that is tried again, may count other cases in a step
than were counted before: messages that were not acknowledged come again, and late ones are there
now. The noise that was drawn for the step must not be added to these counts. So the release of a
step is kept in the operator's folder before anybody can see a byte of it, with a digest of the
cases and exact counts that it was made from. A later run of the step publishes the kept release or
nothing. The digests form a chain, as that of a step covers all steps before it.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

import tracecloak.transforms.columnar_names  # noqa: F401  # names what is encoded
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.anonymizers.streams.steps import DecidedStep
from tracecloak.schemas.errors import GuaranteeError
from tracecloak.schemas.published.manifest import ReleaseManifest
from tracecloak.schemas.published.step import Step
from tracecloak.transforms.files import create, is_on_this_machine, read_if_there, rename
from tracecloak.transforms.formats.registry import FORMATS, Format, formats_of_releases
from tracecloak.transforms.keys.wrapping import KeyReference, read_sealed, write_sealed
from tracecloak.transforms.publish.products import parquet_of
from tracecloak.transforms.publish.release_folder import ReleaseFolder

if TYPE_CHECKING:
    from tracecloak.transforms.services.kafka_identity import KnownLog


# --- KeptSteps: the release of each step of an epoch is fixed before anybody can see a byte of it.
# A stream that is started again, or a bundle that is tried again, may count other cases in a step
# than were counted before: messages that were not acknowledged come again, and late ones are
# there now. The noise that was drawn for the step must not be added to these counts. So the
# release of a step is kept in the operator's folder, with a digest of the cases and exact counts
# that it was made from. A later run of the step publishes the kept release or nothing.
#
# The digests form a chain, as that of a step covers all steps before it. So a run that counted
# something else in one step is never taken for the run that decided the later ones.
#
# KeptLogs is in the same folder: which logs the epoch reads, and from where on, if a person set
# that.


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


# --- FileSink: the releases of a stream as files, each written once. ------------------------------
# A file's name says which release it holds, so a file that is there already is not written again.
# If it has the same bytes, a runner has tried the same release again. If it has other bytes, the
# new one would be a second release for one payment, so the stream fails and shows nothing of it.
# Files are written in a workplace beside the output, which only the operator reads, and moved
# when they are complete, so the output holds complete files only.


_LOG = logging.getLogger("tracecloak")


def epoch_folder(output: str, release_id: str, epoch: str) -> str:
    """Returns the folder of all that one epoch of a stream publishes."""
    return cast(str, FileSystems.join(output, f"run_id={release_id}", f"epoch={epoch}"))


def epoch_workplace(output: str, release_id: str, epoch: str, staging_area: str | None) -> str:
    """Returns the folder in which the files of an epoch are written before they appear.

    It is in that of the stream, whose other epochs may run at the same time.
    """
    place = ReleaseFolder(output, release_id, staging_area)
    return cast(str, FileSystems.join(place.workplace, f"epoch={epoch}"))


def step_path(output: str, release: Step) -> str:
    """Returns the path of a step's files, without the ending of any."""
    release_id, epoch, product, view, step = release.key
    folder = epoch_folder(output, release_id, epoch)
    place = (f"product={product}", f"view={view}", f"step-{step:06d}")
    return cast(str, FileSystems.join(folder, *place))


def write_once(path: str, data: bytes, workplace: str) -> bool:
    """Publishes a file, unless it is there with the same bytes.

    Args:
        path: Where.
        data: All of it.
        workplace: See `write_whole`.

    Returns:
        Whether it was written now.

    Raises:
        GuaranteeError: It is there with other bytes.
    """
    if (there := read_if_there(path)) is not None:
        if there == data:
            return False
        raise GuaranteeError(
            f"{path} was published before, from other input: a second release of the same step "
            "would show what changed. Nothing was written; begin another epoch, which is another "
            "spend"
        )
    write_whole(path, data, workplace)
    return True


def write_whole(path: str, data: bytes, workplace: str) -> None:
    """Publishes a file, which appears as a whole or not at all.

    Args:
        path: Where.
        data: All of it.
        workplace: Folder on the same file system in which it is written before it is moved there;
            on this machine only its owner reads it.
    """
    folder, name = FileSystems.split(path)
    # Two writers share this name only if they write the same bytes to the same place.
    digest = hashlib.sha256(path.encode() + b"\n" + data).hexdigest()[:16]
    fresh = FileSystems.join(workplace, f"{name}-{digest}.part")
    if is_on_this_machine(path):
        os.makedirs(workplace, mode=0o700, exist_ok=True)
        os.makedirs(folder, exist_ok=True)
    with closing(create(fresh)) as stream:
        stream.write(data)
    rename([fresh], [path])


@dataclass(frozen=True)
class FileSink:
    """Writes steps to <output>/run_id=…/epoch=…/product=…/view=…/step-000000.{json,parquet}.

    A log has a folder of that name, with step.json, log.parquet and log.xes.gz. JSON is always
    written and comes last.

    Attributes:
        output: The folder of all releases, on any Beam file system.
        formats: Beside JSON.
        manifest: Whose promise the files carry.
        workplace: Where they are written before they appear, see `write_whole`.
    """

    output: str
    formats: Sequence[str]
    manifest: ReleaseManifest
    workplace: str

    def send(self, released: Step) -> None:
        """Publishes the files of a step, unless they are there with the same bytes.

        Raises:
            GuaranteeError: One is there with other bytes.
        """
        path = step_path(self.output, released)
        for ending, data in files_of(released, self.formats, self.manifest).items():
            write_once(path + ending, data, self.workplace)
        _LOG.info("published step %d; %d are left", released.key[-1], released.n_steps_left)


def possible_forms(kind: type[Step]) -> Iterable[str]:
    """Returns, or yields, the forms of files that a product of this type can have beside JSON."""
    return formats_of_releases() if kind.has_log else ("parquet",)


def default_forms(kind: type[Step]) -> tuple[str, ...]:
    """Returns those that it has unless others are asked for."""
    return ("parquet", "xes") if kind.has_log else ("parquet",)


def files_of(release: Step, formats: Sequence[str], manifest: ReleaseManifest) -> dict[str, bytes]:
    """Returns a step's files by what follows the number of the step in their names, JSON last.

    Args:
        release: The step.
        formats: Forms beside JSON, of those that are possible.
        manifest: Whose promise the files carry.
    """
    files: dict[str, bytes] = {}
    if release.has_log:
        rows = release.to_rows()
        files = {f"/log{FORMATS[f].log_ending}": _log(rows, FORMATS[f], manifest) for f in formats}
    elif formats:
        files = {".parquet": parquet_of(release.to_rows(), manifest)}
    return {**files, release.json_ending: release.to_json()}


def _log(rows: pa.RecordBatch, form: Format, manifest: ReleaseManifest) -> bytes:
    from tracecloak.transforms.publish.release_files import packed_for

    stream = io.BytesIO()
    with packed_for(form, stream) as target:
        writer = form.open_writer(target, rows.schema, manifest.to_json())
        writer.write(rows)
        writer.close()
    return stream.getvalue()
