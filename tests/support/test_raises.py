"""The list of what no test reaches has no idle line; what is reached is noted in any process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import raises

# As the environment's own hook loads it; a fork reaches one `raise`, and its parent another.
_PROGRAM = """
import os
hook = {file!r}
exec(open(hook).read(), {{"__name__": "raises", "__file__": hook}})
from tracecloak.schemas.calendar.working_time import WorkingCalendar
child = os.fork()
try:
    WorkingCalendar(days=(7,)) if child else WorkingCalendar(from_hour=9, to_hour=9)
finally:
    if child:
        os.wait()
    os.kill(os.getpid(), 9)
"""


def test_every_line_of_the_list_is_a_raise_with_a_reason() -> None:
    """Catches a line whose statement is gone, or whose function has another name."""
    excused = raises.excuses()
    assert not excused.keys() - raises.all_raises().keys()
    assert all(len(reason) > 20 for reason in excused.values())


def test_the_wording_of_every_error_is_the_recorded_one() -> None:
    assert raises.messages() == raises.MESSAGES.read_text(), "make schema records it"


def test_what_is_reached_is_noted_also_by_a_process_that_is_killed(tmp_path: Path) -> None:
    """Catches a note that waits for the end of its process, and a statement that is moved."""
    program = _PROGRAM.format(file=raises.__file__)
    for _ in range(2):  # the second time from what the first has compiled
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, raises.VARIABLE: str(tmp_path), "PYTHONPATH": str(raises.ROOT)},
            check=False,
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == -9, done.stderr
        reached = (tmp_path / "reached.txt").read_text().splitlines()
        (tmp_path / "reached.txt").unlink()
        place = "schemas/calendar/working_time.py WorkingCalendar.__post_init__: UsageError "
        assert sorted(key.removeprefix(place).split(":")[0] for key in reached) == [
            "days",
            "from_hour and to_hour",
        ]
        assert set(reached) <= raises.all_raises().keys()


def test_the_check_fails_for_what_is_missing_and_for_what_is_excused_and_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, *others = raises.all_raises()
    monkeypatch.setattr(raises, "excuses", lambda: {first: "a reason"})
    for reached, said in (([second], ""), ([], second), ([first, second], first)):
        (tmp_path / "reached.txt").write_text("\n".join([*others, *reached]))
        assert raises.check(tmp_path) == bool(said)
        assert said in capsys.readouterr().out
