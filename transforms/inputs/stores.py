"""Object stores by their own clients: S3, GCS, Azure."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, BinaryIO, TypeAlias, cast

from tracecloak.schemas.errors import RetryLater, TracecloakError, UsageError
from tracecloak.transforms.inputs.listing import Listed, bucket_and_name, expression, first_wildcard

# --- Object stores by their own clients: what is listed there, and the bytes of one version. ------


# --- Object stores by their own clients: what is listed there, and the bytes of one version of it.
# Beam lists no versions, and asks for each file before it opens it. So each store here is one
# class of a file of its own, which asks with the client, the credentials and the endpoint that
# Beam takes from the same options. What Beam writes, and file systems that have no versions, are
# not here.
#
# What clients of object stores raise, as errors of ours without their texts.


# Classes of errors without a status that pass by waiting, of boto3's, Azure's and Google's clients.
_PASSING = {
    "ConnectionError", "HTTPClientError", "RetryError", "ServiceRequestError",
    "ServiceResponseError", "Timeout", "TimeoutError", "TransportError",
}  # fmt: skip


def status_of(error: Exception) -> int | None:
    """Returns the status of HTTP that a client's error is about; None: it is about none."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # boto3's
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:  # that of Azure's client, and that of Google's
        status = getattr(error, "status_code", None) or getattr(error, "code", None)
    return int(status) if isinstance(status, int) else None


def is_passing(error: Exception) -> bool:
    """Returns whether a client's error says that its store does not answer now."""
    status = status_of(error)
    if status is not None:
        return status >= 500 or status in (408, 429)
    names = {kind.__name__ for kind in type(error).__mro__}
    return "SSLError" not in names and not names.isdisjoint(_PASSING)


def told(path: str, error: Exception) -> TracecloakError:
    """Returns what is said of an input that cannot be read."""
    status = status_of(error)
    if status in (404, 412):
        return RetryLater(f"input {path!r} was replaced or deleted after it was listed; run again")
    if status in (401, 403):
        return UsageError(f"input {path!r} may not be read (status {status}); correct credentials")
    return RetryLater(f"input {path!r} cannot be read now: {type(error).__name__}; run again")


# What breaks off is asked for again so often: clients repeat only what has no answer yet.
_TRIES = 3
# The store that was asked last for each scheme, with the options that its client was made with.
_asked: dict[str, tuple[Any, Store]] = {}


Store: TypeAlias = "S3Store | GcsStore | AzureStore"
"""An object store; what its client raises passes. Each store has the same methods."""


def has_versions(path: str) -> bool:
    """Returns whether a path is on a store that tells versions of its objects apart."""
    return _scheme(path) in _STORES


def listed_by_store(patterns: Sequence[str], limit: int | None) -> Iterator[tuple[str, Listed]]:
    """Yields the objects that match one of the patterns, which are Beam's, up to a limit of each.

    One object without a wildcard is looked up, for which nobody needs the right to list.

    Raises:
        Exception: Whatever the store's client raises.
    """
    for pattern in patterns:
        store, first = _store_of(pattern), first_wildcard(pattern)
        if first is None:
            one = store.looked_up(pattern)
            yield from [] if one is None else [(pattern, one)]
        else:
            test = expression(pattern, pattern)
            yield from islice(
                (e for e in store.listed(pattern[:first]) if test.fullmatch(e[0])), limit
            )


def read_version(path: str, version: str, begin: int, end: int) -> bytes:
    """Returns bytes of an object as it was when it was listed.

    Raises:
        RetryLater: It was replaced or deleted since, or the store does not answer.
        UsageError: This machine may not read it.
    """
    for n_left in reversed(range(_TRIES)):
        try:
            data = _store_of(path).read(path, version, begin, end)
        except TracecloakError:
            raise
        except Exception as error:  # each client has its own
            if status_of(error) is not None or not n_left:
                raise told(path, error) from None
            continue
        if len(data) == end - begin:
            return data
    raise RetryLater(f"input {path!r} came shorter than it is; run the same command again")


def _scheme(path: str) -> str:
    return path.partition("://")[0].strip().lower()


def _store_of(path: str) -> Store:
    """Returns the store of a path, whose client is made once for the options of this process."""
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    scheme, options = _scheme(path), FileSystems._pipeline_options
    if scheme not in _asked or _asked[scheme][0] is not options:
        store = _STORES[scheme](PipelineOptions([]) if options is None else options)
        _asked[scheme] = options, store
    return _asked[scheme][1]


# --- One version of an object as a file that is open for reading, in few requests. ----------------
# A small object is got whole, once. Of a large one its begin and its end are got, where formats
# say what is in it, and then blocks of some MiB. Small objects, begins and ends are remembered by
# path and version as long as this process lives, up to a bound: all windows of a night read them
# from there. A version does not change, so what is remembered is never stale.


_WHOLE_BYTES = 1 << 20  # objects up to this size are got whole
_END_BYTES = 1 << 16  # as much as Arrow reads first of a file of Parquet
_BLOCK_BYTES = 4 << 20
_N_BLOCKS = 16  # of one object; the columns of a row group are read side by side
_REMEMBERED_BYTES = 128 << 20

