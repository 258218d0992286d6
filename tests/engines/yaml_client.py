"""Beam YAML in a process of its own, with the fixed key of `tests.engines.client`."""

from __future__ import annotations

import sys

from apache_beam.yaml import main as beam_yaml

from tests.engines.client import fix


def main(arguments: list[str]) -> None:
    """Runs a pipeline file with Beam's flags."""
    fix()
    beam_yaml.run(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
