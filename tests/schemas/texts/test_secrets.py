"""What may be a password is found, however it is written, and what is none is not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.texts import has_secret, without_secrets


@pytest.mark.parametrize(
    "text",
    [
        "postgresql+psycopg://u:hunter2@h/d", "POSTGRESQL://U:hunter2@[2001:db8::1]:5432/D",
        "postgresql%3A%2F%2Fu%3Ahunter2%40h", "postgresql://u%2F:hunter2@h",
        "postgresql://u%3Ahunter2@h/d", "postgresql://user@server:hunter2@h/d",
        "postgresql://u:hunt/er2@h/d", "postgresql://u:12/hunter2@h/d",
        "postgresql://u:hun ter2@h/d", "postgresql://:hunter2@h",
        "postgresql://h/d?user=u&password=hunter2", "postgresql://h/d?sslpassword=hunter2",
        "postgresql://h/d?passw%6Frd=hunter2", "host=h PASSWORD = 'hun ter2'",
        "password=hunter2 host=h", "Driver=x;Server=y;Pwd=hunter2", "https://hunter2@host/x@y",
        "HTTP://U:hunter2@[::1]:80/", "https://host/x?token=hunter2",
        "https://host/x?sv=1&sig=hunter2", "https://host/x?X-Amz-Signature=hunter2",
        "kafka://u:hunter2@broker:9092/t", "a.csv,s3://KEY:hunter2@bucket/x",
        '{"uri": "postgresql://u:hunter2@h/d"}', r'{"uri": "postgresql:\/\/u:hunter2@h/d"}',
    ],
)  # fmt: skip
def test_what_may_be_a_password_is_one(text: str) -> None:
    assert has_secret(text)
    if not set("%\\") & set(text) and " " not in text.partition("://")[2]:
        assert not any(part in without_secrets(text) for part in ("hunter2", "ter2"))


def test_addresses_without_a_password_have_none() -> None:
    for text in (
        *("postgresql+psycopg://u@h:5432/d", "postgresql://user@[::1]:5432/d", "%Y-%m-%d %H:%M"),
        *("sqlite:////a/b:c@d/l.sqlite", "s3://bucket/a:b@c.csv", "abfs://box@host.example/p"),
        *("hdfs://nn:8020/ward@2026", "hdfs://[::1]:8020/a@b", "http://marquez:5000/api/v1"),
        *("kafka://b1:9092,b2:9092/t", "env:LEDGER", "file:/run/secrets/token", "a = 'b'"),
        *("command:vault read secret/x", "lake/token=5/day=1/*.csv", "mailto:dpo@host.example"),
        *("SELECT a FROM t WHERE token = 5", "see https://a.example/x: mail b@c.example"),
        *("delta:s3://lake/visits@7", "projects/p/secrets/s/versions/1", "r:5000/x@sha256:abc"),
    ):
        assert not has_secret(text), text


# What is left out, as expressions whose time is quadratic in the length of a text.
_IN_ADDRESS = re.compile(r"(://[^:/\s]*):\S*@")
_IN_OPTION = re.compile(r"(?i)((?<![\w/])\w*(?:pwd\w*\s*|token\w*)=\s*)[^&;\s]+")
_PARTS = ["://", ":", "@", "/", " ", "a", "=", "&", ";", "_", "pwd", "token", "ä"]


@given(st.lists(st.sampled_from(_PARTS), max_size=14).map("".join))
def test_passwords_of_addresses_and_options_are_left_out(text: str) -> None:
    assert without_secrets(text) == _IN_OPTION.sub(r"\1***", _IN_ADDRESS.sub(r"\1:***@", text))


def test_a_megabyte_of_what_looks_like_secrets_is_passed_over_once() -> None:
    for part in ["://a:", "token", "token=", "://", "a:@", "secret=a,"]:
        text = part * (1_000_000 // len(part))
        assert len(without_secrets(text)) <= len(text)
