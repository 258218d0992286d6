"""The stubs of the public modules, which type checkers read: `python -m deploy.stubs`.

Every keyword of `release`, `plan` and the transforms has a type: the keys of a configuration that
apply there, and for each method its own parameters, as the JSON Schemas of the configurations have
them. `make schema` writes these files, and a test compares them.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tracecloak
from tracecloak.anonymizers.registry import METHODS
from tracecloak.pipelines.configuration.config import SECTIONS, SourceConfig, json_schema
from tracecloak.pipelines.embedded.directly_follows import NO_KEYS
from tracecloak.pipelines.embedded.elements import OF_FILES, OF_ROWS
from tracecloak.pipelines.embedded.read import OF_PAYING_TRANSFORM
from tracecloak.pipelines.frames.functions import NOT_OF_FRAMES
from tracecloak.pipelines.stream.config import stream_json_schema

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tracecloak"
_HEAD = (
    "# Of the parameters of all methods and the keys of configurations; `make schema` writes it.\n"
)
_PLAIN = {"integer": "int", "number": "float", "boolean": "bool", "null": "None", "string": "str"}
# Names of tables to which other distributions add.
_OPEN = ("input_format", "formats", "kafka_token")
# What a parameter of an implementation becomes, which has to take any method.
_EXPLICIT = {"columns": "ColumnMapping | Columns | None"}


def names(module: str = "__init__") -> dict[str, str]:
    """Returns the names of a public module, each with the place where it is written."""
    tree = ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8"))
    (table,) = (node for node in ast.walk(tree) if isinstance(node, ast.Dict))
    places: dict[str, str] = ast.literal_eval(table)
    return {
        name: f"tracecloak.{at}.{name}" for at, listed in places.items() for name in listed.split()
    }


def stubs() -> dict[str, str]:
    """Returns the files by their names: the names of both modules, and the keywords."""
    keywords = _Keywords()
    return {
        "__init__.pyi": _formatted(_public(keywords)),
        "plugins.pyi": _formatted(_HEAD + "\n".join(_imports(names("plugins")))),
        "_keywords.pyi": _formatted(keywords.text()),  # which the signatures have asked for
    }


class _Keywords:
    """The types of keywords, made of the JSON Schemas.

    Attributes:
        methods: Names of methods by the class of their parameters.
    """

    def __init__(self) -> None:
        self._release, self._stream = json_schema(), stream_json_schema()
        self._defs = {**self._release["$defs"], **self._stream["$defs"]}
        self._made: dict[str, str] = {}
        self.methods: dict[str, list[str]] = {}
        for name in METHODS.builtins:
            self.methods.setdefault(METHODS.builtins[name].Params.__name__, []).append(name)
        columns = self._defs["Columns"]["properties"]
        text = {"type": "string"}  # as keywords filters are texts, and renames may be a file
        every = {
            **self._release["properties"], **columns, **self._defs["About"]["properties"],
            "where": {"anyOf": [text, {"type": "array", "items": text}]},
            "rename": {"anyOf": [text, self._release["properties"]["rename"]]},
        }  # fmt: skip
        stream = {**self._stream["properties"], **columns, "where": every["where"]}
        # Parts of a file that are keywords by themselves, and what signatures have.
        apart = {*SECTIONS, "params", "log", "method", "output", "release_id"}
        of_log = {*SourceConfig.model_fields, *columns} - apart
        of_frame = of_log - {*NOT_OF_FRAMES}
        self._add("Columns", columns, columns)
        self._add("LogKeys", every, of_frame)
        self._add("EvaluationKeys", every, {"key_store", "ledger"}, base="LogKeys")
        of_release = every.keys() - apart - of_frame - {*NOT_OF_FRAMES}
        self._add("FrameKeys", every, of_release, base="LogKeys")
        self._add("RowKeys", every, OF_ROWS, ["release_id"])
        self._add("FileKeys", every, {*OF_FILES} - {*OF_ROWS, "output"}, base="RowKeys")
        self._add("ReadKeys", every, of_log - {*OF_PAYING_TRANSFORM})
        of_stream = stream.keys() - {*NO_KEYS, "columns"}
        self._add("StreamKeys", stream, of_stream, self._stream["required"])
        for params in self.methods:
            self._ref(params)

    def of_method(self, params: str, common: str) -> str:
        """Returns the name of the keys of a method, with those that are common to all."""
        name = params.removesuffix("Params") + common
        self._made[name] = f"class {name}({params}, {common}): ..."
        return name

    def text(self) -> str:
        """Returns the file."""
        return "\n\n".join((_HEAD + _TYPES, *self._made.values()))

    def _add(
        self,
        name: str,
        parts: Mapping[str, Any],
        keys: Iterable[str],
        required: Iterable[str] = (),
        base: str = "TypedDict",
    ) -> None:
        lines = [f"class {name}({base}, total=False):"]
        for key in (key for key in parts if key in {*keys}):
            kinds = self._kinds(parts[key], is_open=key in _OPEN)
            if key in required:
                lines.append(f"    {key}: Required[{_union(kinds, but='None')}]")
            else:
                lines.append(f"    {key}: {_union(kinds)}")
        self._made[name] = "\n".join(lines)

    def _ref(self, name: str) -> str:
        if name not in self._made:
            whole = self._defs[name]
            self._made[name] = ""  # a place before those that it needs, which may need it
            self._add(name, whole["properties"], whole["properties"], whole.get("required", ()))
        return name

    def _kinds(self, part: Mapping[str, Any], is_open: bool = False) -> list[str]:
        """Returns the types of the values that a JSON Schema allows, and what pydantic takes."""
        if ref := part.get("$ref"):
            return [self._ref(ref.rpartition("/")[2])]
        if several := part.get("anyOf") or part.get("oneOf"):
            kinds = [kind for one in several for kind in self._kinds(one, is_open)]
            # What is a number or a text is a decimal fraction, kept as it is written.
            return ["Decimal", *kinds] if {"float", "str"} <= {*kinds} else kinds
        if "const" in part or ("enum" in part and not is_open):
            return [f"Literal[{', '.join(map(repr, part.get('enum', [part.get('const')])))}]"]
        if part.get("format") in ("date", "date-time"):
            return ["date" if part["format"] == "date" else "datetime", "str"]
        if part["type"] == "array":
            members = part["prefixItems"] if "prefixItems" in part else [part["items"]]
            kinds = [kind for one in members for kind in self._kinds(one, is_open)]
            return [f"Sequence[{_union(kinds)}]"]
        if part["type"] == "object":
            return [f"Mapping[str, {_union(self._kinds(part['additionalProperties']))}]"]
        return [_PLAIN[part["type"]]]


def _union(kinds: Iterable[str], but: str = "") -> str:
    """Returns the type of what is of one of the types, None last."""
    several = dict.fromkeys(kind for kind in kinds if kind != but)
    return " | ".join(sorted(several, key="None".__eq__))


_TYPES = """
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Literal, Required, TypedDict

