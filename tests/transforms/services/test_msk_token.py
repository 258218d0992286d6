"""The token of Amazon MSK: of the region of the brokers, or the remedy without one."""

from __future__ import annotations

import importlib.util
import sys
import time
from base64 import urlsafe_b64decode
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.services.kafka_topic import token_of

SERVERS = "b-1.ward.abc.c2.kafka.eu-west-1.amazonaws.com:9098,b-2:9098"
SERVERLESS = "boot-x.c1.kafka-serverless.us-gov-west-1.amazonaws.com:9098"


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without credentials of AWS."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("servers", "configuration", "region"),
    [
        (SERVERS, "", "eu-west-1"),
        (SERVERLESS, "", "us-gov-west-1"),
        (SERVERS, "region=us-east-2", "us-east-2"),
        ("b:1", "scope=x,region=us-east-2", "us-east-2"),
    ],
)
def test_a_token_is_signed_for_the_region(
    servers: str, configuration: str, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("aws_msk_iam_sasl_signer")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAWARD")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    token, ends = token_of("msk", servers, configuration)
    url = urlsafe_b64decode(token + "==").decode()
    assert url.startswith(f"https://kafka.{region}.amazonaws.com/?Action=kafka-cluster%3AConnect")
    assert "hunter2" not in url
    assert 0 < ends - time.time() < 3_600


def test_who_has_no_region_or_no_credentials_is_told_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if importlib.util.find_spec("aws_msk_iam_sasl_signer") is None:  # another that has none

        def refuse(region: str) -> None:
            raise LookupError(f"no credentials in {region}")

        signer = SimpleNamespace(generate_auth_token=refuse)
        monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", ModuleType("signer"))
        monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", signer)
    with pytest.raises(UsageError, match=r"region.*sasl\.oauthbearer\.config=region=REGION"):
        token_of("msk", "broker:1", "")
    with pytest.raises(UsageError, match=r"gives no token \(.*\): give this"):
        token_of("msk", SERVERS, "")
