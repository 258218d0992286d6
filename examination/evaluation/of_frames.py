"""`tracecloak.evaluate`: how far a release is from a log in memory. For the operator only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from narwhals.typing import IntoFrame

from tracecloak.examination.evaluation.evaluate import evaluate as compared
from tracecloak.examination.evaluation.origin import share_noted_in
from tracecloak.examination.evaluation.report import summary_lines
from tracecloak.pipelines.budget.opening import store_at
from tracecloak.pipelines.frames.doors import frame_source, told_of_frame
from tracecloak.pipelines.frames.released import Released
from tracecloak.pipelines.release.run import told_apart
from tracecloak.pipelines.verification.received import Received


@dataclass(frozen=True, repr=False)
class Evaluation:
    """How far a release is from its log; computed on the unprotected log, and not private.

    Attributes:
        figures: JSON values, see `examination.evaluation.evaluate.evaluate`.
    """

    figures: dict[str, Any]

    def __repr__(self) -> str:
        """Returns what is most to the point, as a screen or a notebook shows it."""
        return "\n".join(summary_lines(self.figures))


def evaluate(
    frame: IntoFrame, released: Released[Any] | str | os.PathLike[str], **keys: Any
) -> Evaluation:
    """Compares a release with the log that it was made of.

    Args:
        frame: The log; see `tracecloak.release`.
        released: What `tracecloak.release` returned, whose keys hold here as well; or the folder of
            a release, or of releases whose latest is meant.
        **keys: Keys that say how the log is read, and `key_store` and `ledger`, which can tell that
            the release is of another log.

    Raises:
        UsageError: It is of another log, or the extra measures is not installed, which a release
            with a log needs.
        InputSchemaError: The frame lacks a column, or there is no release, or not as it was made.
    """
    with told_of_frame(), told_apart():
        if isinstance(released, Released):
            given, folder = {**released.keys, **keys}, str(released.folder)
        else:
            given, folder = dict(keys), os.fspath(released)
        store, ledger = given.pop("key_store", None), given.pop("ledger", None)
        source = frame_source(frame, given)
        noted_share = share_noted_in(store_at(store), ledger)
        return Evaluation(compared(source, Received.at(folder), noted_share))
