"""What is declared of our own methods: a table that is read without loading any of them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def declarations() -> dict[str, dict[str, Any]]:
    """Returns the entries of `methods.json`, by the names of the methods.

    An entry has the class of a method, or of the generator that it is made of, and those
    attributes of `Anonymizer` or `VariantGenerator` that are declared and not inherited
    (`contract.method.Declared` gives them to the class).
    """
    text = (Path(__file__).parents[1] / "methods.json").read_text(encoding="utf-8")
    by_name: dict[str, dict[str, Any]] = json.loads(text)
    return by_name
