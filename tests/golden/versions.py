"""What each version of a method is: the defaults it has, and what it releases.

`tests.golden.releases` records it in defaults.json, and never anew under a version that is there:
whoever changes a default, or any step up to the noise, raises the method's `version`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pydantic

from tracecloak.anonymizers.logs.params import GENERATORS
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.streams.registry import STREAM_PRODUCTS
from tracecloak.pipelines.stream.config import IN_DIGEST, StreamConfig

RECORDED = Path(__file__).with_name("defaults.json")
_OF_STREAM = "stream of "
# Methods in which all generators of variants are steps: another version of one is another of these.
_WITH_GENERATORS = ("auto-variants", "private-log", "amun-rigorous", "pripel-rigorous")

Versions = dict[str, dict[str, Any]]
"""By the name of the method, or `stream of` and a product, and its version."""


def recorded() -> Versions:
    """What defaults.json holds; nothing where there is none."""
    return dict(json.loads(RECORDED.read_text(encoding="utf-8"))) if RECORDED.exists() else {}


def current(digests: Mapping[str, Mapping[str, list[str]]]) -> Versions:
    """What the methods are now, each under its version.

    Args:
        digests: Of the releases, as golden.json has them.
    """
    found: Versions = {}
    for name, method in METHODS.ours.items():
        examples = [method.Params(**example).resolved() for example in method.examples]
        body = {"defaults": _defaults(method.Params), "resolved": examples}
        if name in _WITH_GENERATORS:
            body["steps"] = {n: getattr(g, "version", 1) for n, g in GENERATORS.ours.items()}
        body["released"] = _released({n: d for n, d in digests.items() if _is_of(name, n)})
        found[name] = {str(method.version): body}
    of_config = {n: v for n, v in _defaults(StreamConfig).items() if n in IN_DIGEST}
    for name, product in STREAM_PRODUCTS.ours.items():
        body = {"defaults": {**_defaults(product.Params), **of_config}}
        if name == "log":
            body["steps"] = {"private-log": METHODS["private-log"].version}
        streams = {n: d for n, d in digests.items() if n.startswith(_OF_STREAM)}
        body["released"] = _released(
            {n: d for n, d in streams.items() if any(f"product={name}/" in path for path in d)}
        )
        found[_OF_STREAM + name] = {str(product.version): body}
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def merged(known: Versions, now: Versions) -> Versions:
    """Returns what is known of all versions, with what the methods are now.

    Raises:
        ValueError: A method is not what was recorded of its version.
    """
    result = {name: dict(versions) for name, versions in known.items()}
    for name, versions in now.items():
        for version, body in versions.items():
            said = result.setdefault(name, {}).setdefault(version, body)
            if said != body:
                parts = ", ".join(part for part in body if said.get(part) != body[part])
                raise ValueError(
                    f"{name} is not what version {version} of it was ({parts}): raise its "
                    "`version`, and record again"
                )
    return result


def record(digests: Mapping[str, Mapping[str, list[str]]]) -> None:
    """Writes defaults.json with what the methods are now, if no version is another by that.

    Raises:
        ValueError: One is.
    """
    body = merged(recorded(), current(digests))
    RECORDED.write_text(json.dumps(body, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _defaults(kind: type[pydantic.BaseModel]) -> dict[str, Any]:
    made = kind.model_construct().model_dump(mode="json", warnings=False)
    return {n: made[n] for n, field in kind.model_fields.items() if not field.is_required()}


def _is_of(method: str, release: str) -> bool:
    name, _, number = release.rpartition(" ")
    return name == method and number.isdigit()


def _released(digests: Mapping[str, Mapping[str, list[str]]]) -> str:
    """The digest of the rows of all tables: without pictures, and words that are no noise."""
    rows = {
        f"{name}/{path}": digest[-1]
        for name, of_release in digests.items()
        for path, digest in of_release.items()
        if path.endswith(".parquet") or ("/" not in path and "." not in path)
    }
    assert rows
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
