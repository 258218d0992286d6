"""Whether the input of windows that are released is still what they were made of.

What comes late, is mended or is replaced changes no release. But whoever operates them may want to
know, so it is written into the operator's folder of each window. Nobody else is told: that a file
changed says something of the data.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass

from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.configuration.source import source_of
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.left_out import left_out_of
from tracecloak.pipelines.keys.receipts import InputFile, Receipt, snapshot_of
from tracecloak.pipelines.release.opening import fingerprint_of
from tracecloak.pipelines.windows.calendar import Day
from tracecloak.pipelines.windows.several import of_window
from tracecloak.transforms.files import absolute, join, write_anew
from tracecloak.transforms.inputs.source_files import SourceFile, match_files

NAME = "input-since.json"


def compare_inputs(config: ReleaseConfig, store: KeyStore, days: Sequence[Day]) -> int:
    """Compares the files that released windows would read now with those that they were made of.

    What differs is written as `input-since.json` into the operator's folder of each window. Every
    file of the lake is read once for its digest. Of tables and queries nothing is compared.

    Args:
        config: That of the windows.
        store: The key store, whose receipts have keyed fingerprints of the inputs.
        days: The calendar.

    Returns:
        How many releases were compared: those that this key store made.

    Raises:
        InputSchemaError: The lake is not there.
        KeyStoreError: The key store cannot be read.
    """
    if config.query is not None or config.tables:
        return 0
    output, lake = absolute(config.output), _Lake(match_files(config.log, may_be_none=True))
    n_compared = 0
    for day in days:
        for name in day.complete:
            receipt = store.receipt(output, name)
            if receipt is None:
                continue
            left_out = tuple(one.path for one in left_out_of(store, output, name))
            source = source_of(of_window(config, day.window), lake.listed, left_out, False)
            now = lake.digested(source.files)
            fingerprint = fingerprint_of(config, store, now, left_out)
            is_same = hmac.compare_digest(fingerprint, receipt.input_fingerprint)
            difference = {} if is_same else _difference(receipt, now)
            body = json.dumps({"is_as_it_was": is_same, **difference}, indent=2)
            write_anew(join(store.operator_folder(output, name), NAME), body.encode())
            n_compared += 1
    return n_compared


@dataclass
class _Lake:
    """The files of a lake, each of which is digested once, as many windows read one.

    Attributes:
        listed: All of them.
    """

    listed: Sequence[SourceFile]

    def __post_init__(self) -> None:
        self._by_path: dict[str, InputFile] = {}

    def digested(self, files: Sequence[SourceFile]) -> list[InputFile]:
        """Returns some files with their digests."""
        new = [file for file in files if file.path not in self._by_path]
        self._by_path |= zip([file.path for file in new], snapshot_of(new), strict=True)
        return [self._by_path[file.path] for file in files]


def _difference(receipt: Receipt, now: Sequence[InputFile]) -> dict[str, list[str]]:
    then = {file.path: file for file in receipt.origin.files}
    here = {file.path: file for file in now}
    return {
        "changed": [path for path, file in here.items() if then.get(path, file) != file],
        "gone": [path for path in then if path not in here],
        "came": [path for path in here if path not in then],
    }
