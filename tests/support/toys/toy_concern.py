"""A concern of a release in one file: it draws lots for who reads the release first."""

from __future__ import annotations

import secrets
from dataclasses import replace

from tracecloak.pipelines.configuration.plan import ReleasePlan
from tracecloak.pipelines.release.values import Extension, Run
from tracecloak.schemas.published.manifest import ReleaseManifest
from tracecloak.transforms.batch.job import Job
from tracecloak.transforms.files import read_if_there, write_new


class LotConcern(Extension):
    """Draws a lot before the run, keeps it through a kill, and says it in the manifest."""

    def __init__(self) -> None:
        self._lot = ""

    def claim(self, run: Run, job: Job) -> Job:
        path = f"{run.operator_folder}/lot"
        write_new(path, secrets.token_hex(8).encode())  # one that is there stays
        self._lot = (read_if_there(path) or b"").decode()
        return job

    def described(self, plan: ReleasePlan, manifest: ReleaseManifest) -> ReleaseManifest:
        return replace(manifest, noted={**manifest.noted, "lot": self._lot})
