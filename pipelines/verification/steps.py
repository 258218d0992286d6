"""The steps of an epoch of a stream: whole, of this epoch, and the same in all their forms."""

from __future__ import annotations

from dataclasses import replace

from tracecloak.pipelines.verification.findings import NotApplicable, Wrong, shown
from tracecloak.pipelines.verification.log_forms import check_same, forms_of
from tracecloak.pipelines.verification.parquet_bounds import BoundedParquet
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import MANIFEST_NAME
from tracecloak.schemas.published.step import StepIndicators, StepRelease

_ENDINGS = (".json", "/step.json")


def check_steps(received: Received) -> str:
    """Every step that is there is of this epoch, and its forms say the same.

    Raises:
        Wrong: One is not, or they do not.
        NotApplicable: There is no step yet.
    """
    n_found = 0
    for number, forms in received.steps():
        _check_step(received, number, forms)
        n_found += 1
    if not n_found:
        raise NotApplicable("No step has been published yet.")
    n_steps = received.body["stream"]["n_steps"]
    return f"{n_found:,} of the {n_steps:,} steps are there, each the same in all its forms."


def _check_step(received: Received, number: int, forms: dict[str, str]) -> None:
    path = next((forms[ending] for ending in _ENDINGS if ending in forms), None)
    if path is None:
        raise Wrong(f"{shown(forms.values())}: the step has no JSON file, which is written last.")
    body = received.folder.json(path)
    stream, params = received.body["stream"], received.body["params"]
    name, _, epoch = received.body["release_id"].partition("@")
    expected = {
        "release_id": name,
        "epoch": epoch,
        "product": params.get("product"),
        "view": params.get("view"),
        "step": number,
        "end_us": stream["start_us"] + (number + 1) * stream["period_us"],
        "n_steps_left": stream["n_steps"] - 1 - number,
        "epsilon": params.get("epsilon"),
        "delta": params.get("delta"),
    }
    for key, value in expected.items():
        if not isinstance(body, dict) or body.get(key) != value:
            raise Wrong(f"{shown([path])}: {key} is not as {MANIFEST_NAME} has it.")
    if expected["n_steps_left"] < 0:
        raise Wrong(f"{shown([path])}: the epoch has no step of this number.")
    if ".json" in forms:
        _check_table(received, path, forms.get(".parquet"))
        return
    logs = forms_of(received.folder, list(forms.values()), path.removesuffix("step.json"))
    schema = logs[0].schema() if logs else None
    for form in logs:
        if schema is None:
            break
        check_same(logs[0], form, schema)


def _check_table(received: Received, path: str, table_path: str | None) -> None:
    data = received.folder.read(path)
    release: StepRelease | StepIndicators
    try:
        if received.body["params"].get("product") == "indicators":
            release = StepIndicators.from_json(data)
        else:
            release = StepRelease.from_json(data)
    except UsageError:
        raise Wrong(f"{shown([path])} is no release of a step.") from None
    if release.to_json() != data or not _follows(release):
        raise Wrong(f"{shown([path])}: its intervals or figures do not follow from its counts.")
    if table_path is None:
        return
    expected = release.to_rows().to_pylist()
    with received.folder.reading(table_path) as stream:
        file = BoundedParquet(stream, len(expected))
        rows = [row for batch in file.batches() for row in batch.to_pylist()]
    if rows != expected:
        raise Wrong(f"{shown([table_path])} says something else than {shown([path])}.")


def _follows(release: StepRelease | StepIndicators) -> bool:
    """Whether intervals and figures of a graph are those that its counts give, if it has any."""
    if isinstance(release, StepIndicators) or release.product != "dfg" or release.lows is None:
        return True
    from tracecloak.anonymizers.streams.step_figures import with_intervals

    try:
        return with_intervals(replace(release, lows=None, highs=None, figures=None)) == release
    except (ArithmeticError, TypeError, ValueError):
        return False
