"""Ways round a guarantee, tried on a configuration: each check raises if one of them is open.

Copies of the configuration have a log, an output, a key store and a ledger of their own. Runs are
brought to an end by the file system alone, as where another file is in the release's place, so what
is tried is the code as it is.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.releasing import counting_charges, digests
from tracecloak.anonymizers.registry import method_named
from tracecloak.pipelines.budget.opening import officers_ledger, store_at
from tracecloak.pipelines.configuration.config import ReleaseConfig, Where
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.release.run import run_release
from tracecloak.pipelines.runners.flags import IN_MEMORY
from tracecloak.schemas.errors import TracecloakError
from tracecloak.schemas.events.declarations import Attribute
from tracecloak.schemas.published.manifest import MANIFEST_NAME
from tracecloak.transforms.publish.release_folder import LATEST_NAME, ReleaseFolder


class NotApplicable(Exception):  # noqa: N818 - a finding, not a fault
    """A check says nothing about the configuration; the text says why."""


# --- logs ---

_INVENTED = ("A", "B", "C", "D", "E", "F")
_FIRST_DAY = datetime(2020, 1, 1, tzinfo=UTC)
_STEP_US = 60_000_000
# Into so many equal steps numbers divide their bounds: their quartiles part them then.
_N_STEPS = 3
# So many cases for 1 / epsilon that common variants come out.
_CROWD = 300
_SMALLEST, _LARGEST = 300, 3_000
_COLUMNS = ("case_id", "activity", "timestamp", "resource")


@dataclass(frozen=True)
class Case:
    """One made-up case.

    Attributes:
        name: Its id.
        activities: Of its events, in order.
        individual: Whose it is; empty: of somebody who has no other case.
        is_usual: Whether its values are those of most cases.
        stamp: Written in place of every time; None: times are a minute apart.
    """

    name: str
    activities: tuple[str, ...]
    individual: str = ""
    is_usual: bool = True
    stamp: str | None = None


class MadeUp:
    """Records as a configuration reads them."""

    def __init__(self, config: ReleaseConfig) -> None:
        """Takes the configuration."""
        self._whose = config.columns.individual_id
        self._params = config.method_params
        method = method_named(config.method)
        self.names = tuple(method.bounds(self._params).vocabulary or _INVENTED)
        self._attributes = method.attributes(self._params)

    @property
    def n_usual(self) -> int:
        """How many cases a log has from which something comes out."""
        epsilon = getattr(self._params, "epsilon", None)
        wanted = _SMALLEST if epsilon is None else int(_CROWD / float(epsilon))
        return max(_SMALLEST, min(wanted, _LARGEST))

    def usual(self, n_cases: int | None = None) -> list[Case]:
        """Returns cases of a few variants."""
        names = self.names
        variants = list(dict.fromkeys((names[:4], names[:3], names[:1] + names[2:4])))
        n = self.n_usual if n_cases is None else n_cases
        return [Case(f"c{i}", variants[i % len(variants)]) for i in range(n)]

    def another(self) -> Case:
        """Returns a case that differs from all usual ones wherever one can."""
        return Case("another", self.names[::-1][:5] * 2, is_usual=False)

    def write(self, path: Path, cases: Sequence[Case], broken: Sequence[str] = ()) -> None:
        """Writes a log as CSV.

        Args:
            path: Where to.
            cases: Its cases, one after the other.
            broken: Lines that are no records, in which U+DC80 to U+DCFF stand for single bytes.
        """
        columns = [*_COLUMNS, *([self._whose] if self._whose else [])]
        columns += [a.column for a in self._attributes if a.column not in columns]
        text = io.StringIO()
        writer = csv.DictWriter(text, columns)
        writer.writeheader()
        for number, case in enumerate(cases):
            values = {
                a.column: (known := _values(a))[number % len(known) if case.is_usual else -1]
                for a in self._attributes
            }
            for step, activity in enumerate(case.activities):
                record = {
                    "case_id": case.name,
                    "activity": activity,
                    "timestamp": self._stamp(number, step) if case.stamp is None else case.stamp,
                    "resource": "R1" if case.is_usual else "R2",
                }
                whose = {self._whose: case.individual or f"p-{case.name}"} if self._whose else {}
                writer.writerow({**record, **whose, **values})
        text.writelines(f"{line}\r\n" for line in broken)
        path.write_bytes(text.getvalue().encode("utf-8", "surrogateescape"))

    def _stamp(self, number: int, step: int) -> str:
        log_time = getattr(self._params, "log_time", None)
        if log_time is None or log_time.time_range is None:
            return (_FIRST_DAY + timedelta(days=number % 28, minutes=step)).isoformat()
        open_time = log_time.working_time({})
        elapsed = number % 7 * (open_time.total_us // 8) + step * _STEP_US
        (at,) = open_time.at_us(np.array([min(elapsed, open_time.total_us - 1)]))
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(at))).isoformat()


def _values(attribute: Attribute) -> list[str]:
    """Returns values that an attribute can have, the largest number last."""
    declared = attribute.declaration
    if declared.bounds is None:
        return list(declared.values or _INVENTED)
    low, high = declared.bounds
    numbers = [low + (high - low) * k / _N_STEPS for k in range(_N_STEPS + 1)]
    return [str(round(number) if declared.whole else number) for number in numbers]


# --- a configuration and its runs -----------------------------------------------------------------


@dataclass(frozen=True)
class Ran:
    """How a release ended: its exit code, and the error without the names of scratch folders."""

    code: int
    text: str

    @property
    def told(self) -> str:
        """The two in words."""
        return f"exit code {self.code}" + (f" ({self.text})" if self.text else "")


class Trial:
    """One configuration, and scratch places to try it in.

    Args:
        config: What is copied; its input is not read.
        folder: An empty one.
        runner: Of the copies.
    """

    def __init__(self, config: ReleaseConfig, folder: Path, runner: str) -> None:
        self.config, self.runner, self.folder = config, runner, folder.resolve()
        self.is_rigorous = config.guarantee.kind == "rigorous"
        self.logs = MadeUp(config)

    def place(self, name: str, with_log: bool = True) -> Place:
        """Returns a fresh place with the usual log and a ledger in which nothing is spent."""
        place = Place(self, self.folder / name)
        place.folder.mkdir()
        officers_ledger(place.store, new=True)
        if with_log:
            place.write(self.logs.usual())
        return place


class Place:
    """A log, an output, a key store and a ledger that belong together."""

    def __init__(self, trial: Trial, folder: Path) -> None:
        self.folder, self.log = folder, folder / "log.csv"
        self.output, self.keys = folder / "out", folder / "keys"
        self._trial = trial

    def release(self, **changes: Any) -> Ran:
        """Runs the release with other values of some keys, and returns how it ended."""
        copied = {
            "log": (str(self.log),), "input_format": "csv", "output": str(self.output),
            "release_id": "r", "key_store": str(self.keys), "runner": self._trial.runner,
        }  # fmt: skip
        try:
            run_release(self._trial.config.model_copy(update={**copied, **changes}))
        except TracecloakError as error:
            return Ran(error.exit_code, str(error).replace(str(self.folder), "…"))
        return Ran(0, "")

    def cut_off(self, release_id: str = "r") -> Ran:
        """Runs a release that ends after it drew and wrote all, before any of it is visible.

        A file lies in its place, which is gone afterwards.
        """
        self.output.mkdir(exist_ok=True)
        in_the_way = self.final(release_id)
        in_the_way.write_bytes(b"")
        ran = self.release(release_id=release_id)
        in_the_way.unlink()
        return ran

    def cut_off_after_it_is_visible(self) -> Ran:
        """Runs a release that ends before the ledger notes that it is visible.

        A folder lies in the place of the pointer to the latest release, and is gone afterwards.
        """
        in_the_way = self.output / LATEST_NAME / "folder"
        in_the_way.mkdir(parents=True)
        ran = self.release()
        shutil.rmtree(in_the_way.parent)
        return ran

    def write(self, cases: Sequence[Case], broken: Sequence[str] = ()) -> None:
        """Writes the log of this place anew, with lines that are no records behind it."""
        self._trial.logs.write(self.log, cases, broken)

    def final(self, release_id: str = "r") -> Path:
        """Where a release is."""
        return self.output / f"run_id={release_id}"

    def is_visible(self) -> bool:
        """Whether the release is there."""
        return (self.final() / MANIFEST_NAME).exists()

    def manifest(self, release_id: str = "r") -> dict[str, Any]:
        """What a release says of itself."""
        body: dict[str, Any] = json.loads((self.final(release_id) / MANIFEST_NAME).read_text())
        return body

    def bytes_of(self) -> Mapping[str, str]:
        """Digests of the data of the release by the names of their files."""
        return digests(self.final())

    def bytes_built(self) -> Mapping[str, str]:
        """The same of one that was cut off before it was visible."""
        return digests(Path(self.workplace().staging))

    def workplace(self, release_id: str = "r") -> ReleaseFolder:
        """Where a release is built."""
        return ReleaseFolder(str(self.output), release_id, None, store=self.store.identity())

    @property
    def store(self) -> KeyStore:
        """The key store."""
        return store_at(str(self.keys), None, None)

    @property
    def n_paid(self) -> int:
        """How many charges count as spent."""
        return len(counting_charges(self.keys))

    @property
    def n_keys(self) -> int:
        """How many releases have a key with which they can be finished."""
        return sum(self.store.key_state(one) == "there" for one in self.store.receipts(".key"))


# --- runs that are cut off: what was drawn is paid for, and drawn once ----------------------------


def _cut_off(place: Place) -> None:
    """Cuts a release off after it drew, and looks at what is left of it."""
    ran = place.cut_off()
    assert ran.code != 0, "a release over a file in its place ended with exit code 0"
    assert place.n_paid == 1, (
        f"a run that drew noise and was cut off is charged {place.n_paid} times"
    )
    assert place.n_keys == 1, "a run was cut off after it drew noise, and its key is gone"


def _refund(trial: Trial) -> None:
    place = trial.place("refund")
    _cut_off(place)
    built = place.bytes_built()
    ran = place.release()
    assert ran.code == 0, f"the rerun on the same input ended with {ran.told}"
    released = place.bytes_of()
    assert built == released, "the rerun drew other noise: its bytes are not those of the first run"
    assert place.n_paid == 1, f"charges that count as spent after the rerun: {place.n_paid}"
    ran = place.release(release_id="another")
    assert ran.code == 0, f"a release under another id ended with {ran.told}"
    assert place.n_paid == 2, "a release under another id paid nothing"


def _changed_input(trial: Trial) -> None:
    place = trial.place("changed-input")
    _cut_off(place)
    place.write([*trial.logs.usual(), trial.logs.another()])
    for what, changes in {
        "log": {},
        "log and other parts": {"parts": trial.config.parts + 1},
    }.items():
        ran = place.release(**changes)
        assert not place.is_visible(), f"with another {what} the same key released"
        assert ran.code == 2, f"with another {what} the rerun ended with {ran.told}"
    place.write(trial.logs.usual())
    ran = place.release(parts=trial.config.parts + 1)
    assert not place.is_visible(), "with another configuration the same key released"
    assert ran.code == 2, f"with another configuration the rerun ended with {ran.told}"
    assert place.n_paid == 1, f"charges that count as spent, in place of 1: {place.n_paid}"


def _changed_decision(trial: Trial) -> None:
    place = trial.place("changed-decision")
    _cut_off(place)
    place.cut_off("other")
    others = {path.name: path.read_bytes() for path in _decisions(place, "other")}
    if not others:
        raise NotApplicable("The method decides nothing that is kept between runs.")
    for path in _decisions(place, "r"):
        path.write_bytes(others[path.name])
    ran = place.release()
    assert ran.code != 0, "what somebody put in place of a decision was released"
    assert place.n_paid == 2, f"charges that count as spent, in place of 2: {place.n_paid}"


def _decisions(place: Place, release_id: str) -> list[Path]:
    """The files of what a run that was cut off decided."""
    folder = Path(place.workplace(release_id).decisions)
    return list(folder.rglob("*.decision"))


def _lost_decision(trial: Trial) -> None:
    place = trial.place("lost-decision")
    _cut_off(place)
    built = place.bytes_built()
    shutil.rmtree(place.workplace().decisions, ignore_errors=True)
    ran = place.release()
    if ran.code != 0:
        assert place.n_paid == 1, "a rerun without what was decided was refused, and is not paid"
        return
    assert place.bytes_of() == built, "the rerun drew other noise under the same key"


def _commit(trial: Trial) -> None:
    place = trial.place("commit")
    ran = place.cut_off_after_it_is_visible()
    assert ran.code == 7, f"a run that was cut off after its rename ended with {ran.told}"
    assert place.is_visible(), "nothing is visible of a release whose files were renamed"
    assert place.n_paid == 1, f"charges of a visible release that count as spent: {place.n_paid}"
    released = place.bytes_of()
    ran = place.release()
    assert ran.code == 0, f"the run after it ended with {ran.told}"
    assert place.bytes_of() == released, "the run after it wrote other bytes"
    actions = [entry.action for entry in counting_charges(place.keys)]
    assert actions == ["commit"], f"the ledger says {', '.join(actions)} of it"
    assert place.n_keys == 0, "the key of a finished release is still there"


# --- inputs: what only the log can tell is not told by how, or whether, a run ends ----------------

_NO_PROMISE = (
    "The method promises nothing of it: it is no rigorous one, and may refuse what it finds in the "
    "log or tell whether the log changed."
)
_ODD = (
    "\x01", "\x02", "\t", "\r\n", " ", "▶", "■", "__other__", "null", "NaN", '"', "<a>&'", "]]>",
    "=1+1", "\u202e", "\U0001f600", "\ufffd", "\ufffe", "a,b;c",
)  # fmt: skip
_N_NAMES = 300
_LONG_NAME = "n" * 2_000
_LONG_CASE = 1_500
_BAD = "not readable"
# Lines that are no records, and what breaks the rules of CSV: another encoding, an open quote.
_NO_RECORDS = ["one field of many", ",;\t|" * 50, "x\udce9,\udcff"]
_LAST = 'x,"never closed'
_N_BAD = 500


def _hostile(made_up: MadeUp) -> Mapping[str, list[Case]]:
    """Logs that somebody would make to be refused, by what is in them."""
    usual = made_up.usual(60)
    first = made_up.names[0]
    return {
        "one case more": [*usual, made_up.another()],
        "one case less": usual[1:],
        "no case": [],
        "one case alone": usual[:1],
        "names of 2,000 characters": [*usual, Case("long name", (_LONG_NAME, f"{_LONG_NAME}2"))],
        "control characters and other odd names": [*usual, Case("odd", _ODD)],
        "hundreds of activities in one case": [
            *usual,
            Case("wide", tuple(f"w{i}" for i in range(_N_NAMES))),
        ],
        "a case of hundreds of empty activities": [*usual, Case("empty", ("",) * _N_NAMES)],
        "one giant case": [*usual, Case("giant", (first, *made_up.names[-2:]) * (_LONG_CASE // 3))],
        "a hundred cases of one individual": [
            *usual,
            *(Case(f"same {i}", (first,), "somebody") for i in range(100)),
        ],
        "a case of the first and the last day": [
            *usual,
            Case("early", (first,), stamp="0001-01-01T00:00:00Z"),
            Case("late", (first,), stamp="9999-12-31T23:59:59Z"),
        ],
        "a case id of 2,000 characters": [*usual, Case("i" * 2_000, (first,))],
    }


def _refusal(trial: Trial) -> None:
    if not trial.is_rigorous:
        raise NotApplicable(_NO_PROMISE)
    place = trial.place("refusal")
    place.write(trial.logs.usual(60))
    # How many records may be malformed is what the bad case tries.
    changes: dict[str, Any] = {"max_error_ratio": None}
    first = place.release(release_id="usual", **changes)
    bad_logs = _hostile(trial.logs)
    for number, (what, cases) in enumerate(bad_logs.items()):
        place.write(cases)
        ran = place.release(release_id=f"r{number}", **changes)
        assert ran == first, f"with {what} the run ended with {ran.told}, without with {first.told}"
    place.log.unlink()
    ran = place.release(release_id="none", log=(f"{place.folder}/nothing=1/",), **changes)
    assert ran == first, f"without any file the run ended with {ran.told}, else with {first.told}"


def _bad_case(trial: Trial) -> None:
    if not trial.is_rigorous:
        raise NotApplicable(_NO_PROMISE)
    if trial.config.max_error_ratio is not None:
        raise NotApplicable(
            f"The configuration sets max_error_ratio {trial.config.max_error_ratio:g}, by which "
            "one case with many malformed records decides whether there is a release, as the "
            "statement says. Leave it out if that must not be told."
        )
    place = trial.place("bad-case")
    usual, names = trial.logs.usual(), trial.logs.names
    bad = {
        "times": Case("bad", names[:1] * _N_BAD, stamp=_BAD),
        "empty times": Case("bad", names[:1] * _N_BAD, stamp=""),
        "activities": Case("bad", ("",) * _N_BAD),
        "case id": Case("", names[:1] * _N_BAD),
    }
    for number, (what, case) in enumerate(bad.items()):
        place.write([*usual, case])
        ran = place.release(release_id=f"r{number}")
        assert ran.code == 0, f"with one case of unreadable {what} the run ended with {ran.told}"
    place.write(usual, [*_NO_RECORDS * (_N_BAD // 2), _LAST])
    ran = place.release(release_id="lines")
    assert ran.code == 0, f"with text that is no record the run ended with {ran.told}"


def _equal_inputs(trial: Trial) -> None:
    if not trial.is_rigorous:
        raise NotApplicable(_NO_PROMISE)
    usual = trial.logs.usual()
    public = []
    for name, cases in {
        "equal-1": usual, "equal-2": usual, "other-1": [*usual, trial.logs.another()],
        "other-2": usual[1:],
    }.items():  # fmt: skip
        place = trial.place(name, with_log=False)
        place.write(cases)
        assert (ran := place.release()).code == 0, f"a release ended with {ran.told}"
        public.append(_public(place))
    equal, others = public[:2], public[2:]
    for fact, value in equal[0].items():
        if equal[1].get(fact) == value:
            assert all(other.get(fact) == value for other in others), (
                f"{fact} is the same for equal logs, and another for a log with one other case"
            )


def _public(place: Place) -> dict[str, Any]:
    """What anybody sees of a release beside the numbers that were drawn."""
    manifest = place.manifest()
    outputs = manifest.pop("outputs")
    for noisy in ("came_out", "key_fingerprint"):
        manifest.get("randomness", manifest).pop(noisy, None)
        manifest.pop(noisy, None)
    folders = sorted(path.name for path in place.output.iterdir())
    return {
        **{f"{name} in the manifest": value for name, value in manifest.items()},
        "the list of files": sorted(output["path"] for output in outputs),
        "the names of releases": folders,
        "the digests of the files": sorted(output["sha256"] for output in outputs),
    }


def _no_name(trial: Trial) -> None:
    if not trial.is_rigorous:
        raise NotApplicable(_NO_PROMISE)
    place = trial.place("no-name")
    ran = place.release(release_id=None)
    names = sorted(path.name for path in place.output.iterdir()) if place.output.exists() else []
    assert ran.code == 2 and not names, "a release was named by its input, which tells its changes"
    assert not place.n_paid, "a refused release is charged"


def _filter_values(trial: Trial) -> None:
    place = trial.place("filter-values")
    column = trial.config.columns.case_id or "case_id"
    manifests = []
    for number, value in enumerate(("c", "c1")):
        where = (*trial.config.where, Where(column="case_id", begins_with=value))
        ran = place.release(release_id=f"r{number}", where=where)
        if ran.code != 0:
            raise NotApplicable(f"A release with a filter on {column} ended with {ran.told}.")
        manifest = place.manifest(f"r{number}")
        manifests.append(manifest)
    digests = [manifest["config_digest"] for manifest in manifests]
    assert digests[0] == digests[1], "the public digest of the configuration tells filter values"
    texts = [
        path.read_bytes() for path in place.final("r1").iterdir() if path.suffix in (".json", ".md")
    ]
    assert not any(b"begins_with" in text for text in texts), "a filter's value is published"


Check = Callable[[Trial], None]
CHECKS: Mapping[str, Check] = {
    "refund": _refund, "changed input": _changed_input, "changed decision": _changed_decision,
    "lost decision": _lost_decision, "cut-off commit": _commit, "refusal": _refusal,
    "bad case": _bad_case, "equal inputs": _equal_inputs, "no name": _no_name,
    "filter values": _filter_values,
}  # fmt: skip
HELD, ASIDE, BROKEN = "held", "not applicable: ", "did not hold: "


def check_configuration(
    config: ReleaseConfig, names: Iterable[str] = CHECKS, runner: str = IN_MEMORY
) -> dict[str, str]:
    """Tries checks on copies of a configuration; reads and writes nothing that it names.

    Returns:
        By name HELD, or why it is ASIDE, or what was BROKEN.
    """
    with tempfile.TemporaryDirectory(prefix="tracecloak-checks-") as folder:
        trial = Trial(config, Path(folder), runner)
        return {name: _tried(name, trial) for name in names}


def _tried(name: str, trial: Trial) -> str:
    try:
        CHECKS[name](trial)
    except NotApplicable as aside:
        return f"{ASIDE}{aside}"
    except (AssertionError, TracecloakError) as found:
        return f"{BROKEN}{found}"
    return HELD
