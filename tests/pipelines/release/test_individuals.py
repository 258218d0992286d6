"""The individual as the unit of privacy, from the column of a file to the released bytes."""

import json
from pathlib import Path

import pytest

from tests.support.releasing import (
    counting_charges,
    digests,
    fix_key,
    individual_log,
    manifest,
    operator_folder,
    released,
)
from tests.support.searching import files_with
from tests.support.tiers import at_night

N_PEOPLE = 40
Row = tuple[str, str, str, str]


def rows_of(n_people: int, n_cases: int, activities: str = "AB") -> list[Row]:
    """People with so many cases each, all of one variant."""
    return [
        (f"person-{p}", f"case-{p}-{c}", activity, f"2026-01-{1 + c:02d}T1{step}:{p:02d}:00Z")
        for p in range(n_people)
        for c in range(n_cases)
        for step, activity in enumerate(activities)
    ]


def release(folder: Path, log: Path, *flags: object) -> Path:
    # At epsilon 900 noise is 0 but with a probability below e^-290, so counts can be told exactly.
    return released(folder, log, "--epsilon", 900, "--parts", 1, *flags)


HISTOGRAM = ("--method", "variant-histogram", "--delta", "1e-5", "--individual_id", "person")


def variants(release: Path) -> dict[str, int]:
    """Released cases by variant, activities joined."""
    read = json.loads((release / "variants.json").read_text())["variants"]
    return {"".join(row["variant"]): row["count"] for row in read}


def edges(release: Path) -> dict[tuple[str, str], int]:
    read = json.loads((release / "dfg.json").read_text())["edges"]
    return {(row["source"], row["target"]): row["count"] for row in read}


@pytest.mark.parametrize(
    ("cap", "runner"),
    [
        *((cap, "InMemory") for cap in (None, 3, 9)),
        at_night(None, "FnApiRunner"),
        (2, "FnApiRunner"),
    ],
)
def test_of_each_individual_so_many_cases_count_and_no_more(
    tmp_path: Path, cap: int | None, runner: str
) -> None:
    """Catches a cap that is not applied, or applied within a shard or a file only.

    Everybody has 5 cases, so the count of the one variant is 40 times the cap, and 200 at most.
    """
    log = individual_log(tmp_path / "log.csv", rows_of(N_PEOPLE, 5))
    flags = () if cap is None else ("--max_cases_per_individual", cap)
    made = release(tmp_path, log, *HISTOGRAM, "--runner", runner, *flags)
    assert variants(made) == {"AB": N_PEOPLE * min(cap or 1, 5)}


def test_a_case_that_names_two_individuals_is_a_case_of_each(tmp_path: Path) -> None:
    """Catches a case whose events are one person's and whose count is another's.

    Of every case the doctor does A and B, and the nurse does C between them.
    """
    rows = []
    for case in range(N_PEOPLE):
        for step, (who, activity) in enumerate((("doctor", "A"), ("nurse", "C"), ("doctor", "B"))):
            rows.append((f"{who}-{case}", f"case-{case}", activity, f"2026-01-01T1{step}:00:00Z"))
    log = individual_log(tmp_path / "log.csv", rows)
    assert variants(release(tmp_path, log, *HISTOGRAM)) == {"AB": N_PEOPLE, "C": N_PEOPLE}
    per_case = release(
        tmp_path / "per case", log, "--method", "variant-histogram", "--delta", "1e-5"
    )
    assert variants(per_case) == {"ACB": N_PEOPLE}


def test_the_cases_of_an_individual_are_chosen_by_the_key_not_by_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches the first, the last or the longest case being taken.

    Of 10 cases of each of 200 people each has another variant. One of them counts, so each variant
    gets about 20 of 200: outside 1 to 60 is Binomial(200, 1/10) with probability below 1e-8 (its
    mass at 0 is 7e-10, ten times that over the variants, and above 60 less than 1e-13).
    """
    names = "ABCDEFGHIJ"
    rows = [
        (f"p{p}", f"c{p}-{i}", activity, f"2026-01-{i + 1:02d}T10:00:00Z")
        for p in range(200)
        for i, activity in enumerate(names)
    ]
    log = individual_log(tmp_path / "log.csv", rows)
    flags = (
        "--method", "private-dfg", "--delta", 0, "--max_trace_length", 1, "--individual_id",
        "person", "--vocabulary", tmp_path / "names.txt",
    )  # fmt: skip
    (tmp_path / "names.txt").write_text("\n".join(names) + "\n")
    made = []
    for number in (1, 2):
        fix_key(monkeypatch, bytes([number]) * 32)
        started = {
            target: n
            for (source, target), n in edges(release(tmp_path / str(number), log, *flags)).items()
            if source == "▶"
        }
        assert set(started) == set(names)
        assert sum(started.values()) == 200
        assert 1 <= min(started.values()) and max(started.values()) <= 60
        made.append(started)
    assert made[0] != made[1]  # another key, another choice: equal with probability below 1e-8
    # Another order of the records is another order of the cases, and no other choice.
    individual_log(tmp_path / "turned.csv", rows[::-1])
    turned = release(tmp_path / "turned", tmp_path / "turned.csv", *flags)
    assert digests(turned) == digests(tmp_path / "2" / "out" / "run_id=r")


def test_the_release_says_whom_it_protects_in_all_its_papers(tmp_path: Path) -> None:
    """Catches a promise per individual that is written or charged as one per case; and ids."""
    log = individual_log(tmp_path / "log.csv", rows_of(N_PEOPLE, 2))
    made = release(tmp_path, log, *HISTOGRAM, "--formats", "csv")
    out = tmp_path / "out"
    assert files_with(b"person-", out) == files_with(b"case-", out) == set()
    said = manifest(made)
    assert said["guarantee"]["unit"] == "individual"
    assert said["params"]["max_cases_per_individual"] == 1  # without a word about it
    assert said["guarantee"]["sentence"].startswith("If every case of any one individual is added")
    assert not any("case by case" in text for text in said["guarantee"]["not_covered"])
    assert "for all cases of one individual" in (made / "statement.md").read_text()
    (charge,) = counting_charges(tmp_path / "keys")
    assert charge.unit == "individual"


# --- Records without an individual ----------------------------------------------------------------


@pytest.mark.parametrize("runner", ["InMemory", at_night("FnApiRunner")])
def test_a_record_without_individual_is_listed_and_left_out(
    tmp_path: Path, runner: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches a run that ends for one bad record, or makes an individual of all without a name.

    The last person loses the last event only, and then has the variant A.
    """
    *rows, last = rows_of(N_PEOPLE, 1)
    log = individual_log(tmp_path / "log.csv", [*rows, ("", *last[1:])])
    flags = ("--max_error_ratio", "0.1", "--runner", runner, "--max_cases_per_individual", 9)
    made = release(tmp_path, log, *HISTOGRAM, *flags)
    assert variants(made)["AB"] == N_PEOPLE - 1
    listed = (operator_folder(tmp_path / "keys") / "file-00000.jsonl").read_text()
    record = 2 * N_PEOPLE  # the last one, counted from 1
    assert json.loads(listed) == {"file": 0, "record": record, "reason": "no individual"}
    assert "person" not in listed and "case-" not in listed
