"""Azure Blob Storage by its own client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.inputs.listing import Listed
from tracecloak.transforms.inputs.stores import status_of


class AzureStore:
    """Blobs of one account of Azure, whose versions are their ETags.

    Args:
        options: Of Beam, with its flags for Azure, such as `--blob_service_endpoint`.
    """

    def __init__(self, options: Any) -> None:
        from apache_beam.io.azure.blobstorageio import BlobStorageIO

        self._client = BlobStorageIO(pipeline_options=options).client

    def listed(self, prefix: str) -> Iterator[tuple[str, Listed]]:
        """Yields what begins with a path, up to 5,000 blobs a request."""
        account, container, name = self._parts(prefix)
        blobs = self._client.get_container_client(container).list_blobs(
            name_starts_with=name, include=["metadata"]
        )
        for blob in blobs:
            # Where names are a hierarchy, a folder is a blob of its own.
            if "hdi_isfolder" not in (blob.metadata or {}):
                yield f"azfs://{account}/{container}/{blob.name}", _azure_blob(blob)

    def looked_up(self, path: str) -> Listed | None:
        """Returns what lies at a path, by one request."""
        _, container, name = self._parts(path)
        if not name:
            return None
        try:
            blob = self._client.get_blob_client(container, name).get_blob_properties()
        except Exception as error:  # Azure's own, of which we import nothing
            if status_of(error) == 404:
                return None
            raise
        return None if "hdi_isfolder" in (blob.metadata or {}) else _azure_blob(blob)

    def read(self, path: str, version: str, begin: int, end: int) -> bytes:
        """Returns bytes of one version, by one request for some MiB."""
        _, container, name = self._parts(path)
        stream = self._client.get_blob_client(container, name).download_blob(
            begin, end - begin, headers={"If-Match": version}
        )
        return bytes(stream.readall())

    def _parts(self, path: str) -> tuple[str, str, str]:
        """Returns the account of a path, the container and the name in it.

        Raises:
            UsageError: The client is connected to another account, which it would ask instead.
        """
        account, _, rest = path.partition("://")[2].partition("/")
        # A host of one's own says none, and one of a private link has more behind a dot.
        connected = (self._client.account_name or account).partition(".")[0]
        if connected != account:
            raise UsageError(
                f"input {path!r} is of the account {account!r}, and the connection to Azure is to "
                f"{connected!r}: name the account of the connection, or give another connection by "
                "AZURE_STORAGE_CONNECTION_STRING or `--blob_service_endpoint`"
            )
        container, _, name = rest.partition("/")
        return account, container, name


def _azure_blob(blob: Any) -> Listed:
    etag = '"' + str(blob.etag).strip('"') + '"'  # a listing leaves the quotes out
    return Listed(int(blob.size), etag, etag)
