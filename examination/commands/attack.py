"""`tracecloak attack`: audits a configuration by attacks, or links finished releases.

For the operator only: what it prints and writes was computed on raw data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracecloak.pipelines.commands.flags import file_to_write, listed
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Form, Result, show, showing_progress
from tracecloak.schemas.errors import GuaranteeError, UsageError

if TYPE_CHECKING:
    from tracecloak.pipelines.configuration.config import ReleaseConfig
    from tracecloak.transforms.pages.page import Chart


def run(given: Given) -> int:
    """Attacks, and writes the report.

    Raises:
        GuaranteeError: The claim of the configuration is refuted.
    """
    ACTIONS[given.flags["action"]](given)
    return 0


def _show_report(
    form: Form,
    path: Path,
    body: Mapping[str, Any],
    markdown: Iterable[str],
    charts: Sequence[Chart],
    summary: Iterable[str],
    remarks: Sequence[str] = (),
) -> None:
    """Writes a report, and shows its summary and its files; the exit code tells what failed."""
    from tracecloak.examination.measure.registry import INTERNAL, write_all

    paths = list(map(str, write_all(path, body, markdown, charts)))
    said = {"verdict": body["verdict"]} if "verdict" in body else {}
    below = [f"report     {' and '.join(paths)}"]
    above = [*remarks, INTERNAL, *summary]
    show(Result((), {**said, "report": paths}, above=above, below=below), form)


# --- `tracecloak attack config`: audits what a configuration promises, by many releases of it. ----


def _audit(given: Given) -> None:
    """Audits the configuration, and writes the report.

    Raises:
        GuaranteeError: Its claim is refuted.
    """
    from tracecloak.examination.attack.run import DEFAULT_RELEASES, attack_configuration, texts_of
    from tracecloak.pipelines.configuration.plan import load

    flags = dict(given.flags)
    flags.pop("action")
    path = file_to_write("report", flags.pop("report"))
    n_releases = flags.pop("releases", DEFAULT_RELEASES)
    # Nothing is released, so it does not matter where to.
    config, remarks = one_window_config(load(given.config, {**flags, "output": "nowhere"}))
    with showing_progress(given.form):
        body = attack_configuration(config, n_releases)
    _show_report(given.form, path, body, *texts_of(body), remarks)
    if body["is_refuted"]:
        raise GuaranteeError(body["verdict"])


def one_window_config(config: ReleaseConfig) -> tuple[ReleaseConfig, list[str]]:
    """Returns a configuration without its schedule, and what to say of that.

    A window's release is one of the window's cases, so it is attacked as a release by itself. The
    book of counted units, which keeps a case from two windows, is neither asked nor written.
    """
    if config.schedule is None:
        return config, []
    alone = {"schedule": None, "window": None, "book": None, "book_key": None}
    return config.model_copy(update=alone), [
        "schedule   left aside: this is about the release of one window; that a case counts in one "
        "window only is kept by the book of counted units",
        "",
    ]


# --- `tracecloak attack linkage`: finished releases, by what somebody may know of a case. ---------


def _link(given: Given) -> None:
    """Attacks each release by itself, and writes the report."""
    from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
    from tracecloak.examination.evaluation.origin import as_released
    from tracecloak.examination.linkage import run as linkage
    from tracecloak.examination.linkage.knowledge import Settings
    from tracecloak.examination.measure.behaviour_measures import RESOURCE
    from tracecloak.pipelines.budget.opening import store_at
    from tracecloak.pipelines.configuration.config import load_log
    from tracecloak.pipelines.configuration.plan import source_of
    from tracecloak.pipelines.verification.received import Received

    flags = dict(given.flags)
    flags.pop("action")
    path = file_to_write("report", flags.pop("report"))
    names = {"time_unit": "unit", "samples": "n_samples", "sizes": "sizes"}
    known = {names[name]: flags.pop(name) for name in names.keys() & flags.keys()}
    if "sizes" in known:
        known["sizes"] = tuple(map(_whole_number, listed(known["sizes"])))
    settings = Settings(**known)
    sensitive = linkage.sensitive_columns(flags.pop("sensitive", ""))
    paths = listed(flags.pop("release"))
    if len(listed(flags.get("log", ""))) == len(paths) > 1:
        raise UsageError(
            f"log has {len(paths)} paths, as many as there are releases; attack releases of "
            "different logs one by one, or name the files of one log by a folder or a glob"
        )
    is_one_release = len(paths) == 1 and linkage.is_release(paths[0])
    release = Received.at(paths[0]) if is_one_release else None
    source = source_of(as_released(load_log(flags), release, store_at(None)))
    randomness = Randomness(ReleaseKey.generate(), "linkage", "", "")
    with showing_progress(given.form):
        releases = [linkage.read_released(path, [RESOURCE, *sensitive]) for path in paths]
        original = linkage.read_original(source, sensitive)
        logs = linkage.linked(original, releases, list(sensitive))
        attacks = tuple(linkage.link(*logs, randomness, settings))
    report = linkage.report_of(*logs, tuple(sensitive), settings, attacks)
    _show_report(given.form, path, *report)


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"sizes must be whole numbers, got {text!r}") from None


ACTIONS: Mapping[str, Callable[[Given], None]] = {"config": _audit, "linkage": _link}
