"""The sketch of the cases that a release reads: by it the ledger recognises a copy of a log."""

from __future__ import annotations

import datetime
import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from tracecloak.pipelines.release.values import Concern, Run

if TYPE_CHECKING:
    from tracecloak.transforms.batch.job import Job
    from tracecloak.transforms.keys.wrapping import KeyReference

_LOG = logging.getLogger("tracecloak")


class SketchConcern(Concern):
    """Has the run write a sketch of its cases, which the ledger notes once noise is drawn."""

    def __init__(self) -> None:
        """No key is known yet."""
        self._key: KeyReference | None = None

    def open(self, run: Run) -> None:
        """Looks for the key of the deployment, under which sketches are made.

        Raises:
            UsageError: There is no key where one is named.
        """
        from tracecloak.transforms.keys.wrapping import KeyReference

        named = run.config.deployment_key or os.environ.get("TRACECLOAK_DEPLOYMENT_KEY")
        if named is not None:
            key = KeyReference(named)
            self._key = KeyReference(named, key.resolve().fingerprint)
        elif run.driver.is_local:
            self._key = run.books.store.deployment_key()
        else:
            _LOG.warning(
                "the ledger does not note which cases are read, as workers elsewhere have no key "
                "for that: name one with deployment_key, or say so with cases_kept_days 0"
            )

    def claim(self, run: Run, job: Job) -> Job:
        """Returns the job with the file of the sketch."""
        if self._key is None or run.key is None:
            return job
        from tracecloak.transforms.batch.case_sketches import SketchFile

        duration = datetime.timedelta(days=run.config.cases_kept_days)
        until = (datetime.datetime.now(datetime.UTC) + duration).date().isoformat()
        file = SketchFile(run.books.sketch_path(run.key.fingerprint), self._key, until)
        spec = replace(job.target.spec, sketch=file)
        return replace(job, target=replace(job.target, spec=spec))
