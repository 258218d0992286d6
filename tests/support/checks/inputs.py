"""What only a look at the log could tell must not be told by how, or whether, a run ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.checks.finding import NotApplicable, expect
from tests.support.checks.made_up_log import Case, MadeUp
from tests.support.checks.trial import Place, Trial
from tracecloak.pipelines.configuration.config import Where

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
        expect(
            ran == first, f"with {what} the run ended with {ran.told}, without with {first.told}"
        )
    place.log.unlink()
    ran = place.release(release_id="none", log=(f"{place.folder}/nothing=1/",), **changes)
    expect(ran == first, f"without any file the run ended with {ran.told}, else with {first.told}")


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
        expect(ran.code == 0, f"with one case of unreadable {what} the run ended with {ran.told}")
    place.write(usual, [*_NO_RECORDS * (_N_BAD // 2), _LAST])
    ran = place.release(release_id="lines")
    expect(ran.code == 0, f"with text that is no record the run ended with {ran.told}")


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
        expect((ran := place.release()).code == 0, f"a release ended with {ran.told}")
        public.append(_public(place))
    equal, others = public[:2], public[2:]
    for fact, value in equal[0].items():
        if equal[1].get(fact) == value:
            expect(
                all(other.get(fact) == value for other in others),
                f"{fact} is the same for equal logs, and another for a log with one other case",
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
    expect(ran.code == 2 and not names, "a release was named by its input, which tells its changes")
    expect(not place.paid(), "a refused release is charged")


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
    expect(digests[0] == digests[1], "the public digest of the configuration tells filter values")
    texts = [
        path.read_bytes() for path in place.final("r1").iterdir() if path.suffix in (".json", ".md")
    ]
    expect(not any(b"begins_with" in text for text in texts), "a filter's value is published")


CHECKS = {
    "refusal": _refusal,
    "bad case": _bad_case,
    "equal inputs": _equal_inputs,
    "no name": _no_name,
    "filter values": _filter_values,
}
