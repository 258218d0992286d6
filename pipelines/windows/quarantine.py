"""A person decides that windows leave out a file that cannot be read, before they count anything.

Nothing here decides by itself: a window that meets such a file fails, until somebody repairs the
file or leaves it out by name. What can be read is not left out, as that would choose among data by
what is in them. The decision is a parameter of the window: once its cases are claimed, or it paid
for noise, it stays what it is. Nothing is claimed of the cases of a file that is left out. If it is
repaired later, it is to that window as a file that came late, and any later window reads it.

Whether the input of windows that are released is still what they were made of.

What comes late, is repaired or replaced changes no release. But whoever operates them may want to
know, so it is written into the operator's folder of each window. Nobody else is told: that a file
changed says something of the data.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tracecloak.pipelines.configuration.plan import ReleasePlan, source_of
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.notes import LeftOut, left_out_of, note_left_out, now
from tracecloak.pipelines.keys.receipts import InputFile, snapshot_of
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.release.opening import fingerprint_of
from tracecloak.pipelines.windows.batch import Day
from tracecloak.schemas.errors import InputSchemaError, RetryLater, UsageError
from tracecloak.schemas.windows import Window
from tracecloak.transforms.files import absolute, join, write_anew
from tracecloak.transforms.inputs.source_files import SourceFile, match_files
from tracecloak.transforms.sources import EventSource


def decide(
    plan: ReleasePlan,
    store: KeyStore,
    ledger: Ledger | None,
    windows: Sequence[Window],
    path: str,
    signature: Mapping[str, str] | None,
) -> tuple[list[str], list[str]]:
    """Notes that windows leave out a file that cannot be read, or that they read it again.

    Args:
        plan: That of the windows.
        store: The key store that releases them.
        ledger: The ledger that pays for them; None: there is none yet.
        windows: Those that leave it out, if they read it and have claimed nothing.
        path: The file, as the configuration or the error names it.
        signature: Who decides it and why, see `entries.signed`; None: what was decided about the
            file is taken back.

    Returns:
        The labels of the windows for which it holds now, and of those that stay as they are, as
        they have claimed cases.

    Raises:
        UsageError: It is about none of the windows, or all that it is about have claimed their
            cases, or the file can be read.
        RetryLater: A release of one of the windows is at work, or the file's store is away.
        LedgerError: The ledger cannot be read.
    """
    output, place = absolute(plan.keys.output), absolute(path)
    names = {window: f"{plan.keys.release_id}-{window.label}" for window in windows}
    if signature is not None:
        reading = _reading(plan, windows, path)
    else:
        left_out = {window: left_out_of(store, output, name) for window, name in names.items()}
        reading = [w for w, files in left_out.items() if place in [one.path for one in files]]
    if not reading:
        raise UsageError(f"readmit {path!r} is left out of none of these windows; correct the path")
    labels: list[str] = []
    claimed: list[str] = []
    for window in reading:
        name = names[window]
        with store.alone(output, name):
            # Until it claims, a release that was cut off is begun anew, with another input.
            entries = () if ledger is None else ledger.past().release_entries(output, name)
            if entries and entries[-1].action not in ("reserve", "void"):
                claimed.append(window.label)
                continue
            decided = left_out_of(store, output, name)
            after = [one for one in decided if one.path != place]
            if signature is not None:
                is_new = len(after) == len(decided)
                after = [*decided, *[LeftOut(path=place, at=now(), **signature)] * is_new]
            note_left_out(store, output, name, after)
            labels.append(window.label)
    if not labels:
        raise UsageError(
            f"the cases of window {', '.join(claimed)} are claimed, and what it reads is fixed. If "
            "it was cut off, bring the file back as it was, or give the window up with `tracecloak "
            "ledger forfeit`, which leaves its budget spent"
        )
    return labels, claimed


def _reading(plan: ReleasePlan, windows: Sequence[Window], path: str) -> list[Window]:
    """Returns the windows that read a file, which cannot be read."""
    wanted, listed = absolute(path), None
    if not plan.keys.tables:
        listed = match_files(plan.keys.log, may_be_none=True)
    reading: list[Window] = []
    for window in windows:
        source = source_of(plan.of_window(window), listed, is_checked=False)
        for file in source.files:
            if absolute(file.path) == wanted:
                if not reading:
                    _check_unreadable(source, file)
                reading.append(window)
    if not reading:
        raise UsageError(
            f"quarantine {path!r} is no file that one of these windows reads; correct the path, or "
            "name another window"
        )
    return reading


def _check_unreadable(source: EventSource, file: SourceFile) -> None:
    """Makes sure that a file cannot be read to its end, whatever span a window reads of it.

    Raises:
        UsageError: It can.
        RetryLater: Its store does not answer.
    """
    try:
        for _ in replace(source, span_us=None).read(file):
            pass
    except (ConnectionError, TimeoutError):  # which says nothing of the file
        raise RetryLater(
            f"quarantine {file.path!r}: its store does not answer, so nobody can tell whether the "
            "file can be read; run the same command again later"
        ) from None
    except (InputSchemaError, OSError):
        return
    raise UsageError(
        f"quarantine {file.path!r} can be read, and is not left out: what is read must not be "
        "chosen by what is in it. Malformed records are left out one by one"
    )


NAME = "input-since.json"


def compare_inputs(plan: ReleasePlan, store: KeyStore, days: Sequence[Day]) -> int:
    """Compares the files that released windows would read now with those that they were made of.

    What differs is written as `input-since.json` into the operator's folder of each window. Every
    file of the lake is read once for its digest. Of tables and queries nothing is compared.

    Args:
        plan: That of the windows.
        store: The key store, whose receipts have keyed fingerprints of the inputs.
        days: The calendar.

    Returns:
        How many releases were compared: those that this key store made.

    Raises:
        InputSchemaError: The lake is not there.
        KeyStoreError: The key store cannot be read.
    """
    if plan.keys.query is not None or plan.keys.tables:
        return 0
    output, listed = absolute(plan.keys.output), match_files(plan.keys.log, may_be_none=True)
    digested: dict[str, InputFile] = {}  # each once, as many windows read one
    n_compared = 0
    for day in days:
        for name in day.complete:
            receipt = store.receipt(output, name)
            if receipt is None:
                continue
            left_out = tuple(one.path for one in left_out_of(store, output, name))
            files = source_of(plan.of_window(day.window), listed, left_out, False).files
            new = [file for file in files if file.path not in digested]
            digested |= zip([file.path for file in new], snapshot_of(new), strict=True)
            now = [digested[file.path] for file in files]
            fingerprint = fingerprint_of(plan, store, now, left_out)
            is_same = hmac.compare_digest(fingerprint, receipt.input_fingerprint)
            difference: dict[str, list[str]] = {}
            if not is_same:
                then = {file.path: file for file in receipt.origin.files}
                here = {file.path: file for file in now}
                difference = {
                    "changed": [
                        path for path, file in here.items() if then.get(path, file) != file
                    ],
                    "gone": [path for path in then if path not in here],
                    "came": [path for path in here if path not in then],
                }
            body = json.dumps({"is_as_it_was": is_same, **difference}, indent=2)
            write_anew(join(store.operator_folder(output, name), NAME), body.encode())
            n_compared += 1
    return n_compared
