"""Google Cloud Storage by its own client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracecloak.transforms.inputs.listing import Listed, bucket_and_name


class GcsStore:
    """Objects of Google Cloud Storage, whose versions are their generations.

    Args:
        options: Of Beam, with its flags for Google Cloud.
    """

    def __init__(self, options: Any) -> None:
        from apache_beam.io.gcp.gcsio import create_storage_client

        self._client = create_storage_client(options)

    def listed(self, prefix: str) -> Iterator[tuple[str, Listed]]:
        """Yields what begins with a path, up to 1,000 objects a request."""
        bucket, name = bucket_and_name(prefix)
        for blob in self._client.list_blobs(bucket, prefix=name):
            yield f"gs://{bucket}/{blob.name}", _gcs_object(blob)

    def looked_up(self, path: str) -> Listed | None:
        """Returns what lies at a path, by one request."""
        bucket, name = bucket_and_name(path)
        blob = self._client.bucket(bucket).get_blob(name) if name else None
        return None if blob is None else _gcs_object(blob)

    def read(self, path: str, version: str, begin: int, end: int) -> bytes:
        """Returns bytes of one generation as they lie there, by one request."""
        bucket, name = bucket_and_name(path)
        blob = self._client.bucket(bucket).blob(name, generation=int(version))
        # What is asked for is a part, of which no checksum is known.
        data = blob.download_as_bytes(start=begin, end=end - 1, raw_download=True, checksum=None)
        return bytes(data)


def _gcs_object(blob: Any) -> Listed:
    # The digest is the one in receipts of releases that Beam read.
    return Listed(int(blob.size), str(blob.generation), str(blob.crc32c))
