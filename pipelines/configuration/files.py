"""Files that a configuration names, as bytes and as YAML."""

from __future__ import annotations

from typing import Any

from tracecloak.schemas.errors import UsageError


def bytes_of(what: str, path: str, max_bytes: int | None = 16 << 20, remedy: str = "") -> bytes:
    """Returns the bytes of a file.

    Args:
        what: What the file is, for errors.
        path: On this machine.
        max_bytes: How many it may have; None: any number.
        remedy: What to do if it cannot be read, for the error.

    Raises:
        UsageError: It cannot be read, or has more bytes.
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read(-1 if max_bytes is None else max_bytes + 1)
    except OSError as error:
        raise UsageError(f"{what} {path!r} cannot be read: {error.strerror}{remedy}") from None
    if max_bytes is not None and len(data) > max_bytes:
        raise UsageError(f"{what} {path!r} has more than {max_bytes >> 20} MiB")
    return data


def yaml_of(what: str, path: str) -> Any:
    """Returns what a file of YAML says.

    Raises:
        UsageError: It cannot be read, or is not YAML within bounds.
    """
    from tracecloak.schemas.texts.bounded_yaml import MAX_BYTES, bounded_yaml  # loaded on use

    try:
        return bounded_yaml(bytes_of(what, path, MAX_BYTES))
    except ValueError as error:
        raise UsageError(f"{what} {path!r} is no YAML that can be read: {error}") from None
