"""The dead letter: malformed records by their places, and how many of them end a run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from tracecloak.schemas.events.tally import ReadTally
from tracecloak.transforms.files import delete_files, exists, join, read_if_there, write_anew

_TALLY = "tally.json"


@dataclass(frozen=True)
class DeadLetter:
    """Where malformed records are listed, and how many may be.

    A line says the file's rank among the inputs, the record's number in it, from 1, and the reason;
    nothing of the record itself. The list is the operator's: the numbers in it come from private
    data.

    Attributes:
        folder: Gets one `file-<rank>.jsonl` per input with malformed records, and `tally.json`, how
            many records were used, lost and set aside.
        max_error_ratio: Largest share of malformed records among all, in [0, 1].
    """

    folder: str
    max_error_ratio: float

    def write(self, rank: int, batches: Iterable[pa.RecordBatch]) -> None:
        """Lists the malformed records of one input file, in the order of their numbers."""
        rows = sorted((row for b in batches for row in b.to_pylist()), key=lambda r: r["record"])
        numbered = ({**row, "record": row["record"] + 1} for row in rows)
        self._write(f"file-{rank:05d}.jsonl", "".join(json.dumps(r) + "\n" for r in numbered))

    def check(self, tally: ReadTally) -> None:
        """Notes the records for `told`, and ends the run if too many of them were malformed.

        Raises:
            InputSchemaError: They are; `told` has the numbers.
        """
        self._write_tally(tally)
        tally.check(self.max_error_ratio, f"{self.folder} says why, and where each one is")

    def begin(self) -> None:
        """Forgets what an earlier run noted."""
        path = join(self.folder, _TALLY)
        if exists(path):
            delete_files([path])

    def note_duplicates(self, n: int) -> None:
        """Notes how many events were dropped as duplicates, once `check` has noted the records."""
        if n and (tally := self.told()) is not None:
            self._write_tally(tally.with_duplicates(n))

    def told(self) -> ReadTally | None:
        """Returns what was found of the records; None as long as `check` has not noted it.

        They are read from the folder, as workers elsewhere cannot report them in another way.
        """
        text = read_if_there(join(self.folder, _TALLY))
        return None if text is None else ReadTally.from_json(json.loads(text))

    def _write_tally(self, tally: ReadTally) -> None:
        self._write(_TALLY, json.dumps(tally.to_json()) + "\n")

    def _write(self, name: str, text: str) -> None:
        write_anew(join(self.folder, name), text.encode())
