"""The files of deploy/ for platforms, by what reads them: schemas, linters, Beam, tracecloak."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engines import fetching
from tracecloak.pipelines.configuration.plan import load
from tracecloak.pipelines.outcomes.metrics import METRICS
from tracecloak.pipelines.stream.plan import load_stream, resolve
from tracecloak.schemas.errors import UsageError

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGE = ROOT / "docs" / "how-to" / "deploy.md"
COMPOSE = DEPLOY / "compose" / "compose.yaml"
DOCKERFILES = sorted(DEPLOY.rglob("Dockerfile"))
CHART = DEPLOY / "helm" / "tracecloak"
# By the name of an installation: a stream and windows without Flink; a release and a stream on it.
VALUES = {path.stem: path for path in sorted((Path(__file__).parent / "values").iterdir())}
UNITS = sorted((DEPLOY / "systemd").iterdir())
CONFIGURATIONS = sorted([*DEPLOY.glob("*/release.yaml"), *DEPLOY.glob("*/stream.yaml")])
KUBERNETES = "1.30"


def of_this_environment(name: str) -> str:
    """The path of a program of a development package."""
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def compose() -> dict[str, Any]:
    return dict(yaml.safe_load(COMPOSE.read_text()))


def helm(*words: object) -> subprocess.CompletedProcess[str]:
    """What Helm makes or says of the chart; skips the test where it is not there."""
    if not fetching.has_helm():
        pytest.skip("there is no Helm; `python -m tests.engines fetch helm` builds it")
    command = [str(fetching.helm()), *map(str, words), "--kube-version", KUBERNETES]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@functools.cache
def rendered(name: str, *flags: str) -> str:
    ended = helm("template", name, CHART, "--values", VALUES[name], *flags)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def manifests(*names: str) -> list[dict[str, Any]]:
    """What the chart makes of the values of some installations, by default of all."""
    return [one for name in names or VALUES for one in yaml.safe_load_all(rendered(name)) if one]


def manifest(kind: str, name: str) -> dict[str, Any]:
    """One of them; the name of a Job has a digest of its configuration behind it."""
    pattern = re.compile(f"{name}(-[0-9a-f]{{8}})?")
    (found,) = (
        m for m in manifests() if m["kind"] == kind and pattern.fullmatch(m["metadata"]["name"])
    )
    return found


def test_helm_finds_nothing_wrong_and_notices_what_is() -> None:
    """Missing and misspelt values are named; no password is in a URL; Flink needs its cluster."""
    for values in VALUES.values():
        linted = helm("lint", CHART, "--strict", "--values", values)
        assert linted.returncode == 0, linted.stdout

    def refused(name: str, *flags: str) -> str:
        ended = helm("template", name, CHART, "--values", VALUES[name], *flags)
        assert ended.returncode != 0
        return ended.stderr

    for flags, words in (
        (("--set", "image.registry="), ("registry",)),
        (("--set", "image.digests.tracecloak=sha256:1"), ("digests", "tracecloak")),
        (("--set", "windows.schedul=3"), ("schedul",)),
        (("--set", "stream.configuration.horizon=null"), ("stream", "configuration", "horizon")),
        (("--set", "stream.configuration.ledger=postgresql+psycopg://a:b@h/x"), ("ledger",)),
        (("--set", "stream.configuration.runner=FlinkRunner"), ("flink", "enabled")),
        (("--set", "stream.configuration.operator_port=1"), ("operator_port",)),
    ):
        said = refused("local", *flags)
        assert all(word in said for word in words), said


# --- By schemas and linters -------------------------------------------------------------------


def checked_by_compose(body: Mapping[str, Any], folder: Path) -> int:
    made = folder / "compose.json"
    made.write_text(json.dumps(body))
    schema = ["--builtin-schema", "vendor.compose-spec"]
    return subprocess.run(
        [of_this_environment("check-jsonschema"), *schema, made], capture_output=True
    ).returncode


def test_the_composition_is_one_and_a_wrong_one_is_none(tmp_path: Path) -> None:
    body = compose()
    assert checked_by_compose(body, tmp_path) == 0
    body["services"]["kafka"]["comand"] = body["services"]["kafka"].pop("image")
    assert checked_by_compose(body, tmp_path) == 1


def test_kubernetes_takes_every_manifest_and_no_wrong_one() -> None:
    kubernetes = pytest.importorskip("kubernetes_validate")
    others = (one for one in manifests() if one["kind"] != "FlinkDeployment")
    for one in (*others, *pods_of_flink()):
        kubernetes.validate(one, KUBERNETES, strict=True)
    wrong = manifest("Job", "flink-release")
    wrong["spec"]["template"]["spec"]["container"] = []
    with pytest.raises(kubernetes.ValidationError):
        kubernetes.validate(wrong, KUBERNETES, strict=True)


def pods_of_flink() -> Iterator[dict[str, Any]]:
    """The pods of the Flink cluster, as far as its templates say."""
    spec = manifest("FlinkDeployment", "flink-flink")["spec"]
    for template in (spec["podTemplate"], spec["taskManager"]["podTemplate"]):
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "flink"}, **template}


def systemd_says(units: Sequence[Path]) -> str:
    """What systemd finds wrong with units, which it does not start."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd-analyze on this machine")
    said = subprocess.run(
        [program, "verify", "--man=no", *units], capture_output=True, text=True, timeout=60
    )
    return said.stdout + said.stderr


