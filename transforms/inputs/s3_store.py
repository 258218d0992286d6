"""S3, and stores that speak as it does, by boto3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tracecloak.transforms.inputs.listing import Listed, bucket_and_name
from tracecloak.transforms.inputs.stores import status_of


class S3Store:
    """Objects of S3, whose versions are their ETags.

    Args:
        options: Of Beam, with its flags for S3, such as `--s3_endpoint_url`.
    """

    def __init__(self, options: Any) -> None:
        from apache_beam.io.aws.clients.s3.boto3_client import Client

        self._client = Client(options).client

    def listed(self, prefix: str) -> Iterator[tuple[str, Listed]]:
        """Yields what begins with a path, up to 1,000 objects a request."""
        bucket, key = bucket_and_name(prefix)
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=key)
        for page in pages:
            for found in page.get("Contents", ()):
                yield f"s3://{bucket}/{found['Key']}", _s3_object(found, "Size")

    def looked_up(self, path: str) -> Listed | None:
        """Returns what lies at a path, by one request."""
        bucket, key = bucket_and_name(path)
        if not key:
            return None
        try:
            return _s3_object(self._client.head_object(Bucket=bucket, Key=key), "ContentLength")
        except Exception as error:  # boto3 makes its classes as it runs
            if status_of(error) == 404:
                return None
            raise

    def read(self, path: str, version: str, begin: int, end: int) -> bytes:
        """Returns bytes of one version, by one request."""
        bucket, key = bucket_and_name(path)
        part = f"bytes={begin}-{end - 1}"
        got = self._client.get_object(Bucket=bucket, Key=key, Range=part, IfMatch=version)
        return bytes(got["Body"].read())


def _s3_object(found: Mapping[str, Any], size: str) -> Listed:
    etag = str(found["ETag"])  # with its quotes, as in receipts of releases that Beam read
    return Listed(int(found[size]), etag, etag)
