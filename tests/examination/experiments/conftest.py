"""What every test of the experiments has."""

import pytest

from tracecloak.examination.comparison import rows


@pytest.fixture(autouse=True)
def _version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever edits the code while tests run does not make rows old."""
    monkeypatch.setattr(rows, "code_version", lambda: "0.1 of a test")
