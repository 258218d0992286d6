"""The errors that a caller can act on, each with the exit code that the command ends with.

A class also has the title of the section, of the documentation's page of exit codes, which says
what somebody who is on call does about it.

A message names the argument or the column, shows a value if it is a parameter and never if it is
data, and says the remedy. It may cross a process boundary as text, so it stands on its own.
"""

from __future__ import annotations

import importlib
from typing import Any, ClassVar


class TracecloakError(Exception):
    """Base of all errors raised on purpose; the pipeline failed and nothing was released."""

    exit_code: ClassVar[int] = 6
    section: ClassVar[str] = "A run failed"

    def __init_subclass__(cls, section: str | None = None, exit_code: int | None = None) -> None:
        """Takes both from the head of the class; what it does not name is as in its base."""
        super().__init_subclass__()
        cls.section, cls.exit_code = section or cls.section, exit_code or cls.exit_code


class ForeignError(TracecloakError):
    """A library or the machine failed; the text has its class and stage only, and no data."""


class UsageError(TracecloakError, exit_code=2, section="A key or a flag is wrong"):
    """A configuration key or a parameter is wrong; its message names the key without a prefix."""


class InputSchemaError(TracecloakError, exit_code=3, section="A file is damaged"):
    """The source is not there, or is no event log: columns, encoding, too many malformed events."""


class NoSuchFile(InputSchemaError, section="No such file"):  # noqa: N818 - as the operating system says
    """A file is not there, or none that a pattern matches."""


class OtherFormat(InputSchemaError, section="A file is of another format"):  # noqa: N818 - what is wrong with it
    """A file or a frame is sound, and not of a form that is read as an event log."""


class LacksColumn(InputSchemaError, section="A column is missing"):  # noqa: N818 - what the source does
    """The source is there, and does not have the columns that are mapped.

    Attributes:
        columns: Those that it does not have.
        names: Those that it has, as far as they are known.
    """

    columns: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()


class SchemaChanged(LacksColumn, section="The schema changed"):
    """Some files of the source have the columns that are mapped, and others do not."""


class NotConfirmed(UsageError, section="A release was not confirmed"):  # noqa: N818 - what happened
    """A person was asked whether to release what can hardly be read, and said no."""


class ReleaseTaken(UsageError, section="A release id is taken"):  # noqa: N818 - the name of a state, not of a fault
    """A release of that name was begun or made, and is not what is asked for."""


class MessagesLost(TracecloakError, section="The broker lost messages"):  # noqa: N818 - what happened
    """Messages that belong to an epoch were deleted before they were read."""


class SourceChanged(TracecloakError, section="The topic is another log"):  # noqa: N818 - what happened
    """The source of a stream is not the log that its epoch has read."""


class BudgetExhausted(TracecloakError, exit_code=4, section="The budget is spent"):  # noqa: N818 - the name of a state, not of a fault
    """The account has less epsilon or delta left than the release asks for; nothing was spent."""


class GuaranteeError(TracecloakError, exit_code=5, section="A promise cannot be kept"):
    """The promise of the method cannot be kept on this input, so nothing is released."""


class UnusableRelease(TracecloakError, exit_code=9, section="Nobody could use the release"):  # noqa: N818 - what the release would be
    """Public numbers say that nobody could use the release; nothing was claimed or paid."""


class Stuck(TracecloakError, exit_code=10, section="A step is late"):  # noqa: N818 - the name of a state, not of a fault
    """A stream made no step although one was due: it ended, and may be started again as it is."""


class StaysStuck(TracecloakError, exit_code=11, section="A step is late"):  # noqa: N818 - likewise
    """A stream was stuck at one step in several starts: it stays down until that is corrected."""


class RetryLater(TracecloakError, exit_code=75, section="Something passes by itself"):  # noqa: N818 - what to do about it
    """Something that passes was in the way: the same command may be run again as it is.

    The code is EX_TEMPFAIL of BSD's sysexits.h, which schedulers can be told to retry.
    """


def check_least(least: int, /, **values: int | None) -> None:
    """Raises UsageError if one of the named values is given and below the least that it may be."""
    for name, value in values.items():
        if value is not None and value < least:
            raise UsageError(f"{name} must be at least {least}, got {value}")


def missing_extra(what: str, library: str, extra: str, instead: str = "") -> UsageError:
    """Returns the error that a library of an extra is not installed.

    Args:
        what: What needs it, as the subject of a sentence in the singular.
        library: The library's name.
        extra: The name under which setup.py has it.
        instead: What does without it, in the imperative; empty if nothing does.
    """
    # The extra's libraries are named, since tracecloak[extra] would make pip look for tracecloak on
    # the package index, where it is not, and .[extra] serves in a checkout only.
    needs = " ".join(f"'{need}'" for need in _needs_of(extra)) or library
    return UsageError(
        f"{what} needs {library}, which is not installed: "
        f"run pip install {needs} (the extra {extra})" + (f", or {instead}" if instead else "")
    )


def import_extra(module: str, what: str, library: str, extra: str) -> Any:
    """Imports a module of a library of an extra, and returns it; see `missing_extra`.

    Raises:
        UsageError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise missing_extra(what, library, extra) from None


def _needs_of(extra: str) -> list[str]:
    """Returns what an extra of the installed tracecloak needs, as pip is to be given it."""
    import importlib.metadata  # these two are for errors only

    from packaging.requirements import Requirement

    try:
        needs = map(Requirement, importlib.metadata.requires("tracecloak") or ())
    except importlib.metadata.PackageNotFoundError:  # run from a checkout that is not installed
        return []
    requirements = []
    for need in needs:
        if need.marker is not None and need.marker.evaluate({"extra": extra}):
            need.marker = None
            requirements.append(str(need))
    return requirements
