"""How a whole tier of tests ended, for the documentation: docs/results/tiers.json."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.engines import fetching

FILE = Path(__file__).parents[2] / "docs" / "results" / "tiers.json"
_PACKAGES = ("tracecloak", "apache-beam", "pyarrow", "numpy", "pm4py")


def versions(tier: str) -> dict[str, str]:
    """What was installed, and for the tier of engines what was fetched."""
    installed = {name: importlib.metadata.version(name) for name in _PACKAGES}
    fetched = dict(fetching.VERSIONS) if tier == "engines" else {}
    return {"Python": platform.python_version(), **installed, **fetched}


def record(
    tier: str, stats: Mapping[str, Sequence[Any]], seconds: float, file: Path = FILE
) -> None:
    """Writes how many tests of a tier passed, failed and were skipped, in place of its last run."""
    tiers = json.loads(file.read_text()) if file.exists() else {}
    tiers[tier] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": versions(tier),
        "passed": len(stats.get("passed", ())),
        "failed": len(stats.get("failed", ())) + len(stats.get("error", ())),
        "skipped": len(stats.get("skipped", ())),
        "seconds": round(seconds),
    }
    file.write_text(json.dumps(dict(sorted(tiers.items())), indent=2) + "\n")