# In the error of a call whose arguments no method takes.
class MethodWithTheseArguments: ...
"""
_PUBLIC = """
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack, overload

from narwhals.typing import IntoFrame, IntoFrameT

from tracecloak import _keywords
from tracecloak._keywords import Columns
from tracecloak.examination.evaluation.evaluate import Evaluation
from tracecloak.pipelines.embedded.anonymize import Output
from tracecloak.pipelines.planning.plan import Plan
"""
# What takes keywords: with a method, whose parameters are among them, or without.
_BY_METHOD = {
    "release": "FrameKeys", "plan": "FrameKeys",
    "AnonymizeEventLog": "RowKeys", "WriteRelease": "FileKeys",
}  # fmt: skip
_WITHOUT = {
    "evaluate": "EvaluationKeys", "vocabulary": "LogKeys", "session": "FrameKeys",
    "ReadEventLog": "ReadKeys", "PublishDirectlyFollows": "StreamKeys",
}  # fmt: skip


def _public(keywords: _Keywords) -> str:
    places = names()
    typed = {name: getattr(tracecloak, name) for name in sorted({*_BY_METHOD, *_WITHOUT})}
    lines = [_HEAD + _PUBLIC]
    for name, place in places.items():
        if name not in typed:
            lines += _imports({name: place})
        elif inspect.isclass(typed[name]):
            lines += _imports({name: place}, as_own=f"_{name}")
    for name, value in typed.items():
        if inspect.isclass(value):
            lines.append(f"class {name}(_{name}):")
            made = _signatures(keywords, name, "__init__", value.__init__)
            lines += [f"    {line}" for one in made for line in one.splitlines()]
        else:
            lines += _signatures(keywords, name, name, value)
    return "\n".join(lines)


def _signatures(
    keywords: _Keywords, name: str, called: str, function: Callable[..., object]
) -> Iterator[str]:
    if name in _WITHOUT:
        yield _def(called, function, {}, f"Unpack[_keywords.{_WITHOUT[name]}]", has_doc=True)
        return
    common = _BY_METHOD[name]
    is_first = True
    for params, methods in keywords.methods.items():
        method = f"Literal[{', '.join(map(repr, methods))}]"
        whole = keywords.of_method(params, common)
        # The parameters are keywords, or all in `params`.
        for given, keys in (("None", whole), (f"_keywords.{params}", common)):
            explicit = {"method": method, "params": given}
            yield "@overload\n" + _def(
                called, function, explicit, f"Unpack[_keywords.{keys}]", has_doc=is_first
            )
            is_first = False
    explicit = {"method": "PluginMethod", "params": "Mapping[str, object] | None"}
    yield "@overload\n" + _def(called, function, explicit, "object")
    # No call fits this one. It looks like all of them, so mypy has one line for a wrong call, and
    # does not print all signatures.
    first = "self, " if called == "__init__" else "frame: object, *, "
    yield f"""@overload
