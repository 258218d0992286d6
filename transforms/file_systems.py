"""Beam's file systems elsewhere: whether they can be reached, and what their errors may tell."""

from __future__ import annotations

import importlib

from tracecloak.schemas.errors import UsageError, of_extra

# The module that a file system of Beam's needs, and what installs it, by the scheme of its paths.
_FILE_SYSTEMS = {
    "azfs": ("azure.storage.blob", "azure-storage-blob", "azure"),
    "gs": ("google.cloud.storage", "google-cloud-storage", "gcp"),
    "s3": ("boto3", "boto3", "aws"),
}
# Beam moves a blob by a copy that Azure may still be making when it deletes what is copied, so
# these are what may lie there.
_OF_AZURE = ("log", "release")
# Those that Beam can open with an extra of its own, which tracecloak has not been tried with.
_OF_BEAM = {
    "hdfs": ("hdfs", "hdfs", "hadoop"),
}
_OFFERED = "name one on this machine, such as where it is mounted, or one of gs:// and s3://"


def class_of(error: BaseException) -> str:
    """Returns the class of an error of a file system, which Beam wraps: its text could be data."""
    while details := getattr(error, "exception_details", None):
        error = next(iter(details.values()))
    return type(error).__name__


def require_known(name: str, path: str) -> None:
    """Makes sure that files at a path elsewhere can be reached; see `files.require_file_system`."""
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    scheme = str(FileSystems.get_scheme(path)).strip()
    if scheme == "azfs" and name not in _OF_AZURE:
        raise UsageError(
            f"{name} {path!r}: tracecloak reads logs from azfs:// and writes nothing there, as "
            f"Beam does not wait until what it moves is there; {_OFFERED}"
        )
    if scheme in _FILE_SYSTEMS:
        module, library, extra = _FILE_SYSTEMS[scheme]
        of_extra(module, f"{name} {path!r}", library, extra)
    if scheme in _OF_BEAM:
        module, library, extra = _OF_BEAM[scheme]
        try:
            importlib.import_module(module)
        except ImportError:
            raise UsageError(
                f"{name} {path!r} needs {library}, which is not installed, and tracecloak is not "
                f"tested with {scheme}://; {_OFFERED}, or try Beam's own extra with "
                f"pip install 'apache-beam[{extra}]'"
            ) from None
    try:
        FileSystems.get_filesystem(path)
    except (ValueError, OSError, ImportError):
        flags = (
            ", or give `--hdfs_host`, `--hdfs_port` and `--hdfs_user`" if scheme == "hdfs" else ""
        )
        raise UsageError(
            f"{name} {path!r} is on a file system that Beam does not know or cannot open here; "
            f"{_OFFERED}{flags}"
        ) from None
    if FileSystems._pipeline_options is None:
        # Without any, some file systems cannot be asked before there is a pipeline.
        FileSystems.set_options(PipelineOptions([]))
