"""Files of settings that clients of services are given, secrets among them, a line each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracecloak.schemas.errors import UsageError


def read_properties(key: str, path: str | None) -> dict[str, str]:
    """Returns the settings of a file of lines `name=value`; `#` begins a remark.

    Args:
        key: The key of the configuration that names the file.
        path: The file; None: there is none.

    Raises:
        UsageError: It cannot be read, or a line is none; the value is not shown.
    """
    if path is None:
        return {}
    try:
        with open(path, encoding="utf-8") as stream:
            lines = stream.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{key}: {path!r} cannot be read: {error}") from None
    return dict(_settings(key, path, lines))


def _settings(key: str, path: str, lines: Sequence[str]) -> Iterable[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            raise UsageError(f"{key}: line {number} of {path!r} is not name=value")
        yield name.strip(), value.strip()
