"""What time it is: whether anything keeps this machine's clock right, and what others say."""

from __future__ import annotations

import ctypes
import datetime
from collections.abc import Iterator

import sqlalchemy as sa

from tracecloak.examination.doctor.setting import Said, Setting
from tracecloak.pipelines.ledger.database import Database
from tracecloak.transforms.services.service_clock import CLOCK_SKEW_US

# What `ntp_gettime` of Linux returns where no time service has set the clock for long.
_NOT_SYNCHRONISED = 5
# More than its structure takes on any machine.
_N_BYTES = 256
_MEND = "have all machines synchronise their time, such as by chrony or systemd-timesyncd"


def look_at_clock(setting: Setting) -> Iterator[Said]:
    """Asks the kernel whether the clock is kept right, and a ledger on a server for its time."""
    state = _kernel_state()
    if state == _NOT_SYNCHRONISED:
        yield "warning", f"no time service keeps this machine's clock right: {_MEND}"
    elif state is not None:
        yield "ok", "a time service keeps this machine's clock right"
    ledger = setting.ledger
    if ledger is not None and ledger.is_shared:
        before = setting.now()
        stamp = Database(ledger.url, 5.0).transact(_time_of, writes=False)
        yield compared(before, stamp, setting.now(), "of the ledger's database")


def compared(before: float, stamp: float, after: float, whose: str) -> Said:
    """Returns how this machine's clock and another one agree.

    Args:
        before: This machine's, when the other was asked.
        stamp: What the other said.
        after: This machine's, when the answer was there.
        whose: The other, after "that".
    """
    limit = CLOCK_SKEW_US / 1e6
    for by, side in ((before - stamp, "ahead of"), (stamp - after, "behind")):
        # File systems have stamps of whole seconds at worst.
        if by > limit:
            return "failure", (
                f"this machine's clock is {by:,.0f} s {side} that {whose}: windows and steps "
                f"would begin and end at a wrong time; {_MEND}"
            )
    return "ok", f"this machine's clock is that {whose}, within {limit:.0f} s"


def _kernel_state() -> int | None:
    """Returns what the kernel says of its clock; None: it cannot be asked here."""
    try:
        ask = ctypes.CDLL(None).ntp_gettime
    except (OSError, AttributeError):
        return None
    state = int(ask(ctypes.create_string_buffer(_N_BYTES)))
    return state if state >= 0 else None


def _time_of(connection: sa.Connection) -> float:
    moment = connection.execute(sa.select(sa.func.current_timestamp())).scalar_one()
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return float(moment.timestamp())
