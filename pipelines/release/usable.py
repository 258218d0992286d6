"""Whether a release is of use: if public numbers say no, it is refused before it is paid.

Where a person looks at a terminal, the first records count, too: if most of them do not count, the
person is asked. Whether there is a release then follows from the data, by decision of its operator;
the threat model says so. Nothing is asked of programs, and nothing is decided for them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tracecloak.pipelines.planning.usable import unusable, unusable_sentence
from tracecloak.pipelines.release.values import Concern, Run
from tracecloak.schemas.errors import NotConfirmed, UnusableRelease

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


def require_confirmation(run: Run, confirm: Callable[[str], bool]) -> None:
    """Asks whether to go on, if the run would pay and most of its first records do not count.

    Args:
        run: As it was opened.
        confirm: Asks the operator; True means yes.

    Raises:
        NotConfirmed: The answer is no; nothing was reserved.
        InputSchemaError: A file cannot be read.
    """
    from tracecloak.pipelines.planning.findings import FirstLook  # loaded on use

    unread = ""
    if run.books.look().state in BEGINS:
        unread = FirstLook.at(run.config, run.source).unread
    if not unread or confirm(f"{unread}. Release it all the same?"):
        return
    for concern in run.concerns:
        concern.dropped()
    raise NotConfirmed(
        "the release was not confirmed, so nothing was reserved or paid; correct what `tracecloak "
        "plan` with the same flags says of the first records, or answer with --yes"
    )
