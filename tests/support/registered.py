"""Methods in place of those of the registry, or beside them, for the time of a test."""

from __future__ import annotations

from typing import Any

import pytest

from tracecloak.anonymizers.registry import METHODS


def register(monkeypatch: pytest.MonkeyPatch, *methods: Any) -> None:
    """Makes methods known by their names, as if they were ours."""
    for method in methods:
        monkeypatch.setitem(METHODS.ours, method.name, "of a test")
        monkeypatch.setitem(METHODS._made, method.name, method)


def forget(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Makes methods of ours unknown."""
    # One that is put back into the table would be its last one, for all tests that follow.
    left = {name: place for name, place in METHODS.ours.items() if name not in names}
    monkeypatch.setattr(METHODS, "ours", left)
