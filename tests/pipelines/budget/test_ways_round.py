"""Ways round a guarantee by what is public of a release; each check catches a broken build, too.

What is drawn, paid and finished after a run was cut off is for `tests/pipelines/release`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.releasing import csv_log, ledger_entries, manifest, small_release, small_rows
from tests.support.releasing import tracecloak as run
from tracecloak.pipelines.configuration import plan
from tracecloak.pipelines.configuration.plan import ReleasePlan
from tracecloak.pipelines.release import run as run_module
from tracecloak.pipelines.release.values import Run

ROWS = list(small_rows(60))


def public_facts(folder: Path, rows: list[tuple[str, str, str]]) -> dict[str, Any]:
    """What anybody sees of a release of a log, beside the numbers that were drawn."""
    folder.mkdir()
    csv_log(folder / "log.csv", rows)
    assert run(*small_release(folder, "--release_id", "r", "--formats", "parquet")) == 0
    facts = manifest(folder / "out" / "run_id=r")
    for noisy in ("came_out", "key_fingerprint"):
        facts.get("randomness", facts).pop(noisy, None)
        facts.pop(noisy, None)
    facts["outputs"] = sorted(output["path"] for output in facts["outputs"])
    return facts | {"names": sorted(path.name for path in (folder / "out").iterdir())}


def no_case_decides_what_is_public(folder: Path) -> None:
    logs = {"one": ROWS, "same": ROWS, "more": [*ROWS, ("new", "X", "2020-01-01T00:00:00Z")]}
    one, same, more = (public_facts(folder / name, rows) for name, rows in logs.items())
    for fact, value in one.items():
        if same.get(fact) == value:
            assert more.get(fact) == value, fact


def no_input_names_a_release(folder: Path) -> None:
    assert run(*small_release(folder)) == 2
    assert not (folder / "out").exists() and not ledger_entries(folder / "keys")


def no_value_of_a_filter_is_published(folder: Path) -> None:
    manifests = []
    for name in ("case", "case-1"):
        config = folder / f"{name}.yaml"
        config.write_text(f"where:\n- {{column: case_id, begins_with: {name}}}\n")
        _, *flags = small_release(folder, "--release_id", name)
        assert run("release", config, *flags) == 0
        made = folder / "out" / f"run_id={name}"
        texts = [path.read_bytes() for path in made.iterdir() if path.suffix in (".json", ".md")]
        assert not any(b"begins_with" in text for text in texts)
        manifests.append(manifest(made))
    assert manifests[0]["config_digest"] == manifests[1]["config_digest"]


def telling_manifest(of: Run, made: Any = run_module.manifest_of) -> Any:
    """Has a digest of the log."""
    return replace(made(of), config_digest=f"{Path(of.plan.keys.log[0]).stat().st_size:064x}")


def telling_job(of: Run, made: Any = run_module.job_of) -> Any:
    """Has as many parts as the log says."""
    job, n = made(of), Path(of.plan.keys.log[0]).read_bytes().count(b"\n")
    return replace(job, target=replace(job.target, n_parts=1 + n % 97))


BROKEN: dict[Callable[[Path], None], list[tuple[Any, str, Any]]] = {
    no_case_decides_what_is_public: [
        (run_module, "manifest_of", telling_manifest), (run_module, "job_of", telling_job),
    ],
    no_input_names_a_release: [(ReleasePlan, "require_names", lambda _: None)],
    no_value_of_a_filter_is_published: [(plan, "without_filters", lambda config: config)],
}  # fmt: skip


@pytest.mark.parametrize("check", BROKEN)
def test_nothing_public_depends_on_what_is_private(
    check: Callable[[Path], None], tmp_path: Path
) -> None:
    check(tmp_path)
    for number, broken in enumerate(BROKEN[check]):
        folder = tmp_path / f"broken {number}"
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(*broken)
            with pytest.raises(AssertionError):
                check(folder)
