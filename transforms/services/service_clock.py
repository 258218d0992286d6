"""How far the clocks of a message service and of this machine are apart, by messages of our own.

A message that was sent at one moment of this machine's clock, and taken by a later one, was stamped
in between, so its stamp says by how much the clocks differ at least. A stream believes no moment of
a service whose clocks differ from each other, or from this machine's, by more than CLOCK_SKEW_US.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracecloak.schemas.errors import RetryLater

# By how much clocks may differ: with time synchronisation they differ by milliseconds.
CLOCK_SKEW_US = 2_000_000


@dataclass(frozen=True)
class StampedProbe:
    """A message of our own; all in microseconds since 1970 UTC.

    Attributes:
        sent_us: Before it was sent, by this machine's clock.
        stamp_us: When the service says that it came.
        taken_us: When the service had said that it has it, by this machine's clock.
    """

    sent_us: int
    stamp_us: int
    taken_us: int

    @property
    def offset_us(self) -> int:
        """How far this machine's clock is ahead, if both ways of the message took equally long."""
        return (self.sent_us + self.taken_us) // 2 - self.stamp_us


def check_clocks(service: str, probes: Sequence[StampedProbe]) -> None:
    """Makes sure that all clocks show about the same.

    Args:
        service: What stamped the messages.
        probes: A message for each of its clocks.

    Raises:
        RetryLater: Two of the clocks are certain to differ by more than CLOCK_SKEW_US.
    """
    ahead_us = max(0, *(probe.sent_us - probe.stamp_us for probe in probes))
    behind_us = max(0, *(probe.stamp_us - probe.taken_us for probe in probes))
    if ahead_us + behind_us <= CLOCK_SKEW_US:
        return
    sides = ((ahead_us, "ahead of"), (behind_us, "behind"))
    said = " and ".join(f"{by / 1e6:,.1f} s {side}" for by, side in sides if by)
    raise RetryLater(
        f"the clock of this machine is {said} that of {service}, and no step is decided while they "
        f"differ by more than {CLOCK_SKEW_US / 1e6:.0f} s: have all machines synchronise their time"
    )
