"""The sketch of the cases that a release reads, in a file for the keeper of the ledger."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tracecloak.anonymizers.contract.input_digest import CaseSketch
from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.transforms.files import write_new
from tracecloak.transforms.keys.wrapping import KeyReference


@dataclass(frozen=True)
class SketchFile:
    """Where a run puts the sketch; it pickles.

    Attributes:
        path: A file of the run's workplace, on any Beam file system.
        key: Where workers find the key of the deployment.
        kept_until: Day after which the sketch is to be erased, as 2026-12-31.
    """

    path: str
    key: KeyReference
    kept_until: str

    def write(self, sketch: CaseSketch, key: ReleaseKey) -> None:
        """Writes the file, unless an earlier try of the same run wrote it."""
        about = {"key": key.fingerprint, "kept_until": self.kept_until}
        write_new(self.path, json.dumps(about).encode() + b"\n" + sketch.to_bytes())


@dataclass(frozen=True, eq=False)
class WrittenSketch:
    """The content of a sketch file.

    Attributes:
        sketch: That of the cases it read.
        key_fingerprint: Tells keys of deployments apart.
        kept_until: See `SketchFile`.
    """

    sketch: CaseSketch
    key_fingerprint: str
    kept_until: str

    @classmethod
    def parse(cls, data: bytes) -> WrittenSketch:
        """Returns what is in a file.

        Raises:
            ValueError: The file was not written by a run.
        """
        head, _, body = data.partition(b"\n")
        about = json.loads(head)
        return cls(CaseSketch.from_bytes(body), about["key"], about["kept_until"])
