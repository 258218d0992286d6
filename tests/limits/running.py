"""Releases at the limits: which logs, with which parameters, how one of them went, and the table.

A method gets what it cannot do without, epsilon 1, and the log's activities as if they were public.
All else is left as it is by default, so lengths and clips are bought. The bounds of the table are
coarse, of a few classes, and at least twice what was measured: they tell a release that takes a
minute from one that takes an hour.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from tests.support.extremes import EXTREMES, extreme_file
from tests.support.real_logs import source_of
from tests.support.releasing import Commands, Ended, counting_charges
from tracecloak.anonymizers.registry import METHODS

TABLE = Path(__file__).with_name("table.json")
SECONDS = (30, 120, 300, 600)
MIB = (1024, 2048, 4096, 8192)
# A bound is so many times what was measured, or more.
_ROOM = 2
# Libraries and threads reserve more than they use.
_RESERVED_MIB = 4096

_REAL_LOGS: Mapping[str, str] = {
    "coselog": "coselog_receipt.xes.gz",
    "unrineweginfectie": "unrineweginfectie.xes.gz",
    "sepsis": "sepsis.xes.gz",
    "bpic2013_closed": "bpic2013_closed.xes.gz",
    "traffic_fines": "traffic_fines.parquet",
    "hospital_billing": "hospital_billing.parquet",
    "bpic2013_incidents": "bpic2013_incidents.xes.gz",
    "bpic2012": "bpic2012.xes.gz",
}

# What a method cannot do without, beside epsilon.
_NEEDED: Mapping[str, Mapping[str, Any]] = {
    "amun-rigorous": {"guessing_advantage": "0.4"},
    "laplace-variants": {"max_prefix_length": 20, "p_harmful": 20},
    "sacofa": {"max_prefix_length": 20, "p_harmful": 20, "p_harmless": 10},
    "pripel": {"max_prefix_length": 20, "p_harmful": 20},
    "pripel-rigorous": {"max_prefix_length": 20, "p_harmful": 20},
    "pappi": {"indicators": ["cases", "throughput at_most=90d", "rework"]},
    "private-indicators": {
        "indicators": ["cases", "throughput", "throughput of=0.5 at_most=90d", "rework"],
    },
}


@dataclass(frozen=True)
class Asked:
    """A log, and what is asked for beside what every method gets.

    Attributes:
        name: What the table calls it.
        file: Of a public research log, in their folder; empty: the log is made up.
        extreme: Name in EXTREMES, or empty.
        params: Parameters; a method that has not all of them is not asked.
    """

    name: str
    file: str = ""
    extreme: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)

    def is_for(self, method: str) -> bool:
        """Whether the method has the parameters."""
        return self.params.keys() <= METHODS[method].Params.model_fields.keys()

    def path(self, logs: Path | None, made: Path) -> Path:
        """Returns where the log is; makes it, in the folder `made`, if it is made up."""
        if self.extreme:
            path = made / f"{self.extreme}.parquet"
            return path if path.exists() else extreme_file(self.extreme, made)
        assert logs is not None
        return logs / self.file


ASKED: Mapping[str, Asked] = {
    asked.name: asked
    for asked in (
        *(Asked(name, extreme=name) for name in EXTREMES),
        # The longest case as a public number, which every case may have then.
        Asked("a_long_case, declared", "", "a_long_case", {"max_trace_length": 200_000}),
        *(Asked(name, file) for name, file in _REAL_LOGS.items()),
    )
}

Outcome = Literal["ends", "refused", "fails", "too slow", "too large"]


@dataclass(frozen=True)
class Tried:
    """How a release went, as the table states it.

    Attributes:
        outcome: `refused` is what the tool says in words of its own, `fails` what else went wrong.
        took_s: Seconds of processor time.
        took_mib: The most memory that it had at once.
        says: The last line that it printed, where it did not end.
    """

    outcome: Outcome
    took_s: float
    took_mib: int
    says: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether it was seen to end, so that there are bounds."""
        return self.outcome in ("ends", "refused")

    @property
    def within_s(self) -> int:
        """Seconds of processor time that may be said to be enough."""
        return _bound(self.took_s, SECONDS)

    @property
    def within_mib(self) -> int:
        """Memory that may be said to be enough, in MiB."""
        return _bound(self.took_mib, MIB)