Piece = tuple[int, int]


class _Cache:
    """Pieces of objects, of which those go first that were not asked for longest."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._n_bytes = 0
        self._pieces: OrderedDict[Any, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any) -> bytes | None:
        """Returns a piece; None: it is not there."""
        with self._lock:
            if key in self._pieces:
                self._pieces.move_to_end(key)
            return self._pieces.get(key)

    def put(self, key: Any, data: bytes) -> None:
        """Takes in a piece, and forgets others in its place."""
        with self._lock:
            self._n_bytes += len(data) - len(self._pieces.pop(key, b""))
            self._pieces[key] = data
            while self._n_bytes > self._max_bytes:
                self._n_bytes -= len(self._pieces.popitem(last=False)[1])


_of_process = _Cache(_REMEMBERED_BYTES)


class _ObjectReader(io.RawIOBase):
    def __init__(self, path: str, version: str, n_bytes: int) -> None:
        self._path = path
        self._version = version
        self._n_bytes = n_bytes
        self._place = 0
        self._blocks = _Cache(_N_BLOCKS * _BLOCK_BYTES)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._n_bytes}[whence]
        if begin + offset < 0:
            raise ValueError("a place before the first byte")
        self._place = begin + offset
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Reads what is left of the piece that holds the place, and no more than asked for."""
        if self._place >= self._n_bytes:
            return 0
        begin, end = self._piece_at(self._place)
        is_block = self._n_bytes > _WHOLE_BYTES and end - begin != _END_BYTES
        remembered = self._blocks if is_block else _of_process
        key = self._path, self._version, begin, end
        if (data := remembered.get(key)) is None:
            data = read_version(*key)
            remembered.put(key, data)
        n = min(len(buffer), end - self._place)
        at = self._place - begin
        buffer[:n] = memoryview(data)[at : at + n]
        self._place += n
        return n

    def _piece_at(self, place: int) -> Piece:
        last = self._n_bytes - _END_BYTES
        if self._n_bytes <= _WHOLE_BYTES:
            return 0, self._n_bytes
        if place >= last:
            return last, self._n_bytes
        if place < _END_BYTES:
            return 0, _END_BYTES
        block = place // _BLOCK_BYTES * _BLOCK_BYTES
        return max(block, _END_BYTES), min(block + _BLOCK_BYTES, last)


def open_version(path: str, version: str, n_bytes: int) -> BinaryIO:
    """Opens an object as it was when it was listed; nothing is asked of the store yet.

    Args:
        path: Of the object.
        version: What its store told in the listing.
        n_bytes: Its size then.

    Raises:
        RetryLater: Where it is read: it was replaced or deleted since, or the store is away.
        UsageError: Where it is read: this machine may not.
    """
    return cast(BinaryIO, io.BufferedReader(_ObjectReader(path, version, n_bytes), _END_BYTES))


# --- S3, Google Cloud Storage and Azure Blob Storage, each by its own client. ---------------------


def _unless_absent(ask: Callable[[], Any]) -> Any:
    """Returns what a client answers; None: there is no such object."""
    try:
        return ask()
    except Exception as error:  # each client has its own, of which we import nothing
        if status_of(error) == 404:
            return None
        raise


# --- S3, and stores that speak as it does, by boto3. ----------------------------------------------


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
        found = _unless_absent(lambda: self._client.head_object(Bucket=bucket, Key=key))
        return None if found is None else _s3_object(found, "ContentLength")

    def read(self, path: str, version: str, begin: int, end: int) -> bytes:
        """Returns bytes from one place to another, exclusive, of one version, by one request.

        Raises:
            Exception: There is another version, or none: HTTP's status 412 or 404.
        """
        bucket, key = bucket_and_name(path)
        part = f"bytes={begin}-{end - 1}"
        got = self._client.get_object(Bucket=bucket, Key=key, Range=part, IfMatch=version)
        return bytes(got["Body"].read())


def _s3_object(found: Mapping[str, Any], size: str) -> Listed:
    etag = str(found["ETag"])  # with its quotes, as in receipts of releases that Beam read
    return Listed(int(found[size]), etag, etag)


# --- Google Cloud Storage by its own client. ------------------------------------------------------


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


# --- Azure Blob Storage by its own client. --------------------------------------------------------


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
        blob = _unless_absent(
            lambda: self._client.get_blob_client(container, name).get_blob_properties()
        )
        is_none = blob is None or "hdi_isfolder" in (blob.metadata or {})
        return None if is_none else _azure_blob(blob)

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
                f"input {path!r} is of account {account!r}, and the connection of {connected!r}: "
                "correct the path, AZURE_STORAGE_CONNECTION_STRING or `--blob_service_endpoint`"
            )
        container, _, name = rest.partition("/")
        return account, container, name


def _azure_blob(blob: Any) -> Listed:
    etag = '"' + str(blob.etag).strip('"') + '"'  # a listing leaves the quotes out
    return Listed(int(blob.size), etag, etag)


_STORES: dict[str, Callable[[Any], Store]] = {"azfs": AzureStore, "gs": GcsStore, "s3": S3Store}
"""Object stores by the scheme of their paths."""
