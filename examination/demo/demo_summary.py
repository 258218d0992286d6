"""The last lines of `make demo`: how far each release is from the hospital, and what to open first.

The figures are those of `tracecloak evaluate`, computed on the log itself: for the operator, not
for publication. The hospital is made up, so here they may be shown.

`python -m tracecloak.examination.demo.demo_summary FOLDER` reads FOLDER/evaluation-NAME.json of
each release of FOLDER/releases that has one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tracecloak.transforms.publish.names import REPORT_NAME

_RELEASE, _EVALUATION = "run_id=", "evaluation-"


def summary(folder: Path) -> Iterator[str]:
    """Yields a paragraph on each evaluated release of a demo, a line at a time.

    Args:
        folder: Where the demo wrote to.
    """
    for path in sorted(folder.glob(f"{_EVALUATION}*.json")):
        name = path.stem.removeprefix(_EVALUATION)
        release = folder / "releases" / f"{_RELEASE}{name}"
        manifest = json.loads((release / "manifest.json").read_text("utf-8"))
        report = json.loads(path.read_text("utf-8"))
        yield f"{manifest['method']}  {release}/  (statement.md says what it promises)"
        yield from (f"  {line}" for line in _figures(report))
        yield ""


def _figures(report: dict[str, Any]) -> Iterator[str]:
    if "released" in report:
        before, after = report["original"]["cases"], report["released"]["cases"]
        yield f"cases: {after:,} for {before:,} of the hospital"
    error = report["edge_relative_error"]
    yield (
        f"directly-follows counts: off by {_percent(error)} (sum of the errors to sum of the "
        "counts; publishing nothing is off by 100 %)"
    )
    yield (
        f"directly-follows pairs: {_percent(report['edge_precision'])} of those released occur in "
        f"the hospital, and {_percent(report['edge_recall'])} of its pairs are released; rare ones "
        "are not"
    )
    if "case_duration_distance_days" in report:
        days = report["case_duration_distance_days"]
        yield f"durations of cases: off by {days:.2f} days (earth mover's distance)"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def first_look(folder: Path) -> Iterator[str]:
    """Yields what to open first, and what to try there, a line at a time.

    Args:
        folder: Where the demo wrote to.
    """
    pages = {
        name: (folder / "releases" / f"{_RELEASE}{name}" / REPORT_NAME).resolve().as_uri()
        for name in ("log", "graph")
    }
    yield f"Open this first, in a browser: {pages['log']}"
    yield "  Move the slider Paths to see rarer ways, and click a variant to follow it on the map."
    yield f"Then the graph: {pages['graph']}"
    yield "  Point at a path for its interval; a dashed path may be noise alone."


def main(arguments: Sequence[str]) -> None:
    """Prints the summary of the demo in a folder."""
    (folder,) = arguments
    lines = ["", *summary(Path(folder)), *first_look(Path(folder)), ""]
    sys.stdout.write("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