def {called}({first}method: Sequence[_keywords.MethodWithTheseArguments], **keys: object
) -> {inspect.signature(function).return_annotation.replace("IntoFrameT", "Any")}: ..."""


def _def(
    called: str,
    function: Callable[..., object],
    explicit: Mapping[str, str],
    keys: str,
    has_doc: bool = False,
) -> str:
    """Returns a signature of a function, with the types of some of its parameters and its keys."""
    signature = inspect.signature(function)
    parts, has_star = [], False
    for one in signature.parameters.values():
        kind = explicit.get(one.name) or _EXPLICIT.get(one.name) or one.annotation
        if one.kind is one.VAR_KEYWORD:
            parts.append(f"**{one.name}: {keys}")
            continue
        if one.kind is one.KEYWORD_ONLY and not has_star:
            parts.append("*")
            has_star = True
        is_given = one.name == "params" and "None" not in kind
        default = "" if one.default is one.empty or is_given else f" = {one.default!r}"
        parts.append(one.name if one.name == "self" else f"{one.name}: {kind}{default}")
    doc = f'\n    """{inspect.getdoc(function)}\n    """' if has_doc else " ..."
    return f"def {called}({', '.join(parts)}) -> {signature.return_annotation}:{doc}"


def _imports(places: Mapping[str, str], as_own: str = "") -> list[str]:
    parted = ((name, place.rpartition(".")[0]) for name, place in places.items())
    return [f"from {module} import {name} as {as_own or name}" for name, module in parted]


def _formatted(text: str) -> str:
    for command in (("check", "--quiet", "--fix", "--select=I", "-"), ("format", "--quiet", "-")):
        words = [sys.executable, "-m", "ruff", *command, "--stdin-filename", FOLDER / "_.pyi"]
        done = subprocess.run(
            words, input=text, check=True, capture_output=True, text=True, cwd=ROOT
        )
        text = done.stdout
    return text


if __name__ == "__main__":
    for name, text in stubs().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
