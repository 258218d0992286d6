"""A live page of a stream: one HTML file and one JSON path, served to this machine alone.

The page shows the newest graph that the stream has published as a map that moves, doubtful paths as
such, the number of cases in total and by step, and what remains of the budget. It reads the step
files in the output folder and nothing else, so all that it shows is published: counts with noise,
and errors that are public. The page asks no other server, and its policy lets it ask none; the
server listens on 127.0.0.1 and answers only requests that name an IP address or localhost (`Port`).

`python -m tracecloak.examination.demo.live_page OUTPUT RELEASE_ID EPOCH` shows a stream that writes
to OUTPUT.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from tracecloak.anonymizers.streams.dfg_steps import figures_within, with_intervals
from tracecloak.pipelines.stream.operator_port import Port, PortHandler
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published.figures import LEGEND, Figure
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.published.step import (
    EXPECTED_FALSE,
    StepRelease,
    evidence,
    is_noise_laplace,
)
from tracecloak.transforms.pages.page import Page, policy_of, rendered
from tracecloak.transforms.publish.figures_data import figures_data, map_data
from tracecloak.transforms.stream.step_sinks import epoch_folder

# --- What a live page shows of a stream: the graph of a step, and the number of cases by step. ----
# All of it follows from the releases: counts with noise, and errors that are public.


def total_of(release: StepRelease) -> Figure:
    """Returns the number of cases of a graph, each as far as the clip lets it count."""
    assert release.figures is not None
    return next(figure for figure in release.figures.rows() if figure.name == "cases")


def course_of(releases: Sequence[StepRelease]) -> list[dict[str, Any]]:
    """Returns a row for each step: its end, the number of cases and its 95 % interval."""
    totals = [(release, total_of(release)) for release in releases]
    return [
        {
            "step": release.step,
            "end_ms": release.end_us // 1000,
            "count": total.value,
            "low": total.low,
            "high": total.high,
            "grade": total.grade,
        }
        for release, total in totals
    ]


def map_of(release: StepRelease) -> tuple[dict[str, Any] | None, int]:
    """Returns the map of a step as pages show it, and the most that any other path has.

    It has the edges that noise alone hardly makes, and doubtful ones between their activities.
    Which are which is decided for all cells together (`schemas.published.step`). Nothing is left of
    the rest: most counts of a public alphabet are zero, and noise makes half of these positive. The
    most that another path has is so with a probability of about 95 %. There is no map where nothing
    stands out.
    """
    assert release.lows is not None and release.highs is not None
    counts, lows, highs = release.counts, release.lows, release.highs
    is_laplace = is_noise_laplace(release)
    is_sure, is_doubtful = evidence(counts, release.standard_errors, lows, is_laplace=is_laplace)
    start, end = ActivityVocabulary.of([]).labels
    sure = (release.cells[i] for i in np.flatnonzero(is_sure))
    reached = {start, end}.union(*sure)
    near = np.fromiter((reached.issuperset(cell) for cell in release.cells), bool)
    vocabulary = ActivityVocabulary.of(reached - {start, end})
    codes = {label: code for code, label in enumerate(vocabulary.labels)}
    ends = np.array([[codes.get(name, -1) for name in cell] for cell in release.cells], np.int32)
    sources, targets = ends.reshape(-1, 2).T
    is_shown = is_sure | (is_doubtful & near)
    rows = np.flatnonzero(is_shown)
    rows = rows[np.lexsort((targets[rows], sources[rows]))]
    hidden = next(f for f in figures_within(release, is_shown) if f.name == "path_not_shown")
    if not len(rows):
        return None, hidden.high
    numbers = (of[rows] for of in (sources, targets, counts, lows, highs))
    graph = ReleasedGraph(vocabulary.names, *numbers)
    drawn = map_data(graph, {}, release.figures, is_graded=True)
    # Decided for all pairs together, and not by the interval of each.
    for edge, doubtful in zip(drawn["edges"], is_doubtful[rows].tolist(), strict=True):
        edge["doubtful"] = doubtful
    return drawn, hidden.high


def headline(release: StepRelease) -> str:
    """Returns what a step is about: which cases, from when to when."""
    what = {
        "window": "Cases that closed in this step",
        "total": "All cases that have closed so far",
        "sliding": "Cases that closed in the last steps",
    }[release.view]
    return f"{what}: {_moment(release.start_us)} to {_moment(release.end_us)} UTC"


def _moment(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


# --- The page and its server ----------------------------------------------------------------------

VIEWS = ("total", "sliding", "window")  # the first that there is, is shown first
_STEP_FILE = re.compile(r"step-\d+\.json")
_HOST = "127.0.0.1"
_HEADERS = {
    "X_Content_Type_Options": "nosniff",
    "Referrer_Policy": "no-referrer",
    "Cross_Origin_Resource_Policy": "same-origin",
    "Cache_Control": "no-store",
}

# What noise alone could have made is decided for all pairs of a step together.
_MAP_TOLD = (
    f"All possible pairs are decided together: noise alone makes {EXPECTED_FALSE:g} solid paths on "
    "average at most; dashed ones are doubtful. What noise hides is not drawn."
)


def page(title: str, command: str = "") -> Page:
    """Returns the page, which asks its own server for what was published.

    Args:
        title: Of the page.
        command: What shows it again.
    """
    context = {
        "told": {"map": _MAP_TOLD},
        "shown": {"map": {"edges": []}},
        "is_compared": False,
        "command": command,
        "legend": LEGEND,
    }
    scripts = "chart graphviz layout labels bpmn figures map live"
    return Page(
        "live.html.j2",
        title,
        (),
        context,
        {"file_name": "stream", "map": None},
        tuple(f"{name}.js" for name in scripts.split()),
        ("Viz.js", "D3", "Observable Plot"),
        asks_its_server=True,
        styles=("figures.css",),
    )


def command_of(output: Path, release_id: str, epoch: str) -> str:
    """Returns the command that shows the page of a stream again, as long as its files are there."""
    module = "tracecloak.examination.demo.live_page"
    return shlex.join(["python", "-m", module, str(output.resolve()), release_id, epoch])


class PublishedSteps:
    """The graphs that a stream has published to a folder; each file is read once."""

    def __init__(self, output: Path, release_id: str, epoch: str) -> None:
        """Keeps the place.

        Args:
            output: The folder that the stream writes to, on this machine; it need not be there yet.
            release_id: The stream's name.
            epoch: The name of its epoch.

        Raises:
            UsageError: A name is no name of a folder.
        """
        for name, value in (("release_id", release_id), ("epoch", epoch)):
            if not value or Path(value).name != value:
                raise UsageError(f"{name} must be the name of a folder, got {value!r}")
        self._epoch = Path(epoch_folder(str(output), release_id, epoch))
        self._folder = self._epoch / "product=dfg"
        self._read: dict[Path, StepRelease] = {}
        self._lock = threading.Lock()

    def views(self) -> dict[str, list[StepRelease]]:
        """Returns the releases by view, in the order of their steps; views without any are not in.

        A file that is not whole yet is left for the next time.
        """
        by_view = {}
        with self._lock:
            for view in VIEWS:
                folder = self._folder / f"view={view}"
                names = sorted(folder.iterdir()) if folder.is_dir() else []
                paths = [path for path in names if _STEP_FILE.fullmatch(path.name)]
                releases = [release for release in map(self._release, paths) if release is not None]
                if releases:
                    by_view[view] = releases
        return by_view

    def _release(self, path: Path) -> StepRelease | None:
        if path not in self._read:
            try:
                release = StepRelease.from_json(path.read_bytes())
                # A step of version 0.1.0 has no intervals; they follow from what it has.
                self._read[path] = with_intervals(release) if release.lows is None else release
            except (TracecloakError, OSError):
                return None
        return self._read[path]


def state(views: Mapping[str, Sequence[StepRelease]], wanted: str = "") -> dict[str, Any]:
    """Returns what the page shows, as JSON values.

    Args:
        views: The releases of each view, in the order of their steps.
        wanted: The view to show; the first of VIEWS that there is, if this is none of them.
    """
    if not views:
        return {"version": "", "notice": "Waiting for the first step."}
    view = wanted if wanted in views else next(iter(views))
    newest = views[view][-1]
    horizon = newest.step + 1 + newest.n_steps_left
    assert newest.figures is not None
    (drawn_map, most_hidden), figures = map_of(newest), figures_data(newest.figures)
    spent = "The budget is spent: the stream publishes no more." if not newest.n_steps_left else ""
    return {
        "version": f"{'/'.join(map(str, newest.key))}/{len(views)}",
        "notice": spent,
        "views": list(views),
        "view": view,
        "headline": headline(newest),
        "step_text": f"{newest.release_id}, epoch {newest.epoch}, step {newest.step}",
        "n_steps_left": newest.n_steps_left,
        "horizon": horizon,
        "budget_text": (
            f"{newest.n_steps_left} of {horizon} steps are left. All of them together cost "
            f"epsilon {newest.epsilon} and delta {newest.delta}."
        ),
        "map": drawn_map,
        "hidden_text": (
            f"A path that is not drawn can have up to {most_hidden:,} occurrences: with a "
            "probability of about 95 %, none has more."
        ),
        "figures": figures["totals"] + figures["activities"],
        # The course of totals is the chart of totals.
        "course": [] if newest.view == "total" else course_of(views[view]),
        "totals": course_of(views.get("total", ())),
    }


class LivePage(Port):
    """The server of the page, from entering the context to leaving it.

    Attributes:
        address: Where to look at it, such as http://127.0.0.1:8080/.
    """

    def __init__(self, steps: PublishedSteps, title: str, port: int = 0, command: str = "") -> None:
        """Takes the port; nothing answers yet.

        Args:
            steps: What the stream publishes.
            title: Of the page.
            port: Of 127.0.0.1; 0: any free one.
            command: What shows it again.

        Raises:
            UsageError: The port is taken.
        """
        html_page = page(title, command)
        html, policy = rendered(html_page), policy_of(html_page)

        class Handler(PortHandler):
            def do_GET(self) -> None:  # noqa: N802 - the name of the library
                url = urlsplit(self.path)
                if url.path == "/":
                    status, kind, body = HTTPStatus.OK, "text/html; charset=utf-8", html
                elif url.path == "/state.json":
                    wanted = parse_qs(url.query).get("view", [""])[0]
                    text = json.dumps(state(steps.views(), wanted))
                    status, kind, body = HTTPStatus.OK, "application/json", text.encode()
                else:
                    missing = b"there is / and /state.json\n"
                    status, kind, body = HTTPStatus.NOT_FOUND, "text/plain", missing
                # A meta element cannot contain frame-ancestors.
                framed = f"{policy}; frame-ancestors 'none'"
                self.answer(status, kind, body, Content_Security_Policy=framed, **_HEADERS)

        try:
            super().__init__(_HOST, port, Handler)
        except OSError as error:
            raise UsageError(
                f"port {port} cannot be used ({error.strerror}); name another"
            ) from None
        self.address = f"http://{_HOST}:{self.server_address[1]}/"


def main(arguments: Sequence[str] | None = None) -> None:
    """Serves the page until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("output", type=Path, help="folder that the stream writes to")
    parser.add_argument("release_id", help="the stream's name")
    parser.add_argument("epoch", help="the name of its epoch")
    parser.add_argument("--port", type=int, default=0, help="of 127.0.0.1 (default: a free one)")
    flags = parser.parse_args(arguments)
    steps = PublishedSteps(flags.output, flags.release_id, flags.epoch)
    again = command_of(flags.output, flags.release_id, flags.epoch)
    with LivePage(steps, f"tracecloak: {flags.release_id}", flags.port, again) as live:
        sys.stdout.write(f"{live.address}\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
