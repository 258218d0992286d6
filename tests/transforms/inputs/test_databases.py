"""Addresses of databases: none with a secret stands in a configuration, or in an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.inputs.databases import check_database, connected

SECRET = "pl4nted"
# Addresses with a place for a secret, as drivers read them or as somebody writes them in haste.
_NAMES = "password", "pass", "pwd", "token", "private_key", "sslpassword", "passcode", "options"
_WAYS = [
    "{scheme}://user:{secret}@host/db", "{scheme}://user:pa/{secret}@host/db",
    "{scheme}://user:pa?{secret}@host", "{scheme}://user:pa#{secret}@host",
    "{scheme}://host/db?{secret}", "{scheme}://[{secret}", "{scheme}x://{secret}",
    *(f"{{scheme}}://user@host/db{mark}{name}={{secret}}" for name in _NAMES
      for mark in ("?", "?sslmode=require&", ";", "?host=a;")),
]  # fmt: skip


@given(
    way=st.sampled_from(_WAYS),
    scheme=st.sampled_from(["postgresql", "snowflake", "sqlite", "duckdb"]),
    more=st.text(st.characters(codec="utf-8"), max_size=5),
    encoded=st.sets(st.integers(0, 80)),
    is_upper=st.booleans(),
)
def test_no_address_with_a_secret_is_taken_or_shown(
    way: str, scheme: str, more: str, encoded: set[int], is_upper: bool
) -> None:
    """Whatever of it is percent-encoded or in upper case."""
    beginning, rest = way.split("://")
    rest = rest.upper().replace("{SECRET}", "{secret}") if is_upper else rest
    before, after = (
        "".join(f"%{ord(c):02x}" if i in encoded and c.isalnum() else c for i, c in enumerate(text))
        for text in rest.split("{secret}")
    )
    uri = f"{beginning.format(scheme=scheme)}://{before}{SECRET}{more}{after}"
    with pytest.raises(UsageError, match=r"^database .* say env:NAME|as env:NAME") as raised:
        check_database(uri)
    assert SECRET not in str(raised.value)


def test_what_leads_to_no_address_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAREHOUSE", f"sqlite://[{SECRET}")
    with pytest.raises(UsageError, match="must lead to a URI of") as raised:
        connected("env:WAREHOUSE")
    assert SECRET not in str(raised.value)
