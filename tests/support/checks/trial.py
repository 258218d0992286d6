"""Copies of a configuration in places of their own: log, output, key store and ledger are scratch.

The operator's are neither read nor written. Runs are brought to an end by the file system alone, as
where somebody's file lies in the release's place, so what is tried is the code as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.support.checks.made_up_log import Case, MadeUp
from tracecloak.anonymizers.accounting.composition import total
from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.budget.opening import officers_ledger, store_at
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.rewrapping import new_key_file
from tracecloak.pipelines.ledger.balance import charges
from tracecloak.pipelines.ledger.caps import Account
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger
from tracecloak.pipelines.release.run import run_release
from tracecloak.schemas.errors import TracecloakError
from tracecloak.schemas.published.manifest import MANIFEST_NAME
from tracecloak.transforms.publish.release_folder import LATEST_NAME, ReleaseFolder

# What the officer of the copies is called, and gives for a reason.
OFFICER, REASON = "the checks", "a check"
_LEDGER = "ledger.db"
_DEPLOYMENT_KEY = "deployment.key"
_ENCRYPTION_KEY = "encryption.key"


@dataclass(frozen=True)
class Ran:
    """How a release ended.

    Attributes:
        code: Its exit code.
        text: The error's text, without the names of scratch folders; empty if there was none.
    """

    code: int
    text: str

    @property
    def told(self) -> str:
        """The two in words."""
        return f"exit code {self.code}" + (f" ({self.text})" if self.text else "")


class Trial:
    """One configuration, and scratch places to try it in."""

    def __init__(self, config: ReleaseConfig, folder: Path, runner: str) -> None:
        """Makes nothing yet.

        Args:
            config: The operator's; its input is not read.
            folder: An empty one.
            runner: Of the copies.
        """
        self.config = config
        self.runner = runner
        self._folder = folder.resolve()
        self.logs = MadeUp(config)

    @property
    def is_rigorous(self) -> bool:
        """Whether the configuration has a true epsilon."""
        return self.config.guarantee.kind == "rigorous"

    @cached_property
    def cost(self) -> tuple[Fraction, Fraction] | None:
        """Epsilon and delta of a release; None: no finite epsilon holds."""
        spends = method_named(self.config.method).spends(self.config.method_params)
        return total(spends) if spends else None

    @property
    def has_ledger_elsewhere(self) -> bool:
        """Whether the ledger is not the one in the key store."""
        return self.config.ledger is not None

    def place(self, name: str, with_log: bool = True) -> Place:
        """Returns a fresh place with the usual log and a ledger in which nothing is spent."""
        place = Place(self, self._folder / name)
        place.folder.mkdir()
        for name in (_DEPLOYMENT_KEY, _ENCRYPTION_KEY):
            new_key_file(place.folder / name)
        place.begin_ledger()
        if with_log:
            place.write(self.logs.usual())
        return place


class Place:
    """A log, an output, a key store and a ledger that belong together."""

    def __init__(self, trial: Trial, folder: Path) -> None:
        self.folder = folder
        self.output, self.keys = folder / "out", folder / "keys"
        self.log = folder / "log.csv"
        self._trial = trial

    # --- the configuration and its runs

    def config(self, **changes: Any) -> ReleaseConfig:
        """Returns the copy of the configuration, with other values of some keys."""
        given = self._trial.config
        at_hand = {
            "staging_area": given.staging_area and str(self.folder / "staging"),
            "dead_letter": given.dead_letter and str(self.folder / "dead letter"),
            "worker_keys": given.worker_keys and str(self.folder / "worker keys"),
            "ledger": self.ledger_url,
            "key_encryption_key": self._encryption_key,
        }
        copied = {
            "log": (str(self.log),),
            "input_format": "csv",
            "output": str(self.output),
            "release_id": "r",
            "key_store": str(self.keys),
            "new_ledger": False,
            "accounts": None,
            # Also in place of one that the environment names.
            "deployment_key": f"file:{self.folder / _DEPLOYMENT_KEY}",
            "runner": self._trial.runner,
        }
        return given.model_copy(update={**copied, **at_hand, **changes})

    def release(self, **changes: Any) -> Ran:
        """Runs a release, and returns how it ended.

        Args:
            changes: Other values of keys of the configuration.
        """
        try:
            run_release(self.config(**changes))
        except TracecloakError as error:
            return Ran(error.exit_code, str(error).replace(str(self.folder), "…"))
        return Ran(0, "")

    def cut_off(self, release_id: str = "r", **changes: Any) -> Ran:
        """Runs a release that ends after it drew and wrote all, before any of it is visible.

        A file lies in its place, which is gone afterwards.
        """
        self.output.mkdir(exist_ok=True)
        in_the_way = self.final(release_id)
        in_the_way.write_bytes(b"")
        ran = self.release(release_id=release_id, **changes)
        in_the_way.unlink()
        return ran

    def cut_off_after_it_is_visible(self) -> Ran:
        """Runs a release that ends before the ledger notes that it is visible.

        A folder lies in the place of the pointer to the latest release, and is gone afterwards.
        """
        in_the_way = self.output / LATEST_NAME / "folder"
        in_the_way.mkdir(parents=True)
        ran = self.release()
        shutil.rmtree(in_the_way.parent)
        return ran

    def write(self, cases: Sequence[Case], broken: Sequence[str] = ()) -> None:
        """Writes the log of this place anew, with lines that are no records behind it."""
        self._trial.logs.write(self.log, cases, broken)

    # --- what they left

    def final(self, release_id: str = "r") -> Path:
        """Where a release is."""
        return self.output / f"run_id={release_id}"

    def is_visible(self, release_id: str = "r") -> bool:
        """Whether a release is there."""
        return (self.final(release_id) / MANIFEST_NAME).exists()

    def manifest(self, release_id: str = "r") -> dict[str, Any]:
        """What a release says of itself."""
        text = (self.final(release_id) / MANIFEST_NAME).read_text(encoding="utf-8")
        body: dict[str, Any] = json.loads(text)
        return body

    def bytes_of(self, release_id: str = "r") -> Mapping[str, str]:
        """Digests of the data of a release by the names of their files."""
        return _digests(self.final(release_id))

    def bytes_built(self, release_id: str = "r") -> Mapping[str, str]:
        """The same of one that was cut off before it was visible."""
        return _digests(Path(self.workplace(release_id).staging))

    def workplace(self, release_id: str = "r") -> ReleaseFolder:
        """Where a release is built."""
        area = self.config().staging_area
        return ReleaseFolder(str(self.output), release_id, area, store=self.store.identity())

    # --- who pays

    @property
    def ledger_url(self) -> str | None:
        """The ledger's URL, or None for that of the key store; as in the configuration."""
        if not self._trial.has_ledger_elsewhere:
            return None
        return f"sqlite:///{self.folder / _LEDGER}"

    @property
    def ledger_file(self) -> Path:
        """The file of the ledger."""
        return (self.folder if self._trial.has_ledger_elsewhere else self.keys) / _LEDGER

    @property
    def store(self) -> KeyStore:
        """The key store, encrypted if the configured one is."""
        return store_at(str(self.keys), None, self._encryption_key)

    @property
    def _encryption_key(self) -> str | None:
        """Where the key of this place is that encrypts keys; None: they lie in clear."""
        named = self._trial.config.key_encryption_key
        if not (named or os.environ.get("TRACECLOAK_KEY_ENCRYPTION_KEY")):
            return None
        return f"file:{self.folder / _ENCRYPTION_KEY}"

    @property
    def ledger(self) -> OfficersLedger:
        """The ledger, with the key store that remembers it."""
        return officers_ledger(self.store, self.ledger_url)

    def begin_ledger(self) -> None:
        """Makes the ledger, as the officer does."""
        officers_ledger(self.store, self.ledger_url, new=True)

    def declare(self, n_releases: int = 1, name: str | None = None) -> None:
        """Declares an account whose caps are what so many releases cost.

        Args:
            n_releases: How many.
            name: The account's; None: that of the configuration.
        """
        epsilon, delta = self._trial.cost or (Fraction(1), Fraction(0))
        unit = self._trial.config.guarantee.unit
        name = self._trial.config.account if name is None else name
        caps = Account(name, n_releases * epsilon, n_releases * delta, unit)
        self.ledger.declare_account(caps, OFFICER, REASON)

    def paid(self) -> list[Entry]:
        """The charges that count as spent, by the ledger's file as it is."""
        by_charge = charges(OfficersLedger(f"sqlite:///{self.ledger_file}").entries())
        return [entry for entry in by_charge.values() if entry.action != "void"]

    @property
    def n_paid(self) -> int:
        """How many charges count as spent."""
        return len(self.paid())

    @property
    def n_keys(self) -> int:
        """How many releases have a key with which they can be finished."""
        return sum(self.store.key_state(one) == "there" for one in self.store.with_key_files())


def _digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST_NAME
    }
