"""The commands that make reports: of private data for the operator only, or of a release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tracecloak.schemas.errors import UsageError


def attack(config_path: str | None, flags: dict[str, Any]) -> int:
    """Audits a release's configuration; raises GuaranteeError where its claim is refuted."""
    from tracecloak.pipelines.attack.report import summary_lines, write_report
    from tracecloak.pipelines.attack.run import DEFAULT_RELEASES, attack_configuration
    from tracecloak.pipelines.commands.progress import showing_progress
    from tracecloak.pipelines.release.config import load
    from tracecloak.schemas.errors import GuaranteeError

    path = _file_to_write("report", flags.pop("report"))
    n_releases = flags.pop("releases", DEFAULT_RELEASES)
    # Nothing is released, so it does not matter where to.
    config = load(config_path, {**flags, "output": "nowhere"})
    with showing_progress(with_runner=False):
        report = attack_configuration(config, n_releases)
    written = write_report(report, path)
    print("\n".join(summary_lines(report)))
    print(f"report     {' and '.join(map(str, written))}")
    if report.is_refuted:
        raise GuaranteeError(report.verdict)
    return 0


def linkage_attack(flags: dict[str, Any]) -> int:
    """Attacks finished releases by what somebody may know of a case."""
    from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
    from tracecloak.pipelines.commands.progress import showing_progress
    from tracecloak.pipelines.linkage import logs as linkage_logs
    from tracecloak.pipelines.linkage import report as linkage_report
    from tracecloak.pipelines.linkage import run as linkage
    from tracecloak.pipelines.linkage.knowledge import Settings
    from tracecloak.pipelines.measure.perspectives import RESOURCE
    from tracecloak.pipelines.release.config import load_source
    from tracecloak.pipelines.release.run import source_of

    del flags["linkage"]
    path = _file_to_write("report", flags.pop("report"))
    given: dict[str, Any] = {}
    if (unit := flags.pop("time_unit", None)) is not None:
        given["unit"] = unit
    if (samples := flags.pop("samples", None)) is not None:
        given["n_samples"] = samples
    if (sizes := flags.pop("sizes", None)) is not None:
        given["sizes"] = tuple(map(_whole_number, _listed(sizes)))
    settings = Settings(**given)
    sensitive = linkage_logs.sensitive_columns(flags.pop("sensitive", ""))
    paths = flags.pop("released")
    source = source_of(load_source({"input": flags.pop("original"), **flags}))
    with showing_progress(with_runner=False):
        names = [RESOURCE, *sensitive]
        releases = [linkage_logs.read_released(released, names) for released in paths]
        original = linkage_logs.read_original(source, sensitive)
        logs = linkage_logs.linked(original, releases, list(sensitive))
        randomness = Randomness(ReleaseKey.generate(), "linkage", "", "")
        found = tuple(linkage.link(*logs, randomness, settings))
    report = linkage_report.LinkageReport(*logs, tuple(sensitive), settings, found)
    written = linkage_report.write_report(report, path)
    print("\n".join(linkage_report.summary_lines(report)))
    print(f"report     {' and '.join(map(str, written))}")
    return 0


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"sizes must be whole numbers, got {text!r}") from None


def evaluate_release(flags: dict[str, Any]) -> int:
    """Compares a release with its original."""
    from tracecloak.pipelines.measure.evaluate import evaluate
    from tracecloak.pipelines.release.config import load_source
    from tracecloak.pipelines.release.run import source_of

    output = _file_to_write("output", flags.pop("output"))
    released = flags.pop("released")
    original = load_source({"input": flags.pop("original"), **flags})
    report = evaluate(source_of(original), released)
    output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"evaluation  {output} (not private: for the operator only)")
    return 0


def mine_release(flags: dict[str, Any]) -> int:
    """Mines a process tree of a release."""
    from tracecloak.pipelines.measure.mine import mine

    folder = Path(flags.pop("output"))
    _file_to_write("output", str(folder / "tree.json"))
    mined = mine(flags.pop("released"), **flags)
    mined.write(folder)
    print(f"tree      {mined.tree.text}")
    print(f"promise   {mined.guarantee}")
    print(f"files     {folder}/tree.json, .tree, .ptml, .pnml, .bpmn, .svg")
    return 0


