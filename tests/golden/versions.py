"""What each version of a method is: the defaults it has, those of profiles, and what it releases.

`tests.golden.releases` records it in defaults.json. What stands there under a version is never
changed, only added to, as by a parameter that is neutral by default or by another release: whoever
changes a default, or any step up to the noise, raises the method's `version`.
"""

from __future__ import annotations

import hashlib
import json
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pydantic
from pydantic_core import to_jsonable_python

from tests.golden.releases import WITH
from tests.support.examples import examples_of
from tracecloak.anonymizers.logs.params import GENERATORS
from tracecloak.anonymizers.registry import METHODS
from tracecloak.anonymizers.streams.steps import STREAM_PRODUCTS
from tracecloak.pipelines.commands.table import COMMANDS
from tracecloak.pipelines.stream.config import IN_DIGEST, StreamConfig
from tracecloak.schemas.plugins import Plugins
from tracecloak.transforms.columnar_names import COLUMNAR
from tracecloak.transforms.formats.registry import FORMATS
from tracecloak.transforms.inputs.databases import DATABASES
from tracecloak.transforms.keys.sources import KEY_SOURCES
from tracecloak.transforms.lakes.tables import TABLES as KINDS_OF_TABLES
from tracecloak.transforms.publish.products import PRODUCTS
from tracecloak.transforms.services.kafka_topic import TOKENS

RECORDED = Path(__file__).with_name("defaults.json")
NAMES = Path(__file__).with_name("names.json")
TABLES: tuple[Plugins[Any], ...] = (
    *(METHODS, GENERATORS, STREAM_PRODUCTS, PRODUCTS, FORMATS, KEY_SOURCES, COLUMNAR, COMMANDS),
    *(DATABASES, KINDS_OF_TABLES),
    TOKENS,
)
_OF_STREAM = "stream of "
_FIGURES = "figures.parquet"
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
    for name, method in METHODS.builtins.items():
        examples = [method.Params(**example).resolved() for example in examples_of(method)]
        body = {
            "defaults": _defaults(method.Params),
            "defaults of parts": {
                kind.__name__: _defaults_of_part(kind) for kind in _parts(method.Params)
            },
            "profiles": _profiles(method),
            "resolved": examples,
        }
        if name in _WITH_GENERATORS:
            body["steps"] = {n: getattr(g, "version", 1) for n, g in GENERATORS.builtins.items()}
        body["released"] = _released({n: d for n, d in digests.items() if _is_of(name, n)})
        found[name] = {str(method.version): body}
    of_config = {n: v for n, v in _defaults(StreamConfig).items() if n in IN_DIGEST}
    for name, product in STREAM_PRODUCTS.builtins.items():
        # The vocabulary had a default once, which was refused.
        defaults = {"vocabulary": None, **_defaults(product.Params), **of_config}
        body: dict[str, Any] = {"defaults": defaults}
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
            said = result.setdefault(name, {}).get(version, body)
            if others := [part for part in said if not _has(body.get(part), said[part])]:
                raise ValueError(
                    f"{name} is not what version {version} of it was ({', '.join(others)}): raise "
                    "its `version`, and record again"
                )
            result[name][version] = body
    return result


def _has(now: Any, said: Any) -> bool:
    """Whether all that was said is still so; of lists and of what has names there may be more."""
    if isinstance(said, dict) and isinstance(now, dict):
        return all(name in now and _has(now[name], value) for name, value in said.items())
    if isinstance(said, list) and isinstance(now, list):
        pairs = zip(now, said, strict=False)
        return len(now) >= len(said) and all(_has(one, other) for one, other in pairs)
    return bool(now == said)


def names_given() -> dict[str, list[str]]:
    """What names.json holds: by a table's group, every name that it has or had."""
    return dict(json.loads(NAMES.read_text(encoding="utf-8"))) if NAMES.exists() else {}


def record(digests: Mapping[str, Mapping[str, list[str]]]) -> None:
    """Writes defaults.json with what the methods are now, if no version is another by that.

    Adds the names that the tables have now to names.json, of which none goes.

    Raises:
        ValueError: One is.
    """
    body = merged(recorded(), current(digests))
    RECORDED.write_text(json.dumps(body, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    known = names_given()
    names = {t.group: sorted({*known.get(t.group, ()), *t.builtins}) for t in TABLES}
    NAMES.write_text(json.dumps(names, indent=1) + "\n", encoding="utf-8")


def _defaults(kind: type[pydantic.BaseModel]) -> dict[str, Any]:
    made = kind.model_construct().model_dump(mode="json", warnings=False)
    return {n: made[n] for n, field in kind.model_fields.items() if not field.is_required()}


def _defaults_of_part(kind: type[pydantic.BaseModel]) -> dict[str, Any]:
    """Of a model that leaves out of JSON what does not apply."""
    defaults = {n: field for n, field in kind.model_fields.items() if not field.is_required()}
    return {
        n: to_jsonable_python(field.get_default(call_default_factory=True))
        for n, field in defaults.items()
    }


def _parts(kind: Any) -> Iterator[type[pydantic.BaseModel]]:
    """The models that the fields of a model are made of, and those in these."""
    if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
        inner = {
            part
            for field in kind.model_fields.values()
            for part in _models(field.annotation)
            if part is not kind
        }
        for part in sorted(inner, key=lambda part: part.__name__):
            yield part
            yield from _parts(part)


def _models(annotation: Any) -> set[type[pydantic.BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return {annotation}
    return {model for inner in typing.get_args(annotation) for model in _models(inner)}


def _profiles(method: Any) -> dict[str, Any]:
    """What the first example has in effect under each profile, if the method has profiles."""
    if "profile" not in method.Params.model_fields:
        return {}
    names = typing.get_args(method.Params.model_fields["profile"].annotation)
    first = method.examples[0]
    return {name: method.Params(**{**first, "profile": name}).resolved() for name in names}


def _is_of(method: str, release: str) -> bool:
    name, _, number = release.rpartition(" ")
    return (name == method and number.isdigit()) or release.startswith(method + WITH)


def _released(digests: Mapping[str, Mapping[str, list[str]]]) -> dict[str, str]:
    """The digest of the rows of each one's tables: no pictures, and no words, which have no noise.

    Figures are sums of what the other tables have noise on, so they are no part of it.

    What a method refuses has its exit code for rows.
    """
    found = {}
    for name, of_release in digests.items():
        rows = {
            path: digest[-1]
            for path, digest in of_release.items()
            if (path.endswith(".parquet") and path != _FIGURES)
            or ("/" not in path and "." not in path)
        }
        assert rows
        found[name] = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    return found
