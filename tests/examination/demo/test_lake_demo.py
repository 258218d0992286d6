"""The demo of windows says what it sees, and fails where something is not as it should be."""

from __future__ import annotations

import importlib.util
import re
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from tracecloak.examination.demo.lake_demo import N_WEEKS, Demo, main, run
from tracecloak.schemas.errors import TracecloakError, UsageError

TODAY = date(2026, 11, 23)

# Releases windows as tracecloak does, as far as the demo looks: a file that is cut off is exit
# code 3, a window that is not due 75, and the ledger notes a draw before the files are there. The
# fault is what it does wrong.
STAND_IN = """
import hashlib, json, os, pathlib, sqlite3, sys, time, yaml
from datetime import date, timedelta
fault = {fault!r}
store = pathlib.Path(os.environ["TRACECLOAK_KEY_STORE"])
store.mkdir(exist_ok=True)
ledger = sqlite3.connect(store / "ledger.db", isolation_level=None)
ledger.execute("CREATE TABLE IF NOT EXISTS tracecloak_ledger (action TEXT, release_id TEXT)")
schedule = yaml.safe_load(pathlib.Path("config.yaml").read_text())["schedule"]
origin = date.fromisoformat(schedule["origin"])
labels = [(origin + timedelta(7 * n)).isoformat() for n in range(schedule["horizon"])]
today = date({today})
is_due = dict((label, date.fromisoformat(label) + timedelta(8) <= today) for label in labels)

def folder(label):
    return pathlib.Path("releases", "run_id=week-" + label).absolute()

def has(action, label):
    found = ledger.execute("SELECT 1 FROM tracecloak_ledger WHERE action = ? AND release_id = ?",
                           (action, "week-" + label))
    return found.fetchone() is not None

def note(action, label):
    ledger.execute("INSERT INTO tracecloak_ledger VALUES (?, ?)", (action, "week-" + label))

def is_whole(label):
    for n in range(7):
        day = date.fromisoformat(label) + timedelta(n)
        for path in pathlib.Path("lake", "day=" + day.isoformat()).glob("part-*"):
            if path.read_bytes()[-4:] != b"PAR1" and fault != "reads what is cut off":
                return False
    return True

def released(label):
    code, status = 0, "released"
    if not is_due[label]:
        code, status = 75, "not_due"
    elif has("commit", label) and fault != "makes it again":
        status = "already_released"
    elif not is_whole(label):
        code, status = 3, "failed"
    else:
        if not has("draw", label):
            note("draw", label)
        if label == labels[7] and not (store / "slow").exists():
            (store / "slow").touch()
            time.sleep(60)
        folder(label).mkdir(parents=True, exist_ok=True)
        (folder(label) / "manifest.json").write_text(label)
        note("commit", label)
    left = "0" if fault != "adds up" or label < labels[3] else "-1"
    return dict(window=label, status=status, exit_code=code, folder=str(folder(label)),
                remaining=dict(epsilon=left, delta="0"))

verb = sys.argv[1]
if verb == "release":
    asked = next(w for w in sys.argv if w.startswith("--window="))[len("--window="):]
    first, _, last = asked.partition("..")
    those = [label for label in labels if is_due[label]] if asked == "due" else [
        label for label in labels if first <= label <= (last or first)]
    ended = [released(label) for label in those]
    print(json.dumps(dict(windows=ended)))
    sys.exit(max(one["exit_code"] for one in ended))
elif verb == "windows" and "--json" in sys.argv:
    status = lambda l: "released" if has("commit", l) else "cut_off" if has("draw", l) else "due"
    shown = [dict(label=l, status=status(l), epsilon="1") for l in labels if is_due[l]]
    print(json.dumps(dict(windows=shown, spent_epsilon="1", spent_delta="0.000001")))
elif verb == "windows":
    print("the calendar")
elif fault == "changes the ledger":
    sys.exit(6)
"""


def demo(folder: Path, fault: str = "", today: date = TODAY) -> Demo:
    stand_in = folder / "stand-in.py"
    told = f"{today.year}, {today.month}, {today.day}"
    stand_in.write_text(STAND_IN.format(fault=fault, today=told))
    return Demo(folder / "demo", today, 300, (sys.executable, str(stand_in)))


def test_every_act_is_told(tmp_path: Path) -> None:
    said: list[str] = []
    run(demo(tmp_path), said.append)
    assert len(said) == 9 and said[-1] == "the calendar"
    assert "from 2026-08-17 on" in said[0]
    assert "2026-09-16 was late" in said[1] and "cut off" in said[2] and "-9" in said[3]
    assert "Weeks 9 to 13" in said[4] and "`--window 2026-10-12..2026-11-09`" in said[4]
    assert "The week from 2026-11-16 on is not over" in said[5]
    assert "13 windows with epsilon 1 each cost epsilon 1 and delta 0.000001" in said[6]
    assert all("epsilon 1" in line for line in said[:5])


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        ("adds up", "epsilon 1 and delta 0.000001 are spent, and nothing is left"),
        ("makes it again", "week 5 stays as it is"),
        ("reads what is cut off", "week 7 is not released with a file cut off, but ended with 0"),
        ("changes the ledger", "the ledger is as it was written"),
    ],
)
def test_what_is_not_as_it_should_be_ends_the_demo(fault: str, seen: str, tmp_path: Path) -> None:
    with pytest.raises(TracecloakError, match=re.escape(f"it was to be seen that {seen}")):
        run(demo(tmp_path, fault), lambda _: None)


@pytest.mark.parametrize("day", range(1, 15))
def test_thirteen_weeks_are_due_on_every_day_of_the_week(day: int) -> None:
    """And the next one is not; a week is due a day after its end."""
    today = date(2026, 11, day)
    made = Demo(Path("nowhere"), today)
    assert made.first_day.weekday() == 0
    assert (today - made.days(N_WEEKS)[-1]).days >= 2
    assert (today - made.days(N_WEEKS + 1)[-1]).days < 2
    assert made.lake.days[-1] < today


def test_a_folder_of_an_earlier_demo_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lake").mkdir()
    with pytest.raises(UsageError, match="is not empty"):
        run(Demo(tmp_path, TODAY), lambda _: None)
    assert main(["--output", str(tmp_path)]) == 2
    assert "lake-demo: output: " in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    importlib.util.find_spec("tracecloak.pipelines.windows") is None,
    reason="tracecloak releases no windows yet",
)
def test_the_demo_is_what_tracecloak_does(tmp_path: Path) -> None:
    said: list[str] = []
    run(Demo(tmp_path / "demo", datetime.now(UTC).date(), 600), said.append)
    assert len(re.findall(r"^\d{4}-\d\d-\d\d +released +epsilon 1 ", said[-1], re.MULTILINE)) == 13
