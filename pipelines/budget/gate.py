"""What a run passes before it draws noise: the ledger says from then on that nothing is given back.

On this machine the gate is passed where the first round decides, so that a run that fails while it
reads, or whose input changes meanwhile, costs nothing. It is a file beside the keys, and workers in
other processes find the ledger by it. A run on a cluster passes before it is submitted: it may
outlive whoever started it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracecloak.pipelines.budget.unchanged import Unchanged
from tracecloak.schemas.errors import UsageError

if TYPE_CHECKING:
    from tracecloak.pipelines.budget.ledger import Ledger


@dataclass(frozen=True)
class Gate:
    """Calling it notes in the ledger that noise is drawn from now on; it pickles.

    Attributes:
        path: A file of the key store with the ledger's URL, whose password is in no pipeline so.
        output: The folder of all releases.
        release_id: The release's name.
        key_fingerprint: Tells release keys apart.
        inputs: What is to be as it was where the gate is passed first; None: nobody looks.
    """

    path: str
    output: str
    release_id: str
    key_fingerprint: str
    inputs: Unchanged | None = None

    def __call__(self) -> None:
        """Passes the gate; passed once, does nothing.

        Raises:
            UsageError: The reservation was given back or given up meanwhile: nothing is drawn.
            RetryLater: An input changed: nothing is drawn.
            LedgerError: The ledger cannot be used.
        """
        ledger = self._ledger()
        charge = self.output, self.release_id, self.key_fingerprint
        # What changes after the first round decided is no longer read.
        if self.inputs is not None and ledger.state(*charge) == "reserve":
            self.inputs()
        ledger.draw(*charge)

    def check_open(self) -> None:
        """Makes sure, before the release appears, that nobody gave it up meanwhile.

        Raises:
            UsageError: Somebody did, with whatever key store: nothing appears.
            LedgerError: The ledger cannot be used.
        """
        state = self._ledger().state(self.output, self.release_id, self.key_fingerprint)
        if state in (None, "void", "forfeit", "withdraw"):
            raise self._ended()

    def _ledger(self) -> Ledger:
        from tracecloak.pipelines.budget.key_store import KeyStore
        from tracecloak.pipelines.budget.ledger import Ledger

        path = Path(self.path)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise self._ended() from None
        return Ledger(found["ledger"], store=KeyStore(path.parents[1]))

    def _ended(self) -> UsageError:
        return UsageError(
            f"release {self.release_id!r} in {self.output} was ended meanwhile, so nothing more is "
            "drawn or released for it; run the command again, which reserves anew"
        )
