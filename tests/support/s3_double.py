"""S3 on this machine: moto's server, which counts what it is asked."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tracecloak.transforms.inputs import stores

_COLOURS = re.compile(r"\x1b\[\d+m")
_REQUEST = re.compile(r'"(\w+) (\S+) HTTP')


class S3Double(logging.Handler):
    """A bucket named `lake` of a server in this process, and the requests that it took."""

    def __init__(self, endpoint: str) -> None:
        super().__init__()
        self.requests: list[str] = []
        self.client: Any = boto3.client("s3", endpoint_url=endpoint)
        self.client.create_bucket(Bucket="lake")

    def emit(self, record: logging.LogRecord) -> None:
        request = _REQUEST.search(_COLOURS.sub("", record.getMessage()))
        if request is not None:
            kind = "LIST" if "list-type=2" in request[2] else request[1]
            self.requests.append(f"{kind} {request[2]}")

    def put(self, key: str, data: bytes) -> None:
        """Puts an object into the bucket, and forgets what was counted."""
        self.client.put_object(Bucket="lake", Key=key, Body=data)
        self.requests.clear()

    @property
    def kinds(self) -> Counter[str]:
        """How many requests of each kind there were."""
        return Counter(request.split()[0] for request in self.requests)


@contextmanager
def s3_double() -> Iterator[S3Double]:
    """Starts the server, and has every client of S3 in this process and its children ask it."""
    log = logging.getLogger("werkzeug")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setattr(log, "propagate", False)
        patch.setattr(stores, "_asked", {})
        patch.setattr(stores, "_of_process", stores._Cache(128 << 20))
        server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
        server.start()
        endpoint = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
        patch.setenv("AWS_ENDPOINT_URL", endpoint)
        double = S3Double(endpoint)
        level = log.level
        log.setLevel(logging.INFO)
        log.addHandler(double)
        try:
            yield double
        finally:
            log.removeHandler(double)
            log.setLevel(level)
            double.client.close()
            server.stop()
