"""Releases of everything that there is, under one key, and the digests of what they are made of.

`python -m tests.golden.releases` records them in golden.json, and what each version of a method is
in defaults.json (`make golden`); test_golden.py and test_versions.py compare with these. Who
records anew says in the commit which releases changed and why.
"""

from __future__ import annotations

import csv
import functools
import gzip
import hashlib
import importlib.metadata
import io
import json
import random
import sys
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml

from tests.support import stream_runs
from tests.support.examples import examples_of
from tests.support.releasing import fix_key, tracecloak
from tracecloak.anonymizers.registry import METHODS
from tracecloak.examination.demo.hospital import write_sample
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.publish.release_folder import REPORT_NAME

RECORDED = Path(__file__).with_name("golden.json")
EXIT_CODE = "exit code"
"""The entry of a release that its method refuses."""
_DISTRIBUTIONS = ("pyarrow", "numpy", "scipy", "fastavro")
_VARIANTS = ("ABC", "ABC", "AB", "ABBC", "AC", "ABAB", "CBA", "ABCD")
_DAY_S = 86_400
# Columns that say what the others are: they follow from these, and have no noise of their own.
_WORDS = ("kind", "usable", "grade")
# Of a step's counts these follow from the count and its standard error.
_LIMITS = ("low", "high")
HEADER = ("case_id", "activity", "timestamp", "person", "who", "age", "diagnosis", "cost")
_COLUMNS = {
    "org:resource": "who",
    "case:age": "age",
    "case:diagnosis": "diagnosis",
    "cost:units": "cost",
}


@dataclass(frozen=True)
class Digests:
    """SHA-256 of one file: of its bytes, and of the rows or the text in it."""

    of_bytes: str
    of_rows: str


def versions() -> dict[str, str]:
    """What the bytes of a file depend on beside its content, or its content to the last digit."""
    found = {name: importlib.metadata.version(name) for name in _DISTRIBUTIONS}
    return {**found, "zlib": zlib.ZLIB_RUNTIME_VERSION}


def scenarios() -> dict[str, Callable[[Path], dict[str, Digests]]]:
    """All that is recorded, by name: makes files in a folder and returns their digests by path."""
    made: dict[str, Callable[[Path], dict[str, Digests]]] = {
        name: functools.partial(release, method=method, example=example)
        for name, (method, example) in releases_of_methods().items()
    }
    for name, changes in _STREAMS.items():
        made[f"stream of {name}"] = _stream(changes)
    for ending in ("xes", "xes.gz", "csv", "csv.gz", "jsonl", "jsonl.gz", "parquet", "avro"):
        made[f"sample as {ending}"] = _sample(ending)
    return made


def releases_of_methods() -> dict[str, tuple[str, Mapping[str, Any]]]:
    """What is recorded of methods, by name: the method and its parameters."""
    made: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for name, method in METHODS.items():
        for number, example in enumerate(examples_of(method)):
            made[f"{name} {number}"] = name, example
        for change in FURTHER.get(name, ()):
            made[f"{name}{WITH}{_told(change)}"] = name, {**method.examples[0], **change}
    return made


# --- What is released -----------------------------------------------------------------------------


def log_file(folder: Path, *, has_starts: bool = False) -> Path:
    """A log of 400 cases of some 130 people, with attributes, that looks the same everywhere.

    Args:
        folder: Where to write it.
        has_starts: Whether there is a column of when events began, each at a full half hour.
    """
    draw = random.Random("golden")
    path = folder / "log.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow((*HEADER, "begun") if has_starts else HEADER)
        for case in range(400):
            second = draw.randrange(300 * _DAY_S)
            for activity in draw.choice(_VARIANTS):
                writer.writerow(
                    [
                        case, activity, _stamp(second), f"p{case // 3}", f"R{1 + case % 3}",
                        case % 90, "ABC"[case % 7 % 3], draw.randrange(500),
                        *([_stamp(second - second % 1800)] if has_starts else []),
                    ]
                )  # fmt: skip
                second += draw.randrange(1, 2 * _DAY_S)
    return path


