"""Extensions of a release without a window: the sketch of its cases, and its signature."""

from __future__ import annotations

import datetime
import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from tracecloak.pipelines.release.values import Extension, Outcome, Run
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.batch.job import Job
from tracecloak.transforms.files import is_on_this_machine

if TYPE_CHECKING:
    from tracecloak.transforms.keys.signing import SigningReference
    from tracecloak.transforms.keys.wrapping import KeyReference


# --- The sketch of the cases that a release reads: by it the ledger recognises a copy of a log. ---


_LOG = logging.getLogger("tracecloak")


class SketchExtension(Extension):
    """Has the run write a sketch of its cases, which the ledger notes once noise is drawn."""

    _key: KeyReference | None = None  # until there is a run

    def open(self, run: Run) -> None:
        """Looks for the key of the deployment, under which sketches are made.

        Raises:
            UsageError: There is no key where one is named.
        """
        from tracecloak.transforms.keys.wrapping import KeyReference

        named = run.plan.keys.deployment_key or os.environ.get("TRACECLOAK_DEPLOYMENT_KEY")
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
        from tracecloak.transforms.batch.job import SketchFile

        duration = datetime.timedelta(days=run.plan.keys.cases_kept_days)
        until = (datetime.datetime.now(datetime.UTC) + duration).date().isoformat()
        file = SketchFile(run.books.sketch_path(run.key.fingerprint), self._key, until)
        spec = replace(job.target.spec, sketch=file)
        return replace(job, target=replace(job.target, spec=spec))


# --- Who signs a release: the key is asked for before anything is paid, and looked at once it is. -


class SignatureExtension(Extension):
    """Has whoever commits the release sign its manifest."""

    _signer: SigningReference | None = None  # until there is a run

    def open(self, run: Run) -> None:
        """Makes sure that the key is there which signs.

        Raises:
            UsageError: It is not, or is of another kind, or lies on this machine only while the
                release is committed by a worker elsewhere.
            RetryLater: Its source does not answer now.
        """
        from tracecloak.transforms.keys.signing import SigningReference

        keys = run.plan.keys
        self._signer = signer = SigningReference.given(str(keys.sign))
        scheme, _, path = signer.text.partition(":")
        if not run.driver.is_local and scheme == "file" and is_on_this_machine(path):
            raise UsageError(
                f"sign names a file of this machine, and with runner {keys.runner} a worker "
                "elsewhere commits the release and signs it: name a key that it can ask for, as "
                "command:WORDS or env:NAME, or a file on a file system that it can read"
            )
        signer.key()

    def claim(self, run: Run, job: Job) -> Job:
        """Returns the job with the key that signs."""
        spec = replace(job.target.spec, signer=self._signer)
        return replace(job, target=replace(job.target, spec=spec))

    def tell(self, run: Run, outcome: Outcome) -> Outcome:
        """Says whether the release is signed, and by which key.

        Raises:
            UsageError: The key that is named is not there any more.
            RetryLater: Its source does not answer now.
        """
        if not outcome.was_released_before:  # this run signed it; its key may not answer again
            return replace(outcome, signature="there")
        signed, signer = run.books.folder.read_signature(), self._signer
        if signed is None:
            return replace(outcome, signature="none")
        is_ours = signer is None or signer.signed(*signed)
        return replace(outcome, signature="there" if is_ours else "by another key")