def test_systemd_takes_the_units_and_no_wrong_one(tmp_path: Path) -> None:
    """As those of one configuration, with a program that is there."""
    made = []
    for unit in UNITS:
        made.append(tmp_path / unit.name.replace("@.", "@ward."))
        made[-1].write_text(unit.read_text().replace("/opt/tracecloak/bin/tracecloak", "/bin/true"))
    assert systemd_says(made) == ""
    for wrong, right in (("on-faliure", "on-failure"), ("2:71", "02:17")):
        for unit in made:
            text = unit.read_text()
            unit.write_text(text.replace(right, wrong))
            assert (wrong in systemd_says([unit])) == (right in text)
            unit.write_text(text)


def test_a_scheduler_stops_where_a_person_has_to_do_something() -> None:
    """After the same exit codes everywhere: those that the page says to stop at."""
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (A stream)?.*\| Stop\b", page, re.MULTILINE)
    of_streams = {int(code) for code, _ in rows}
    of_windows = {int(code) for code, of_a_stream in rows if not of_a_stream}
    assert of_windows == {2, 3, 4, 5, 6, 9}
    job = manifest("CronJob", "local-windows")["spec"]["jobTemplate"]["spec"]
    (rule,) = job["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob" and set(rule["onExitCodes"]["values"]) == of_windows
    assert job["template"]["spec"]["restartPolicy"] == "Never"  # as the policy asks for
    for path, pattern, codes in (
        ("systemd/tracecloak-windows@.service", r"^RestartPreventExitStatus=(.*)$", of_windows),
        ("systemd/tracecloak-stream@.service", r"^RestartPreventExitStatus=(.*)$", of_streams),
        ("airflow/tracecloak_windows.py", r"^FINAL_CODES = \((.*)\)$", of_windows),
    ):
        (stop,) = re.findall(pattern, (DEPLOY / path).read_text(), re.MULTILINE)
        assert set(map(int, re.findall(r"\d+", stop))) == codes, path


def test_a_dashboard_of_grafana_has_metrics_that_exist_and_says_whom_they_are_for() -> None:
    body = json.loads((DEPLOY / "grafana" / "tracecloak.json").read_text())
    known = {f"tracecloak_{metric.name}": metric for metric in METRICS}
    shown = set()
    for panel in body["panels"]:
        for target in panel["targets"]:
            named = re.findall(r"tracecloak_\w+", target["expr"])
            shown |= set(named)
            (metric,) = (known[name] for name in named)
            of_labels = {*metric.labels, *filter(None, [metric.by])}
            labels = re.findall(r"(\w+)=~", target["expr"])
            assert {*labels, *re.findall(r"{{(\w+)}}", target["legendFormat"])} <= of_labels
            assert metric.is_counter == target["expr"].startswith("rate(")
            is_private = "metrics_for operator" in panel["description"]
            assert is_private == (metric.audience == "operator"), panel["title"]
    (query,) = (v["query"] for v in body["templating"]["list"] if v["name"] == "config")
    assert {f"tracecloak_{name}" for name in re.findall(r"(?<=[(|])\w+(?=[|)])", query)} <= set(
        known
    )
    assert {"tracecloak_stream_lag_seconds", "tracecloak_account_epsilon_remaining"} <= shown


# --- By tracecloak and Beam -------------------------------------------------------------------


def test_tracecloak_takes_every_configuration(tmp_path: Path) -> None:
    of_files = [(p.stem, p.read_text(), "") for p in CONFIGURATIONS]
    for kind, text, _ in (*of_files, *of_chart()):
        path = tmp_path / f"{kind}.yaml"
        path.write_text(text)
        flags: dict[str, str] = {}
        if kind == "stream":
            made = load_stream(str(path), flags)
            assert resolve(made).product.explain()
            assert made.ledger is not None and made.ledger.startswith("postgresql+psycopg://")
        else:
            flags = {"window": "2027-01"} if kind == "windows" else {"release_id": "r"}
            release = load(str(path), flags)
            assert release.ledger is not None and release.ledger.startswith("postgresql+psycopg://")
        path.write_text(text + "\nleger: x\n")
        with pytest.raises(UsageError, match="leger: unknown key"):
            load_stream(str(path), flags) if kind == "stream" else load(str(path), flags)


def of_chart() -> list[tuple[str, str, str]]:
    """(Kind, text, name of the installation) of every configuration that the chart writes."""
    return [
        (Path(file).stem, text, name)
        for name in VALUES
        for one in manifests(name)
        if one["kind"] == "ConfigMap"
        for file, text in one["data"].items()
    ]


# --- Users, and images by their digests -------------------------------------------------------


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_an_image_is_of_bases_by_digests_and_does_not_run_as_root(path: Path) -> None:
    text = path.read_text()
    taken = re.findall(r"^FROM (\S+)(?: AS (\w+))?$", text, re.MULTILINE)
    copied = re.findall(r"--from=(\S+)", text)
    given = set(re.findall(r"^ARG (\w+_DIGEST)$", text, re.MULTILINE))  # without a default
    for image in {*(base for base, _ in taken), *copied} - {stage for _, stage in taken}:
        digest = re.search(r"@\$\{(\w+)\}$", image)
        assert digest is not None and digest[1] in given, image
    last = text[text.rindex("\nFROM ") :]
    users = re.findall(r"^USER (\S+)$", last, re.MULTILINE)
    assert users[-1:] not in (["0"], ["root"])
    assert users or "FROM ${TRACECLOAK" in last  # our own base has our own user


def test_the_composition_starts_nothing_without_its_digest() -> None:
    """What it builds itself is of bases by digests; all else is named by one."""
    for name, service in compose()["services"].items():
        if "build" in service:
            context = COMPOSE.parent / service["build"]["context"]
            text = (context / service["build"].get("dockerfile", "Dockerfile")).read_text()
            wanted = set(re.findall(r"^ARG (\w+_DIGEST)$", text, re.MULTILINE))
            given = service["build"]["args"]
            assert set(given) == wanted, name
            assert all(given[arg].startswith(f"${{{arg}:?") for arg in wanted), name
        else:
            assert re.fullmatch(r"[\w./-]+:[\w.-]+@\$\{\w+_DIGEST:\?[^}]+\}", service["image"]), (
                name
            )


# --- What is to be filled in, and what is secret ----------------------------------------------

PLACEHOLDER = re.compile(r"CHANGE_ME_\w+|CHANGE_ME")


def test_every_value_to_fill_in_is_explained_on_the_page_and_none_besides() -> None:
    marked = {found for path in DEPLOY.rglob("*") if path.is_file()
              for found in PLACEHOLDER.findall(path.read_text(errors="ignore"))}  # fmt: skip
    explained = set(re.findall(r"^\| `(CHANGE_ME_\w+)`", PAGE.read_text(), re.MULTILINE))
    assert marked - {"CHANGE_ME"} == explained


def test_no_secret_is_in_clear() -> None:
    """Catches a password or a key as a value: they are files, Secrets or references to these."""
    for name, service in compose()["services"].items():
        for variable, value in (service.get("environment") or {}).items():
            if re.search("PASSWORD|SECRET|_KEY", variable):
                assert value.startswith(("/run/secrets/", "file:/run/secrets/")), (name, variable)
    for one in (*manifests(), *pods_of_flink()):
        for variable in variables_of(one):
            if re.search("PASSWORD|SECRET|_KEY", variable["name"]):
                assert "secretKeyRef" in variable.get("valueFrom", {}) or re.fullmatch(
                    "env:[A-Z_]+", variable["value"]
                ), variable["name"]
    assert not any(one["kind"] == "Secret" for one in manifests())
    for text in (*(path.read_text() for path in CONFIGURATIONS), *(one[1] for one in of_chart())):
        assert not re.search(r"://[^/@\s]*:[^/@\s]*@", text)
    assert "/deploy/compose/secrets/" in (ROOT / ".gitignore").read_text().splitlines()


def variables_of(body: Any) -> Iterator[dict[str, Any]]:
    if isinstance(body, list):
        for part in body:
            yield from variables_of(part)
    elif isinstance(body, dict):
        yield from body.get("env", ())
        for part in body.values():
            yield from variables_of(part)
