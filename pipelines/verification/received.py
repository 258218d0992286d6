"""A release as it was received: its folder, and its manifest once that is known to be sound."""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, cast

import pydantic

from tracecloak.anonymizers.registry import METHODS, method_named
from tracecloak.pipelines.verification.folder import (
    NotApplicable,
    ReceivedFolder,
    Unsure,
    Wrong,
    quote_names,
)
from tracecloak.schemas.plugins import NotOfferedError
from tracecloak.schemas.published.manifest import MANIFEST_NAME, TOOL_VERSION, ReleaseManifest
from tracecloak.transforms.formats.registry import FORMATS, formats_of_releases
from tracecloak.transforms.publish.release_folder import STATEMENT_NAME

_SHOWN_PLACES = 3


@dataclass(frozen=True)
class Received:
    """A release whose manifest is valid.

    Attributes:
        folder: Where it is.
        body: The manifest as JSON values.
    """

    folder: ReceivedFolder
    body: Mapping[str, Any]

    @classmethod
    def of(cls, folder: ReceivedFolder) -> Received:
        """Reads and checks the manifest.

        Raises:
            Wrong: It is not valid, or not the same for every reader.
        """
        body = folder.json(MANIFEST_NAME)
        faults = [
            f"{quote_names([error.json_path])} ({error.validator})"
            for error in islice(_validator().iter_errors(body), _SHOWN_PLACES)
        ]
        if faults:
            raise Wrong(
                f"{MANIFEST_NAME} is not as its schema asks: {', '.join(faults)}. This is "
                f"tracecloak {TOOL_VERSION}, and it may be by another version."
            )
        return cls(folder, body)

    @classmethod
    def at(cls, path: str) -> Received:
        """Returns the release that a path means, of which every listed file is as it was released.

        Args:
            path: Its folder, or one of releases, whose latest is meant; on any Beam file system.

        Raises:
            NoSuchFile, InputSchemaError, UsageError: As `ReceivedFolder.at`.
            Wrong: Its manifest is not valid, or a file is not as that lists it.
        """
        received = cls.of(ReceivedFolder.at(path))
        if received.paths or not received.is_stream:
            received.check_files()
        return received

    def check_files(self) -> str:
        """Every listed file is there with its size and its digest.

        Raises:
            Wrong: One is not, or the list is none that a release has.
            NotApplicable: The manifest lists none, as that of a stream.
        """
        paths = self.paths
        if self.is_stream:
            if paths:
                raise Wrong(f"{MANIFEST_NAME} of an epoch lists files, but is written before them.")
            raise NotApplicable(
                f"{MANIFEST_NAME} of an epoch is written before its steps, without their digests."
            )
        strange = [path for path in paths if not _is_plain(path)]
        if strange:
            raise Wrong(
                f"{MANIFEST_NAME} lists paths that lie outside the folder: {quote_names(strange)}."
            )
        if len(set(paths)) < len(paths):
            raise Wrong(f"{MANIFEST_NAME} lists a file twice.")
        if STATEMENT_NAME not in paths:
            raise Wrong(f"{MANIFEST_NAME} lists no {STATEMENT_NAME}, which every release has.")
        missing = [path for path in paths if path not in self.folder.sizes]
        if missing:
            raise Wrong(f"Not there, or no plain file: {quote_names(missing)}.")
        changed = list(self.folder.unlike(paths))
        if changed:
            raise Wrong(
                f"Not as {MANIFEST_NAME} lists it (size or SHA-256): {quote_names(changed)}."
            )
        return (
            f"All {len(paths):,} files that {MANIFEST_NAME} lists are there, as they were released."
        )

    def values_of(self, name: str, read: Callable[[Any], object]) -> dict[str, Any] | None:
        """Returns what a listed JSON file says; None: the release has none.

        Args:
            name: Its path.
            read: Raises whatever if its argument is not what such a file says.

        Raises:
            Wrong: It is not.
        """
        if name not in self.paths:
            return None
        body: dict[str, Any] = self.folder.json(name)
        with self.folder.reading(name):
            read(body)
        return body

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """The listed files: path, sha256, n_bytes."""
        return cast(list[dict[str, Any]], self.body["outputs"])

    @property
    def paths(self) -> list[str]:
        """The paths of the listed files."""
        return [output["path"] for output in self.outputs]

    @property
    def products(self) -> list[str]:
        """The names of the products, which are there as Parquet and JSON each, in their order."""
        paths = set(self.paths)
        stems = (p.removesuffix(".parquet") for p in paths if "/" not in p and p != "log.parquet")
        return sorted(stem for stem in stems if {f"{stem}.parquet", f"{stem}.json"} <= paths)

    @property
    def is_stream(self) -> bool:
        """Whether it is an epoch of a stream."""
        return "stream" in self.body

    @property
    def manifest(self) -> ReleaseManifest:
        """The manifest as a value."""
        return ReleaseManifest.from_json(self.body)

    @property
    def is_by_this_version(self) -> bool:
        """Whether this version of tracecloak made it, so that its words are ours."""
        return bool(self.body["tool"]["version"] == TOOL_VERSION)

    @property
    def version(self) -> str:
        """The version of tracecloak that the manifest names, for a sentence."""
        return quote_names([self.body["tool"]["version"]])

    def method_and_params(self) -> tuple[Any, Any]:
        """Returns the method and its parameters.

        Raises:
            NotApplicable: It is a stream.
            Unsure: The method is none of this installation, or another version of one.
            Wrong: The parameters cannot be those of the method.
        """
        name = self.body["method"]
        if self.is_stream:
            raise NotApplicable("What a stream promises follows from more than its manifest has.")
        if name in METHODS.removed:
            raise Unsure(
                f"The method {name} was removed from tracecloak: its promise cannot be computed."
            )
        if name not in METHODS:
            raise Unsure(f"This installation does not know the method {quote_names([name])}.")
        method = method_named(name)
        if method.version != self.body["method_version"]:
            raise self._unsure_of_version(name, self.body["method_version"], method.version)
        try:
            params = method.Params(**self.body["params"])
        except pydantic.ValidationError as error:
            if not self.is_by_this_version:
                raise Unsure(
                    "The parameters are of another version of the method than this one knows."
                ) from None
            causes: list[Any] = [one.get("ctx", {}).get("error") for one in error.errors()]
            if any(isinstance(cause, NotOfferedError) for cause in causes):
                raise Unsure(
                    f"The parameters of {name} name what this installation does not have."
                ) from None
            raise Wrong(
                f"The parameters in {MANIFEST_NAME} are none that method {name} can have."
            ) from None
        stated, here = self.body.get("inner_versions", {}), method.inner_versions(params)
        for inner in sorted(stated.keys() | here.keys()):
            if stated.get(inner, 1) != here.get(inner, 1):
                raise self._unsure_of_version(inner, stated.get(inner, 1), here.get(inner, 1))
        return method, params

    @staticmethod
    def _unsure_of_version(name: str, stated: int, here: int) -> Unsure:
        """Returns what there is to say of a version that is not the one here.

        Which one a version of tracecloak has is not known: a method can be another distribution's.
        """
        return Unsure(
            f"The release is by version {stated} of {quote_names([name])}, this installation is of "
            f"version {here}, whose defaults or noise differ."
        )

    def steps(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Yields the steps of an epoch in order: (number, path by what follows the number)."""
        params = self.body["params"]
        folder = f"product={params.get('product')}/view={params.get('view')}/step-"
        kinds = (FORMATS[name] for name in formats_of_releases())
        endings = "|".join(re.escape(kind.log_ending) for kind in kinds)
        form = rf"(?P<form>\.json|\.parquet|/step\.json|/log({endings}))"
        pattern = re.compile(rf"{re.escape(folder)}(?P<step>[0-9]{{6,9}}){form}")
        steps: dict[int, dict[str, str]] = {}
        for path in self.folder.sizes:
            if match := pattern.fullmatch(path):
                steps.setdefault(int(match["step"]), {})[match["form"]] = path
        yield from sorted(steps.items())


def _is_plain(path: str) -> bool:
    """Whether a path stays in its folder, on any system."""
    parts = path.split("/")
    return (
        not any(part in ("", ".", "..") for part in parts)
        and path.isprintable()
        and not set(path) & set("\\:")
        and path != MANIFEST_NAME
    )


@cache
def _validator() -> Any:
    import jsonschema

    place = importlib.resources.files("tracecloak.schemas.files") / "manifest.schema.json"
    return jsonschema.Draft202012Validator(json.loads(place.read_text(encoding="utf-8")))