def _stamp(second: int) -> str:
    day, rest = divmod(second, _DAY_S)
    month, of_month = divmod(day, 28)
    year, of_year = divmod(month, 12)
    hour, rest = divmod(rest, 3600)
    return (
        f"{2020 + year}-{of_year + 1:02}-{of_month + 1:02}"
        f"T{hour:02}:{rest // 60:02}:{rest % 60:02}+00:00"
    )


def example_config(
    folder: Path, method: str, example: Mapping[str, Any], log: str | Path
) -> dict[str, Any]:
    """The configuration of a release in memory of an example of a method, of a log like ours."""
    params = json.loads(json.dumps(example))
    columns = {"resource": "who"}
    if params.get("max_cases_per_individual") is not None:
        columns["individual_id"] = "person"
    declared = [
        params.get(key) or {} for key in ("attributes", "resources", "sensitive", "duration")
    ]
    for name, given in [item for section in declared for item in section.items()]:
        given["column"] = _COLUMNS[name]
    if "indicators" in params:  # which say themselves what they read
        read = METHODS[method].attributes(METHODS[method].Params(**example))
        if read:
            params["attribute_columns"] = {own.name: _COLUMNS[own.name] for own in read}
    if params.pop("service_times", False):
        columns["start_timestamp"] = "begun"
    words = params.pop("vocabulary", None)
    if words is not None:
        params["vocabulary"] = str(folder / "vocabulary.txt")
        (folder / "vocabulary.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    return {
        "log": str(log), "output": str(folder / "out"), "key_store": str(folder / "keys"),
        "release_id": "golden", "method": method, "params": params, "columns": columns,
        "formats": ["parquet", "xes", "csv"], "parts": 2, "runner": "InMemory",
    }  # fmt: skip


def run_example(
    folder: Path,
    method: str,
    example: Mapping[str, Any],
    log: str | Path,
    *flags: object,
    **changes: Any,
) -> int:
    """Releases it, with other keys of the configuration; of None there is no key."""
    body = {**example_config(folder, method, example, log), **changes}
    body = {name: value for name, value in body.items() if value is not None}
    (folder / "release.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    return tracecloak("release", folder / "release.yaml", *flags)


# By method: what takes the place of parameters of its first example. The examples of the methods
# and these have every choice that a parameter names at least once (test_golden.py).
WITH = " with "
FURTHER: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "amun": (
        {"mode": "filtering"},
        {"mode": "oversampling", "guessing_advantage": 0.4},
        {"mode": "oversampling", "profile": "paper", "guessing_advantage": 0.4},
        {"correlated_times": True},
        {"profile": "paper"},
        {"profile": "tables"},
        *({"compression": name} for name in ("starts", "equation_4", "none")),
    ),
    "private-dfg": ({"closed_vocabulary": True, "vocabulary": ("A", "B", "C", "D")},),
    "dpim": ({"epsilon": "50", "fitness_measure": "tokens"},),
    "variant-histogram": ({"epsilon": "8", "noise": "truncated"},),
    "private-log": (
        {"granularity": "minute", "closed_vocabulary": True, "vocabulary": ("A", "B", "C", "D")},
        *({"granularity": name} for name in ("microsecond", "millisecond", "hour")),
        {"service_times": True},
        {"granularity": "day"},
        *({"times_by": name} for name in ("activity", "case")),
        {"variants": "joint-variants", "groups": {"A": "first", "B": "first"}},
        {"group_separator": "_", "group_depth": 1},
    ),
    "private-indicators": (
        {"service_times": True, "indicators": ("cases", "working activity=B at_most=1d of=0.9")},
    ),
    "joint-variants": ({"group_separator": "_", "group_depth": 1},),
    "laplace-variants": ({"profile": "paper"},),
    "sacofa": ({"profile": "paper"}, {"p_harmful": "inf"}),
    "k-anonymous-variants": (
        {"perspective": "resource", "resources": {"org:resource": {"values": ["R1", "R2"]}}},
    ),
    "tlkc": (
        {"profile": "paper"},
        {"knowledge_kind": "set"},
        {"knowledge_kind": "multiset"},
        *({"time_unit": name} for name in ("seconds", "minutes")),
    ),
    "pretsa": (
        {"protect_ends": False},
        {"starts": "kept"},
        {"closeness": "input"},
        *(
            {"distance": "embedding", "epochs": 5, "t": 0.9, "penalty_direction": direction}
            for direction in ("paper_formula", "authors_code")
        ),
    ),
}  # fmt: skip


