"""Whether a log elsewhere is there, or lies in a table, where its store does not say."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.io.azure import blobstorageio
from botocore.exceptions import EndpointConnectionError, NoCredentialsError, ReadTimeoutError

from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.transforms.inputs import remote_files, stores


class _AnswerError(Exception):
    def __init__(self, status: int) -> None:
        self.status_code = status


@pytest.mark.parametrize(
    "error",
    [
        _AnswerError(429),
        _AnswerError(503),
        EndpointConnectionError(endpoint_url="https://planted"),
        ReadTimeoutError(endpoint_url="https://planted"),
    ],
)
def test_a_store_that_is_away_does_not_say_that_there_is_nothing(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Catches deleted rows of a table that are read because its marker could not be looked for.

    And a log that is away today, by an error that says to correct its path.
    """
    _answer_with(monkeypatch, error)
    told = rf"input 's3://b/t/day=1/' cannot be read now: {type(error).__name__}; run"
    with pytest.raises(RetryLater, match=told) as raised:
        remote_files.remote_tables("s3://b/t/day=1/", ["s3://b/t"])
    assert "planted" not in str(raised.value)
    with pytest.raises(RetryLater, match=told):
        remote_files.list_remote_files("s3://b/t/day=1/")


def test_who_may_not_list_the_folders_around_reads_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _answer_with(monkeypatch, _AnswerError(403))
    assert remote_files.remote_tables("s3://b/t/", ["s3://b/t"]) == {"s3://b/t": None}
    assert "whether it is part of a table is unknown" in caplog.text
    _answer_with(monkeypatch, NoCredentialsError())
    with pytest.raises(UsageError, match=r"cannot be listed: NoCredentialsError"):
        remote_files.list_remote_files("s3://b/t/")


def _answer_with(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def ask(*_: Any) -> Iterator[Any]:
        raise error

    monkeypatch.setattr(remote_files, "has_versions", lambda path: True)
    monkeypatch.setattr(remote_files, "listed_by_store", ask)


def test_a_path_of_another_account_than_the_connections_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Catches a log of the same name that is read of another account."""
    blob = SimpleNamespace(name="day.csv", metadata=None, size=1, etag="1")
    client = SimpleNamespace(
        account_name="ward",
        get_container_client=lambda _: SimpleNamespace(list_blobs=lambda **_: [blob]),
    )
    connection = SimpleNamespace(client=client)
    monkeypatch.setattr(blobstorageio, "BlobStorageIO", lambda **_: connection)
    monkeypatch.setattr(stores, "_asked", {})
    monkeypatch.setattr(remote_files, "require_file_system", lambda *_: None)
    there = "azfs://{}/logs/"
    assert list(remote_files.list_remote_files(there.format("ward")).files)
    told = "of account 'clinic', and the connection of 'ward'"
    for ask in (remote_files.list_remote_files, lambda path: stores.read_version(path, "v", 0, 1)):
        with pytest.raises(UsageError, match=told):
            ask(there.format("clinic"))
    # A host of one's own says no account, and that of a private link says more.
    for client.account_name in (None, "", "clinic.privatelink"):
        assert list(remote_files.list_remote_files(there.format("clinic")).files)
