"""All checks on one configuration, in the order in which a run would meet what they look at."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tracecloak.examination.doctor import (
    due,
    engines,
    keys,
    places,
    sample,
    sources,
)
from tracecloak.examination.doctor.setting import Said, Setting, Status
from tracecloak.pipelines.runners.failures import reason_of, section_of
from tracecloak.schemas.errors import RetryLater, TracecloakError

Look = Callable[[Setting], Iterator[Said]]

CHECKS: dict[str, Look] = {
    "configuration": due.look_at_configuration,
    "engine": engines.look_at_engine,
    "key store": keys.look_at_key_store,
    "keys": keys.look_at_named_keys,
    "ledger": keys.look_at_ledger,
    "calendar": due.look_at_calendar,
    "input": sources.look_at_input,
    "messages": sample.look_at_messages,
    "output": places.look_at_output,
    "staging area": places.look_at_staging_area,
    "disk": places.look_at_disk,
    "clock": places.look_at_clock,
    "release": keys.look_at_release_id,
    "budget": keys.look_at_budget,
    "state": sources.look_at_state,
    "on call": due.look_at_operators_side,
}
"""By name what looks at one thing; it raises the error with which a run would end."""

# A disk or a service that does not answer would keep a check for ever. A small job of --probe may
# take two minutes.
_PATIENCE_SECONDS = 180.0


@dataclass(frozen=True)
class Line:
    """What a check says of one thing.

    Attributes:
        check: Name of the check.
        status: How it stands.
        text: A sentence, with the mend if it is not ok; no value of the data, and no number of it
            but of messages of a stream, for the operator.
        exit_code: With which a run would end for it; 0: it would not end for it.
        cause: The check that has told the same before; empty: none has.
    """

    check: str
    status: Status
    text: str
    exit_code: int = 0
    cause: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns it as JSON values."""
        return asdict(self)


def looked_at(
    setting: Setting, checks: dict[str, Look] | None = None, seconds: float = _PATIENCE_SECONDS
) -> Iterator[Line]:
    """Yields what each check says; a check that fails stops no other, and one cause is told once.

    Args:
        setting: What they look at.
        checks: Which; None: all.
        seconds: How long one may take.
    """
    causes: dict[str, str] = {}
    for name, look in (CHECKS if checks is None else checks).items():
        lines: list[Line] = []
        thread = threading.Thread(target=_look, args=(name, look, setting, lines), daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            text = (
                f"what is looked at does not answer within {seconds:.0f} s: see whether its disk or"
                " its service hangs"
            )
            lines = [*lines, Line(name, "failure", text, RetryLater.exit_code)]
        for line in lines:
            first = causes.setdefault(line.text, name) if line.status == "failure" else name
            is_new = first == name
            yield line if is_new else replace(line, text=f"see {first}", cause=first)


def exit_code_of(lines: Sequence[Line]) -> int:
    """Returns that of the first failure that a person must mend, or of the first one at all."""
    codes = [line.exit_code for line in lines if line.status == "failure"]
    return next((code for code in codes if code != RetryLater.exit_code), codes[0] if codes else 0)


def _look(name: str, look: Look, setting: Setting, lines: list[Line]) -> None:
    try:
        for status, text in look(setting):
            code = TracecloakError.exit_code if status == "failure" else 0
            lines.append(Line(name, status, text, code))
    except TracecloakError as error:
        text = f"{error} [{section_of(error)}]"
        lines.append(Line(name, "failure", text, error.exit_code))
    except Exception as error:  # its own text could quote data
        text = f"this could not be looked at: {reason_of(error)}"
        lines.append(Line(name, "failure", text, TracecloakError.exit_code))