def _bound(measured: float, classes: Sequence[int]) -> int:
    return next((own for own in classes if own >= _ROOM * measured), classes[-1])


def params_of(method: str, vocabulary: Path) -> dict[str, Any]:
    """What a method is asked for, whatever the log."""
    fields = METHODS[method].Params.model_fields
    made: dict[str, Any] = {}
    if "epsilon" in fields and "guessing_advantage" not in fields:
        made["epsilon"] = "1"
    if "vocabulary" in fields:
        made["vocabulary"] = str(vocabulary)
    return {**made, **_NEEDED.get(method, {})}


def vocabulary_of(log: Path, folder: Path) -> Path:
    """Writes the activities of a log, as if they were public; returns the path."""
    source = source_of(log.parent, log.name)
    names: set[str] = set()
    for events, _ in source.read(source.files[0]):
        names.update(events.column("activity").unique().to_pylist())
    path = folder / f"{log.name}.txt"
    path.write_text("\n".join(sorted(names)) + "\n", encoding="utf-8")
    return path


def try_release(
    commands: Commands,
    method: str,
    asked: Asked,
    log: Path,
    vocabulary: Path,
    folder: Path,
    max_cpu_s: int,
    max_mib: int,
) -> tuple[Tried, bool]:
    """Tries a release in an empty folder, and ends it where it takes more than it may.

    Returns:
        How it went, and whether anything of the log was read or paid for.
    """
    body = {
        "log": str(log),
        "output": str(folder / "out"),
        "key_store": str(folder / "keys"),
        "release_id": "limits",
        "method": method,
        "params": {**params_of(method, vocabulary), **asked.params},
        "runner": "InMemory",
    }
    (folder / "release.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    took = commands.run(
        "release",
        folder / "release.yaml",
        max_cpu_s=max_cpu_s,
        max_mib=max_mib + _RESERVED_MIB,
    )
    outcome = _outcome(took, max_mib)
    says = "" if outcome == "ends" else (took.text.splitlines() or [""])[-1]
    is_begun = bool(counting_charges(folder / "keys")) or "reading; what is found" in took.text
    return Tried(outcome, round(took.cpu_s, 1), took.peak_mib, says), is_begun


def _outcome(took: Ended, max_mib: int) -> Outcome:
    if took.code in (-signal.SIGXCPU, -signal.SIGALRM, -signal.SIGKILL):
        return "too slow"
    if "MemoryError" in took.text or took.peak_mib > max_mib:
        return "too large"
    if took.code in (2, 5):
        return "refused"
    return "ends" if took.code == 0 else "fails"


def read_table() -> dict[tuple[str, str], Tried]:
    """What table.json says, by method and log."""
    found = json.loads(TABLE.read_text(encoding="utf-8"))
    return {(method, log): Tried(**own) for method, of in found.items() for log, own in of.items()}


def write_table(table: Mapping[tuple[str, str], Tried]) -> None:
    """Writes table.json, a line for each release."""
    blocks = []
    for method in sorted({method for method, _ in table}):
        of_method = {log: asdict(own) for (of, log), own in sorted(table.items()) if of == method}
        rows = (
            f"  {json.dumps(log)}: {json.dumps({k: v for k, v in own.items() if v != ''})}"
            for log, own in of_method.items()
        )
        blocks.append(f" {json.dumps(method)}: {{\n" + ",\n".join(rows) + "\n }")
    TABLE.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")


def as_text(table: Mapping[tuple[str, str], Tried]) -> str:
    """The table as Markdown: a row for each method, a column for each log, bounds in the cells."""
    lines = ["| method | " + " | ".join(ASKED) + " |", "|---" * (len(ASKED) + 1) + "|"]
    for method in sorted({method for method, _ in table}):
        cells = [_cell(table.get((method, log))) for log in ASKED]
        lines.append(f"| `{method}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(own: Tried | None) -> str:
    if own is None or own.outcome != "ends":
        return "" if own is None else own.outcome
    return f"{own.took_s:.1f} s, {own.took_mib} MiB"
