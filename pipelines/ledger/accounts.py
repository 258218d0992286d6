"""Accounts: how much epsilon and delta the releases of one data set may spend together.

Caps are declared in the ledger (`pipelines.ledger.declarations`), where no pipeline can leave them
out. An accounts file holds beside them, and of two caps the lower counts. It belongs to whoever
answers for the privacy of the data; the pipeline only reads it.

    accounts:
      claims/2026:
        epsilon: "10"       # cap on the sum over all releases; null: none
        delta: "1e-5"       # likewise
        unit: case          # whom the caps protect: case, individual or event
        max_cases: 100000   # public bound on the number of cases, optional
        note: approved on 2026-01-15, file 17   # optional

Numbers are read as they are written and never as binary floating point: ten releases of 0.1 fit a
cap of 1, and an eleventh does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import yaml

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.ledger.entries import parse_decimal
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.guarantee import Unit
from tracecloak.schemas.texts.bounded_yaml import MAX_BYTES, StrictLoader, bounded_yaml

_REQUIRED = ("epsilon", "delta", "unit")
_OPTIONAL = ("max_cases", "note")


@dataclass(frozen=True)
class Account:
    """What the releases that name this account may spend together.

    Attributes:
        name: Its name in the accounts file.
        epsilon_cap: Largest sum of their epsilons, or None: no cap.
        delta_cap: Largest sum of their deltas, or None: no cap.
        unit: The unit of privacy that the caps are about; releases with another are refused.
        max_cases: Public upper bound on the number of cases of the data set, or None.
        note: What the owner of the file wrote beside it.
    """

    name: str
    epsilon_cap: Fraction | None
    delta_cap: Fraction | None
    unit: Unit
    max_cases: int | None = None
    note: str = ""

    def __post_init__(self) -> None:
        where = f"account {self.name!r}"
        if not self.name or not self.name.isprintable():
            raise UsageError(f"{where}: the name must be printable and not empty")
        if self.unit not in get_args(Unit):
            raise UsageError(
                f"{where}: unit must be one of {', '.join(get_args(Unit))}, got {self.unit!r}"
            )
        if self.epsilon_cap is not None and self.epsilon_cap < 0:
            raise UsageError(f"{where}: epsilon must be at least 0, got {self.epsilon_cap}")
        if self.delta_cap is not None and not 0 <= self.delta_cap < 1:
            raise UsageError(f"{where}: delta must be at least 0 and below 1")
        if self.max_cases is not None:
            if self.max_cases < 1:
                raise UsageError(f"{where}: max_cases must be at least 1, got {self.max_cases}")
            # A larger delta permits to publish a case as it is: every one with probability delta.
            if self.delta_cap is not None and self.delta_cap > Fraction(1, self.max_cases):
                raise UsageError(
                    f"{where}: delta {decimal_text(self.delta_cap)} is above 1 / max_cases, which "
                    f"permits to publish a whole case; give at most 1/{self.max_cases}"
                )


def load_accounts(path: str | Path, payer: str | None = None) -> dict[str, Account]:
    """Returns the accounts of a file by name, a payer among them; see the module for its form.

    Raises:
        UsageError: It cannot be read or lacks the payer; a key is unknown, missing, twice or wrong.
    """
    try:
        with open(path, "rb") as stream:
            body = bounded_yaml(stream.read(MAX_BYTES + 1), _TextLoader)
    except OSError as error:
        raise UsageError(f"accounts file {str(path)!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(
            f"accounts file {str(path)!r} is no YAML that can be read: {error}"
        ) from None
    try:
        accounts = _accounts(body)
    except UsageError as error:
        raise UsageError(f"accounts file {str(path)!r}: {error}") from None
    if payer is not None and payer not in accounts:
        raise UsageError(
            f"account {payer!r} is not in {path}; name one of {', '.join(sorted(accounts))}"
        )
    return accounts


def _accounts(body: Any) -> dict[str, Account]:
    if not isinstance(body, dict) or set(body) != {"accounts"}:
        raise UsageError("expected the one key 'accounts'")
    if not isinstance(body["accounts"], dict) or not body["accounts"]:
        raise UsageError("'accounts' must map at least one name to its caps")
    return {name: _account(name, keys) for name, keys in body["accounts"].items()}


def _account(name: str, keys: Any) -> Account:
    where = f"account {name!r}"
    if not isinstance(keys, dict):
        raise UsageError(f"{where}: expected the keys {', '.join(_REQUIRED)}")
    unknown = sorted(set(keys) - {*_REQUIRED, *_OPTIONAL})
    if unknown:
        raise UsageError(
            f"{where}: unknown key {unknown[0]!r}; there are {', '.join(_REQUIRED + _OPTIONAL)}"
        )
    missing = [key for key in _REQUIRED if key not in keys]
    if missing:
        none = "" if missing[0] == "unit" else "; write null where there shall be no cap"
        raise UsageError(f"{where}: {missing[0]} is missing{none}")
    for key, value in keys.items():
        if isinstance(value, dict | list):
            raise UsageError(f"{where}: {key} must be one value")
    return Account(
        name,
        _cap(where, "epsilon", keys),
        _cap(where, "delta", keys),
        keys["unit"],
        _max_cases(where, keys),
        keys.get("note") or "",
    )


def _cap(where: str, key: str, keys: Mapping[str, str | None]) -> Fraction | None:
    text = keys[key]
    if text is None:
        return None
    try:
        return parse_decimal(text)
    except UsageError as error:
        raise UsageError(f"{where}: {key}: {error}, or null for no cap") from None


def _max_cases(where: str, keys: Mapping[str, str | None]) -> int | None:
    text = keys.get("max_cases")
    if text is None:
        return None
    if re.fullmatch(r"[0-9]{1,18}", text) is None:
        raise UsageError(f"{where}: max_cases must be a whole number, got {text!r}")
    return int(text)


class _TextLoader(StrictLoader):
    """Every scalar is the text that stands in the file, but for an unquoted null, which is None.

    A key that is given twice is refused: YAML would silently take the last.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return None if node.tag == "tag:yaml.org,2002:null" else node.value
        return super().construct_object(node, deep=deep)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        body: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                self._refuse("a key must be text", key_node)
            if key in body:
                self._refuse(f"key given twice: {key}", key_node)
            body[key] = self.construct_object(value_node, deep=True)
        return body