def _told(change: Mapping[str, Any]) -> str:
    """Parameters for a name: those that are lists or parts are not among them."""
    return ", ".join(f"{n} {v}" for n, v in change.items() if not isinstance(v, tuple | dict))


def release(
    folder: Path,
    method: str,
    example: Mapping[str, Any],
    *flags: object,
    n_files: int = 1,
    **changes: Any,
) -> dict[str, Digests]:
    """Releases an example of a method into a folder.

    Args:
        folder: Gets the log, the configuration and the release.
        method: Name of the method.
        example: Its parameters.
        flags: Of the command.
        n_files: How many files the log has; cases are cut across several, of two formats.
        changes: Other keys of the configuration; of None there is no key.
    """
    folder.mkdir(exist_ok=True)
    log = log_file(folder, has_starts=bool(example.get("service_times")))
    if n_files > 1:
        head, *lines = log.read_text(encoding="utf-8").splitlines()
        log.unlink()
        log = folder / "log"
        log.mkdir(exist_ok=True)
        for first in range(n_files):
            own = lines[first::n_files]
            rows = [dict(zip(head.split(","), line.split(","), strict=True)) for line in own]
            ending, text = (
                ("jsonl", map(json.dumps, rows)) if first % 2 else ("csv", iter([head, *own]))
            )
            (log / f"{first}.{ending}").write_text("\n".join(text) + "\n", encoding="utf-8")
    code = run_example(folder, method, example, log, *flags, **changes)
    assert code != UsageError.exit_code, "a configuration that is refused releases nothing"
    if code != 0:
        return {EXIT_CODE: Digests(str(code), str(code))}
    return digests_of(files_under(folder / "out" / "run_id=golden"))


_STREAMS: Mapping[str, Mapping[str, Any]] = {
    "graphs": {},
    "graphs without delta": {"delta": "0"},
    "graphs in total": {"view": "total"},
    "sliding graphs": {"view": "sliding", "sliding_steps": 3},
    "variants": {"product": "variants", "epsilon": "20"},
    "indicators": {"product": "indicators", "indicators": ["cases", "rework"]},
    "indicators in total": {
        "product": "indicators", "view": "total",
        "indicators": ["cases", "throughput of=0.5 at_most=20s", "rework"],
    },
    "variants in total": {"product": "variants", "view": "total", "epsilon": "40"},
    "graphs of individuals": {"individual_id": "person", "max_cases_per_individual": 2},
    "logs": {
        "product": "log", "horizon": 2, "epsilon": "40", "n_duration_bins": 4,
        "first_date": "1970-01-01", "last_date": "1970-01-02", "l2_clip": "4",
    },
}  # fmt: skip


def _stream(changes: Mapping[str, Any]) -> Callable[[Path], dict[str, Digests]]:
    def made(folder: Path) -> dict[str, Digests]:
        sent = stream_runs.random_messages(120)
        if changes.get("product") != "log":  # many alike, so that some variants pass
            sent += [
                stream_runs.Sent(i % 40, f"d{i}", name, name)
                for i in range(80)
                for name in ("A", "END")
            ]
        if "individual_id" in changes:
            sent = [s._replace(individual=f"p{s.case[:2]}") for s in sent]
        config = stream_runs.stream_config(folder, **changes)
        with pytest.MonkeyPatch.context() as patch:
            fix_key(patch)
            stream_runs.run(config, stream_runs.in_time(sent, 80))
        return digests_of(stream_runs.files_of(config))

    return made


