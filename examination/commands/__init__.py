"""The commands of examination, which the table of all commands names, and their flags."""

from __future__ import annotations

import argparse
from importlib import resources
from typing import Any

_KINDS = {"int": int, "float": float}


def add_table_flags(parser: argparse.ArgumentParser, *sections: str, **words: Any) -> None:
    """Adds the flags that `flags.toml` lists, section by section.

    Args:
        parser: Of a command or an action.
        sections: Names of sections, in the order of the help.
        words: What stands in braces in the texts.
    """
    import tomllib

    table = tomllib.loads((resources.files(__name__) / "flags.toml").read_text(encoding="utf-8"))
    for name, given in (row for section in sections for row in table[section].items()):
        more = {key: _KINDS.get(value, value) if key == "type" else value
                for key, value in given.items() if key != "is_switch"}  # fmt: skip
        more["help"] = given["help"].format(**words)
        if given.get("is_switch"):
            more |= {"action": "store_true", "default": None}
        if name.isupper():
            parser.add_argument(name.lower(), metavar=name, **more)
        else:
            parser.add_argument(f"--{name}", **more)
