"""What clients of object stores raise, as errors of ours without their texts."""

from __future__ import annotations

from tracecloak.schemas.errors import RetryLater, TracecloakError, UsageError

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
