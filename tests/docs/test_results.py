"""The results on public logs: the JSON is whole, and pages and README say what is in it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from docs.hooks import commands, results
from tests.support.documents import ROOT
from tracecloak.examination.comparison import report
from tracecloak.examination.comparison.compare import LINES
from tracecloak.examination.comparison.original import COLUMNS, DISCLOSURE
from tracecloak.examination.comparison.report import LogResults
from tracecloak.examination.measure.registry import MEASURES

COMPARED = results.comparison()


def rows_of(text: str) -> Iterator[list[str]]:
    """The cells of all rows of tables, without bold and italics."""
    for line in text.splitlines():
        if line.startswith("| "):
            yield [cell.strip().strip("*") for cell in line.strip("|").split("|")]


def log_named(name: str) -> LogResults:
    return next(log for log in COMPARED.logs if log.name == name)


def medians(method: str, measure: str, epsilon: str = "1") -> dict[str, float]:
    """By log, where it was computed."""
    return {
        log.name: quartiles[0]
        for log in COMPARED.logs
        for release in log.releases
        if (release.method, release.epsilon) == (method, epsilon)
        and (quartiles := release.figures[measure]) is not None
    }


def test_every_release_has_every_figure_in_its_range() -> None:
    assert results.FILE.read_text(encoding="utf-8") == COMPARED.to_text()
    assert len(COMPARED.logs) == 8 and COMPARED.epsilons == ("0.1", "0.5", "1", "2", "4")
    for log in COMPARED.logs:
        assert [line.name for line in log.lines] == list(LINES)
        runs = [(release.method, release.epsilon) for release in log.releases]
        methods = {method for method, _ in runs}
        assert len(methods) == 14 and len(set(runs)) == len(runs)
        assert set(runs) == {(m, epsilon) for m in methods for epsilon in COMPARED.epsilons}
        for release in log.releases:
            columns = () if release.refused else (*COLUMNS[release.kind], "seconds")
            # What somebody could learn was measured in later runs alone.
            assert tuple(release.figures) == tuple(c for c in columns if c not in DISCLOSURE)
            assert release.n_releases == (0 if release.refused else COMPARED.n_repetitions)
        for figures in (one.figures for one in (*log.releases, *log.lines)):
            for name, quartiles in figures.items():
                if quartiles is not None:
                    median, low, high = map(MEASURES[name].checked, quartiles)
                    assert low is not None and high is not None and median is not None
                    assert low <= median <= high, (log.name, name)


def test_the_command_is_one_that_can_be_typed_now() -> None:
    """Catches flags that were renamed since the results were computed."""
    program, command, *flags = shlex.split(COMPARED.command)
    assert (program, command) == ("tracecloak", "compare")
    typed = vars(commands.parser_of(command).parse_args(flags))
    assert tuple(typed["epsilons"].split(",")) == COMPARED.epsilons
    assert typed["delta"] == COMPARED.delta and typed["repetitions"] == COMPARED.n_repetitions
    assert [Path(log).name.split(".")[0] for log in typed["log"].split(",")] == [
        log.name for log in COMPARED.logs
    ]
    assert (
        report.command_line(["compare"], {n: v for n, v in typed.items() if v}) == COMPARED.command
    )


def test_the_figures_of_the_readme_are_those_of_the_json() -> None:
    table = {row[1].strip("`"): row[2] for row in rows_of((ROOT / "README.md").read_text())
             if len(row) == 3}  # fmt: skip
    graph = medians("private-dfg", "edge_relative_error")
    ends = (min(graph, key=lambda log: graph[log]), max(graph, key=lambda log: graph[log]))
    assert ends == ("traffic_fines", "sepsis")
    low, n_low, high, n_high = re.findall(r"[\d,]+(?= %| traffic| Sepsis)", table["private-dfg"])
    assert [int(n.replace(",", "")) for n in (n_low, n_high)] == [
        log_named(name).n_cases for name in ends
    ]
    assert [int(low), int(high)] == [round(100 * graph[name]) for name in ends]
    for method in ("auto-variants", "private-log"):
        found = medians(method, "variant_emd").values()
        shown = re.findall(r"0\.\d+", table[method])
        assert shown == [f"{min(found):.3f}", f"{max(found):.2f}"], method