def compare_methods(flags: dict[str, Any]) -> int:
    """Compares methods at the same true epsilon."""
    from tracecloak.pipelines.commands.progress import showing_progress
    from tracecloak.pipelines.experiments import compare, compare_report
    from tracecloak.pipelines.experiments.compare_log import Original
    from tracecloak.pipelines.release.config import load_source
    from tracecloak.pipelines.release.run import source_of

    command = compare_report.command_line(flags)
    page = _file_to_write("output", flags.pop("output"))
    rows = page.with_suffix(".jsonl")
    inputs = _listed(flags.pop("input"))
    methods = flags.pop("methods", None)
    chosen = compare.chosen_methods(None if methods is None else _listed(methods))
    epsilons = flags.pop("epsilon", None)
    settings = {
        "epsilons": compare.DEFAULT_EPSILONS if epsilons is None else tuple(_listed(epsilons)),
        "delta": flags.pop("delta", compare.DEFAULT_DELTA),
        "repetitions": flags.pop("repetitions", compare.DEFAULT_REPETITIONS),
        "mined": flags.pop("mine", 0),
    }
    originals = tuple(
        Original.read(
            Path(path).name.split(".")[0], source_of(load_source({"input": path, **flags}))
        )
        for path in inputs
    )
    comparison = compare.Comparison(originals, chosen, **settings)
    with showing_progress(with_runner=False):
        made = compare.run(comparison, rows)
        lines = compare_report.markdown_lines(comparison, made, command)
        page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"page  {page} (not private: for the operator only)")
    print(f"rows  {rows}")
    return 0


def experiment_on_logs(flags: dict[str, Any]) -> int:
    """Runs a paper's evaluation."""
    from tracecloak.pipelines.commands.progress import showing_progress
    from tracecloak.pipelines.experiments import report as experiment_report
    from tracecloak.pipelines.experiments import run as experiment
    from tracecloak.pipelines.release.config import load_source
    from tracecloak.pipelines.release.run import source_of

    name, inputs = flags.pop("name"), flags.pop("logs")
    command = experiment_report.command_line(name, inputs, flags)
    folder = Path(flags.pop("output"))
    methods = flags.pop("methods", None)
    known = {flag.name for kind in experiment.GRIDS.values() for flag in kind.flags}
    own = {flag: flags.pop(flag) for flag in list(flags) if flag in known}
    grid = experiment.grid_named(name, own)
    repetitions = flags.pop("repetitions", grid.repetitions)
    settings = {
        "methods": None if methods is None else _listed(methods),
        "repetitions": repetitions,
        "mined": flags.pop("mine", repetitions),
        "patience": flags.pop("patience", experiment.DEFAULT_PATIENCE),
    }
    experiment_report.require_matplotlib()
    logs = tuple(
        experiment.read_log(
            Path(path).name.split(".")[0], source_of(load_source({"input": path, **flags})), grid
        )
        for path in inputs
    )
    wanted = experiment.Experiment(grid, logs, **settings)
    _file_to_write("output", str(folder / experiment.ROWS))
    with showing_progress(with_runner=False):
        rows = experiment.run(wanted, folder / experiment.ROWS)
        experiment.write_parquet(rows, folder / experiment.TABLE)
        page, *images = experiment_report.write_report(wanted, rows, command, folder)
    if wanted.left_out:
        print(f"left out  {', '.join(wanted.left_out)} (not in this installation)")
    print(f"page  {page}, with {len(images)} charts (not private: for the operator only)")
    print(f"rows  {folder / experiment.TABLE}, {folder / experiment.ROWS}")
    return 0


def _file_to_write(name: str, path: str) -> Path:
    """Makes the folder of a report before the work begins, so that none is lost at its end."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{name} {path!r} cannot be written: {error.strerror}") from None
    return Path(path)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
