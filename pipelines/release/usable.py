"""Whether a release is of use by public numbers: if not, it is refused before it is paid."""

from __future__ import annotations

import logging

from tracecloak.pipelines.planning.usable import unusable, unusable_sentence
from tracecloak.pipelines.release.values import Concern, Run
from tracecloak.schemas.errors import UnusableRelease

_LOG = logging.getLogger("tracecloak")
# In these states a run would begin a release, and pay for it.
BEGINS = ("new", "reserved", "given up", "key lost")


class UsableConcern(Concern):
    """Has a release that nobody could use made only if that was asked for.

    What is drawn already is finished, whatever is expected now: it is paid.
    """

    def open(self, run: Run) -> None:
        """Compares the expected cases, the declared activities and epsilon.

        Raises:
            UnusableRelease: Nobody could use it, and `even_if_unusable` is not set.
        """
        if run.books.look().state not in BEGINS:
            return
        verdict = unusable(run.config)
        if verdict is None:
            return
        sentence = unusable_sentence(verdict)
        if run.config.even_if_unusable:
            _LOG.warning("%s It is released all the same, as --even_if_unusable says", sentence)
            return
        raise UnusableRelease(
            f"{sentence} Nothing was claimed or paid; to release it all the same, say "
            "--even_if_unusable"
        )