def _sample(ending: str) -> Callable[[Path], dict[str, Digests]]:
    def made(folder: Path) -> dict[str, Digests]:
        write_sample(60, str(folder / f"log.{ending}"))
        return digests_of(files_under(folder))

    return made


def files_under(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by its path there."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# --- Digests --------------------------------------------------------------------------------------


def digests_of(files: Mapping[str, bytes]) -> dict[str, Digests]:
    """Digests by path; of manifests without the version of the tool and what depends on others."""
    return {path: _digest(path, data) for path, data in files.items()}


def _digest(path: str, data: bytes) -> Digests:
    name = path.rpartition("/")[2]
    if name in ("manifest.json", "step.json") or (
        name.startswith("step-") and name.endswith(".json")
    ):
        data, rows = _of_json(json.loads(data))
        return Digests(_sha256(data), _sha256(rows))
    if name == REPORT_NAME:
        data = data_of(data)
    rows = _content(name, data)
    return Digests(_sha256(data), _sha256(rows))


def _of_json(body: dict[str, Any]) -> tuple[bytes, bytes]:
    """(with the digests of other files, without them); the tool's version is in neither."""
    body.pop("tool", None)
    # What a page looks like is no part of a release; its data are recorded as its own.
    if "outputs" in body:
        body["outputs"] = [file for file in body["outputs"] if file["path"] != REPORT_NAME]
    exact = json.dumps(body, sort_keys=True).encode()
    body.pop("outputs", None)
    return exact, json.dumps(body, sort_keys=True).encode()


def _content(name: str, data: bytes) -> bytes:
    if name.endswith(".gz"):
        return _content(name.removesuffix(".gz"), gzip.decompress(data))
    if name.endswith(".parquet"):
        table = pq.read_table(io.BytesIO(data))
        if {"count", "indicator"} & {*table.schema.names}:
            left_out = _WORDS + (_LIMITS if "standard_error" in table.schema.names else ())
            table = table.drop_columns([n for n in left_out if n in table.schema.names])
        if "event_index" in table.schema.names:
            # Numbers are no part of what is drawn: versions before 0.2 had seconds in their place.
            seconds = pc.subtract(table["event_index"], 1).cast(pa.timestamp("s", "UTC"))
            table = table.set_column(2, "timestamp", seconds.cast(pa.timestamp("us", "UTC")))
        return json.dumps([table.schema.names, table.to_pylist()], default=str).encode()
    if name.endswith(".avro"):
        return json.dumps(list(fastavro.reader(io.BytesIO(data))), default=str).encode()
    return data


def data_of(page: bytes) -> bytes:
    """Returns the data of a page as its scripts read them."""
    return page.split(b'<script type="application/json" id="data">')[1].split(b"</script>")[0]


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- Recording ------------------------------------------------------------------------------------


def recorded() -> dict[str, Any]:
    """What golden.json holds: `versions`, and `digests` by scenario and path."""
    return dict(json.loads(RECORDED.read_text(encoding="utf-8")))


def as_json(found: Mapping[str, Digests]) -> dict[str, list[str]]:
    """Digests as golden.json has them: one text where rows are the bytes."""
    return {
        path: [d.of_bytes] if d.of_bytes == d.of_rows else [d.of_bytes, d.of_rows]
        for path, d in sorted(found.items())
    }


def record(names: Sequence[str] = ()) -> None:
    """Writes golden.json, anew for the scenarios of these names or for all, and defaults.json.

    Raises:
        ValueError: A method is not what its version was: nothing is written.
    """
    from tests.golden import versions as of_methods

    body: dict[str, Any] = recorded() if names else {"digests": {}}
    body["versions"] = versions()
    for name, made in scenarios().items():
        if names and name not in names:
            continue
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            fix_key(patch)
            body["digests"][name] = as_json(made(Path(folder)))
    of_methods.record(body["digests"])
    RECORDED.write_text(json.dumps(body, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record(sys.argv[1:])
