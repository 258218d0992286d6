"""What may be shown of a run that failed: our errors in full, and of others their class and stage.

The text of a foreign error may quote data. So only its class is shown, the operating system's words
for it, and the stage of the pipeline in which it arose.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import os
import re
import sqlite3
import sys
from collections.abc import Iterator

from tracecloak.schemas import errors
from tracecloak.schemas.errors import ForeignError, RetryLater, TracecloakError

# Beam appends the stage to the text of what is raised in one.
_STAGE = re.compile(r" \[while running '([^']*)'\]")
_FROM_STAGE_ON = re.compile(r" \[while running '.*")
# A worker in another process can hand back an error's text only: a traceback, with classes in it.
_OUR_CLASS = re.compile(r"tracecloak\.schemas\.errors\.(?P<name>\w+): (?P<text>[^\n]*)")
DISK_IS_FULL = "The disk is full"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ANY_CLASS = re.compile(r"^(?P<name>[A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)


def own_error(error: BaseException) -> TracecloakError | None:
    """Returns our own error in what a runner made of it, or None if it is not ours.

    If there are several, an error that a person must act on is returned before one that only asks
    for another try, as a scheduler would otherwise try for ever.
    """
    our_errors: list[TracecloakError] = []
    for cause in _chain(error):
        if isinstance(cause, TracecloakError):
            our_errors.append(type(cause)(_FROM_STAGE_ON.sub("", str(cause))))
            if cause.__suppress_context__:  # raised from another of ours, or from none
                break
    for match in reversed(list(_OUR_CLASS.finditer(str(error)))):
        kind = getattr(errors, match["name"], None)
        if isinstance(kind, type) and issubclass(kind, TracecloakError):
            our_errors.append(kind(_FROM_STAGE_ON.sub("", match["text"])))
    for_persons = (ours for ours in our_errors if ours.exit_code != RetryLater.exit_code)
    return next(for_persons, our_errors[0] if our_errors else None)


def reason_of(error: BaseException) -> str:
    """Returns the part of an error that holds no data: our own text, or class and stage.

    The class is that of the innermost cause, which a runner may have wrapped into a RuntimeError,
    and what the operating system says is added.
    """
    if isinstance(error, TracecloakError):
        return str(error)
    stages = [stage for cause in _chain(error) for stage in _STAGE.findall(str(cause))[-1:]]
    where = f" in stage {stages[0]!r}" if stages else ""
    for cause in _chain(error):
        if isinstance(cause, OSError) and cause.errno is not None:
            return f"{type(cause).__name__} ({os.strerror(cause.errno)}){where}"
    return _innermost_class(error) + where


def section_of(error: BaseException) -> str:
    """Returns the title of the section of the page of exit codes that says what to do now."""
    for cause in _chain(error):
        is_full = isinstance(cause, OSError) and cause.errno in _FULL
        if is_full or getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return DISK_IS_FULL
    return error.section if isinstance(error, TracecloakError) else TracecloakError.section


NOT_RELEASED = "nothing was released"
STAYS = "what was published stays published, and what was paid stays spent"
"""What a release leaves that failed, and a stream."""


@contextlib.contextmanager
def redact_foreign_errors(effect: str = NOT_RELEASED) -> Iterator[None]:
    """Raises `unwrap_error` in place of the errors of others."""
    try:
        yield
    except TracecloakError:
        raise
    except Exception as error:
        raise unwrap_error(error, effect) from error


def unwrap_error(error: Exception, effect: str = NOT_RELEASED) -> TracecloakError:
    """Returns our own error inside a runner's, or one of our own that quotes no foreign text.

    Args:
        error: What was raised.
        effect: What the failure leaves, as a clause.
    """
    ours = own_error(error)
    lacks_memory = any(isinstance(cause, MemoryError) for cause in _chain(error))
    if ours is None and effect == NOT_RELEASED and lacks_memory:
        return TracecloakError(
            "the release needs more memory than there is, and nothing was released: set memory to "
            "what there is, or take a machine with more, or a smaller max_trace_length"
        )
    return ours or ForeignError(f"the pipeline failed with {reason_of(error)}; {effect}")


def _chain(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _innermost_class(error: BaseException) -> str:
    """Returns the class of the error that was raised last, not of one handled before it."""
    while True:
        # The runner's error for a stage has that of the stage for its context.
        is_wrapped = error.__cause__ is None and _STAGE.search(str(error)) is not None
        inner = error.__context__ if is_wrapped else error.__cause__
        if inner is None:
            break
        error = inner
    if isinstance(error, RuntimeError):
        named = (match["name"] for match in _ANY_CLASS.finditer(str(error)))
        return next(filter(_is_class, named), type(error).__name__).rpartition(".")[2]
    return type(error).__name__


def _is_class(name: str) -> bool:
    """Whether this is the name of an exception's class, and not a word of the data."""
    module, _, attribute = name.rpartition(".")
    owner = sys.modules.get(module) if module else builtins
    named = getattr(owner, attribute, None)
    return isinstance(named, type) and issubclass(named, BaseException)
