"""Whether a log elsewhere lies in a table, where its store does not say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tracecloak.schemas.errors import RetryLater
from tracecloak.transforms.inputs import elsewhere


class _AnswerError(Exception):
    def __init__(self, status: int) -> None:
        self.status_code = status


@pytest.mark.parametrize("status", [429, 503])
def test_a_store_that_is_away_does_not_say_that_there_is_no_table(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Catches deleted rows of a table that are read because its marker could not be looked for."""
    _answer_with(monkeypatch, status)
    with pytest.raises(RetryLater, match=f"status {status}"):
        elsewhere.tables_elsewhere("s3://b/t/day=1/", ["s3://b/t"])


def test_who_may_not_list_the_folders_around_reads_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _answer_with(monkeypatch, 403)
    assert elsewhere.tables_elsewhere("s3://b/t/", ["s3://b/t"]) == {"s3://b/t": None}
    assert "not known whether it is a part" in caplog.text


def _answer_with(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    def ask(*_: Any) -> Iterator[Any]:
        raise _AnswerError(status)

    monkeypatch.setattr(elsewhere, "has_versions", lambda path: True)
    monkeypatch.setattr(elsewhere, "listed_by_store", ask)
