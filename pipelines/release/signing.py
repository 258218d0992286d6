"""Who signs a release: the key is asked for before anything is paid, and looked at once it is."""

from __future__ import annotations

from dataclasses import replace

from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.release.values import Concern, Outcome, Run, Signature
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.batch.job import Job
from tracecloak.transforms.files import is_on_this_machine
from tracecloak.transforms.publish.release_folder import ReleaseFolder


class SignatureConcern(Concern):
    """Has whoever commits the release sign its manifest."""

    def open(self, run: Run) -> None:
        """Makes sure that the key is there which signs.

        Raises:
            UsageError: It is not, or is of another kind, or lies on this machine only while the
                release is committed by a worker elsewhere.
            RetryLater: Its source does not answer now.
        """
        signer = run.config.signer
        if signer is None:
            return
        scheme, _, path = signer.text.partition(":")
        if not run.driver.is_local and scheme == "file" and is_on_this_machine(path):
            raise UsageError(
                f"sign names a file of this machine, and with runner {run.config.runner} a worker "
                "elsewhere commits the release and signs it: name a key that it can ask for, as "
                "command:WORDS or env:NAME, or a file on a file system that it can read"
            )
        signer.key()

    def claim(self, run: Run, job: Job) -> Job:
        """Returns the job with the key that signs."""
        spec = replace(job.target.spec, signer=run.config.signer)
        return replace(job, target=replace(job.target, spec=spec))

    def tell(self, run: Run, outcome: Outcome) -> Outcome:
        """Says whether the release is signed, and by which key."""
        if not outcome.was_released_before:  # this run signed it; its key may not answer again
            return replace(outcome, signature="there")
        return replace(outcome, signature=signature_of(run.config, run.folder))


def signature_of(config: ReleaseConfig, folder: ReleaseFolder) -> Signature:
    """Returns whether a release is signed, and by which key if the configuration names one.

    Raises:
        UsageError: That key is not there any more.
        RetryLater: Its source does not answer now.
    """
    signed = folder.read_signature()
    if signed is None:
        return "none"
    if config.signer is None or config.signer.signed(*signed):
        return "there"
    return "by another key"
