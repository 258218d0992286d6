"""Receipts: of what each release was begun, so that a later run is told from another release.

A receipt holds what went in: digests of the input and of the configuration, and the version of the
method. What became of the release is not in it: the ledger, the release's folder and its key say
that (`pipelines.budget.registry`).
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tracecloak.schemas.errors import ReleaseTaken, TracecloakError
from tracecloak.transforms.files import absolute, is_on_this_machine
from tracecloak.transforms.inputs.source_files import SourceFile


class KeyStoreError(TracecloakError, section="The key store is lost"):
    """The key store cannot be read or written now, so nothing may be released."""


@dataclass(frozen=True)
class InputFile:
    """A file that a release reads, as it was when the release was reserved.

    Attributes:
        path: Where it is, however that was written; see `transforms.files.absolute`.
        n_bytes: Its size.
        digest: SHA-256 of a file of this machine; of others what their file system tells. Of a
            file of a table it is a digest of that and of how the table sees it.
    """

    path: str
    n_bytes: int
    digest: str


@dataclass(frozen=True)
class Origin:
    """Of what a release is made, beside the digests by which it is recognised.

    Attributes:
        method_version: That of the method, see `contract.method.Anonymizer.version`.
        files: What it reads.
        staging_area: Where it is built; None: beside the output.
        inner_versions: Those of what the parameters name, see `Anonymizer.inner_versions`.
        given: The parameters that were not as by default, by which a later version of the method,
            which can have other defaults, recognises what it asks for.
        tables: The addresses of the tables of a lake among its inputs, with the versions that it
            reads.
    """

    method_version: int = 1
    files: tuple[InputFile, ...] = ()
    staging_area: str | None = None
    inner_versions: dict[str, int] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    tables: tuple[str, ...] = ()

    def versions(self, method: str) -> str:
        """Returns what drew the noise, for a sentence: `version 2 of amun`."""
        versions = {method: self.method_version, **dict(sorted(self.inner_versions.items()))}
        return " with ".join(f"version {of} of {name}" for name, of in versions.items())

    def is_drawn_alike(self, other: Origin) -> bool:
        """Whether the noise of both is drawn by the same versions."""
        versions = other.method_version, other.inner_versions
        return (self.method_version, self.inner_versions) == versions


@dataclass(frozen=True)
class Receipt:
    """Of what a release was begun.

    Attributes:
        release_id: Its name.
        output: The folder of all releases that it goes to.
        input_fingerprint: Keyed digest of the input files, see `KeyStore.fingerprint`.
        config_digest: Digest of the configuration.
        key_fingerprint: Tells release keys apart.
        reserved_on: The day in UTC on which it was begun, such as 2026-11-23.
        origin: What it is made of.
    """

    release_id: str
    output: str
    input_fingerprint: str
    config_digest: str
    key_fingerprint: str
    reserved_on: str
    origin: Origin = Origin()

    @classmethod
    def read(cls, text: str) -> Receipt:
        """Returns a receipt, which is written as a JSON object of its attributes.

        Raises:
            KeyStoreError: It was written by a later version, or by none.
        """
        what = "is damaged; restore the key store from a backup"
        try:
            body = json.loads(text)
            origin = body.pop("origin")
            known = {field.name for kind in (cls, Origin) for field in fields(kind)}
            if unknown := sorted((body.keys() | origin.keys()) - known):
                what = (
                    f"has {unknown[0]}; use the version of tracecloak that wrote it, or a later one"
                )
            origin["files"] = tuple(InputFile(**file) for file in origin["files"])
            origin["tables"] = tuple(origin.get("tables", ()))
            return cls(**body, origin=Origin(**origin))
        except (ValueError, TypeError, AttributeError, KeyError):
            raise KeyStoreError(f"a receipt in the key store {what}") from None

    def changed_in(self, input_fingerprint: str, config_digest: str) -> list[str]:
        """Returns which of `the input` and `the configuration` are others in a run."""
        pairs = {
            "the input": (self.input_fingerprint, input_fingerprint),
            "the configuration": (self.config_digest, config_digest),
        }
        return [what for what, pair in pairs.items() if not hmac.compare_digest(*pair)]

    def check_same(self, input_fingerprint: str, config_digest: str) -> None:
        """Makes sure that a run under this release's id is this release.

        Raises:
            UsageError: The input or the configuration is another.
        """
        if changed := self.changed_in(input_fingerprint, config_digest):
            raise ReleaseTaken(
                f"release_id {self.release_id!r} was begun in {self.output} on {self.reserved_on}, "
                f"and {' and '.join(changed)} changed since; choose another release_id"
            )

    def same_files(self, now: Sequence[InputFile]) -> tuple[InputFile, ...]:
        """Returns which of the files that are there now a run reads that goes on with this release.

        Files that came later are not among them.

        Args:
            now: The files of the source, as they are now.

        Raises:
            UsageError: One that it read changed or vanished.
        """
        by_path, begun = {file.path: file for file in now}, self.origin.files
        gone = [file.path for file in begun if file.path not in by_path]
        lost = gone + [f.path for f in begun if by_path.get(f.path, f) != f]
        if lost:
            more = f", and so are others, {len(lost)} in all" if len(lost) > 1 else ""
            raise self.cannot_go_on(
                f"input {lost[0]!r} is {'gone' if gone else 'changed'}{more} since"
            )
        return begun

    def cannot_go_on(
        self, reason: str, remedy: str = "restore it and run again", price: str = ""
    ) -> TracecloakError:
        """Returns the error that a release which drew noise cannot be finished.

        Args:
            reason: What changed since.
            remedy: How it can be finished after all.
            price: What it reserved, where it may be that nothing finishes it.
        """
        error = TracecloakError if price else ReleaseTaken
        return error(
            f"release_id {self.release_id!r} in {self.output} drew noise before it was cut off, "
            f"and {reason}. Finished otherwise it would reveal more than it paid for, so {remedy}, "
            f"or give it up, which leaves {price or 'it'} spent, with `tracecloak ledger forfeit`"
        )


def today() -> str:
    """Returns the day in UTC, such as 2026-11-23."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def snapshot_of(files: Sequence[SourceFile]) -> tuple[InputFile, ...]:
    """Returns the files of a source with sizes and digests: what a release may be finished with."""
    snapshot = []
    for file in files:
        n_bytes = file.n_bytes
        if file.digest is not None:
            digest = file.digest
        elif is_on_this_machine(file.path):
            with Path(file.path).open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
                n_bytes = stream.tell()  # it may have grown since its name was listed
        else:
            from apache_beam.io.filesystems import FileSystems

            digest = str(FileSystems.checksum(file.path))
        if file.seen is not None:
            digest = file.seen.digest(digest)
        snapshot.append(InputFile(absolute(file.path), n_bytes, digest))
    return tuple(snapshot)
