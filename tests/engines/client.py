"""The command in a process with the fixed key of tests, which no flag or variable can give it."""

from __future__ import annotations

import sys

from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.pipelines.commands import main as cli
from tracecloak.pipelines.keys import key_store

SECRET = b"k" * 32
DAY = "2026-11-23"


def fix() -> None:
    """Has every release of this process use the key and the day of `fix_key`."""
    ReleaseKey.generate = classmethod(lambda cls: cls(SECRET))  # type: ignore[method-assign]
    key_store.today = lambda: DAY


def main(arguments: list[str]) -> int:
    """Runs the command, or Beam YAML, with the key and on the day of `fix_key` of tests."""
    fix()
    if arguments[0] == "beam-yaml":
        from apache_beam.yaml import main as beam_yaml

        beam_yaml.run(arguments[1:])
        return 0
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
