"""Object stores by their own clients: what is listed there, and the bytes of one version of it.

Beam lists no versions, and asks for each file before it opens it. So each store here is one class
of a file of its own, which asks with the client, the credentials and the endpoint that Beam takes
from the same options. What Beam writes, and file systems that have no versions, are not here.

What clients of object stores raise, as errors of ours without their texts.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from tracecloak.schemas.errors import RetryLater, TracecloakError, UsageError
from tracecloak.transforms.inputs.listing import Listed, first_wildcard

# Classes of errors without a status that waiting mends, of boto3's, Azure's and Google's clients.
_PASSING = {
    "ConnectionError", "HTTPClientError", "RetryError", "ServiceRequestError",
    "ServiceResponseError", "Timeout", "TimeoutError", "TransportError",
}  # fmt: skip


def status_of(error: Exception) -> int | None:
    """Returns the status of HTTP that a client's error is about; None: it is about none."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # boto3's
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:  # that of Azure's client, and that of Google's
        status = getattr(error, "status_code", None) or getattr(error, "code", None)
    return int(status) if isinstance(status, int) else None


def is_passing(error: Exception) -> bool:
    """Returns whether a client's error says that its store does not answer now."""
    status = status_of(error)
    if status is not None:
        return status >= 500 or status in (408, 429)
    names = {kind.__name__ for kind in type(error).__mro__}
    return "SSLError" not in names and not names.isdisjoint(_PASSING)


def told(path: str, error: Exception) -> TracecloakError:
    """Returns what is said of an input that cannot be read."""
    status = status_of(error)
    if status in (404, 412):
        return RetryLater(
            f"input {path!r} was replaced or deleted after it was listed. Nothing is read of two "
            "versions, so nothing was released: run the same command again once nobody writes to "
            "it, or of a copy"
        )
    if status in (401, 403):
        return UsageError(
            f"input {path!r} may not be read: status {status}; mend this machine's rights and "
            "credentials there"
        )
    return RetryLater(
        f"input {path!r} cannot be read now: {type(error).__name__}; run the same command again"
    )


# By the scheme of their paths.
_STORES = {
    "azfs": "tracecloak.transforms.inputs.azure_store:AzureStore",
    "gs": "tracecloak.transforms.inputs.gcs_store:GcsStore",
    "s3": "tracecloak.transforms.inputs.s3_store:S3Store",
}
# What breaks off is asked for again so often: clients repeat only what has no answer yet.
_TRIES = 3
# The store that was asked last for each scheme, with the options that its client was made with.
_asked: dict[str, tuple[Any, Store]] = {}


class Store(Protocol):
    """An object store; what its client raises passes."""

    def listed(self, prefix: str) -> Iterator[tuple[str, Listed]]:
        """Yields the paths that begin so, page by page as they are asked for, and what they are."""
        ...

    def looked_up(self, path: str) -> Listed | None:
        """Returns what lies at a path; None: nothing does."""
        ...

    def read(self, path: str, version: str, begin: int, end: int) -> bytes:
        """Returns bytes of an object from one place to another, exclusive, of this version alone.

        Raises:
            Exception: There is another version, or none: HTTP's status 412 or 404.
        """
        ...


def has_versions(path: str) -> bool:
    """Returns whether a path is on a store that tells versions of its objects apart."""
    return _scheme(path) in _STORES


def listed_by_store(patterns: Sequence[str], limit: int | None) -> Iterator[tuple[str, Listed]]:
    """Yields the objects that match one of the patterns, which are Beam's, up to a limit of each.

    One object without a wildcard is looked up, for which nobody needs the right to list.

    Raises:
        Exception: Whatever the store's client raises.
    """
    for pattern in patterns:
        yield from islice(_matching(pattern), limit)


def _matching(pattern: str) -> Iterator[tuple[str, Listed]]:
    from apache_beam.io.filesystem import FileSystem

    store, first = _store_of(pattern), first_wildcard(pattern)
    if first is None:
        one = store.looked_up(pattern)
        yield from [] if one is None else [(pattern, one)]
        return
    test = re.compile(FileSystem.translate_pattern(pattern))
    yield from ((path, one) for path, one in store.listed(pattern[:first]) if test.match(path))


def read_version(path: str, version: str, begin: int, end: int) -> bytes:
    """Returns bytes of an object as it was when it was listed.

    Raises:
        RetryLater: It was replaced or deleted since, or the store does not answer.
        UsageError: This machine may not read it.
    """
    for n_left in reversed(range(_TRIES)):
        try:
            data = _store_of(path).read(path, version, begin, end)
        except TracecloakError:
            raise
        except Exception as error:  # each client has its own
            if status_of(error) is not None or not n_left:
                raise told(path, error) from None
            continue
        if len(data) == end - begin:
            return data
    raise RetryLater(f"input {path!r} came shorter than it is; run the same command again")


def _scheme(path: str) -> str:
    return path.partition("://")[0].strip().lower()


def _store_of(path: str) -> Store:
    """Returns the store of a path, whose client is made once for the options of this process."""
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    scheme, options = _scheme(path), FileSystems._pipeline_options
    if scheme not in _asked or _asked[scheme][0] is not options:
        module, _, name = _STORES[scheme].partition(":")
        store = getattr(importlib.import_module(module), name)
        _asked[scheme] = options, store(PipelineOptions([]) if options is None else options)
    return _asked[scheme][1]
