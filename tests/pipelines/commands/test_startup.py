"""What commands load that run no pipeline: nobody waits for Beam to read a help text."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.releasing import csv_log, small_rows
from tracecloak.anonymizers.registry import METHODS

HEAVY = (
    *("rich", "apache_beam", "scipy", "numpy", "pyarrow", "pydantic", "sqlalchemy", "pandas"),
    "jinja2",
)
# Runs command lines one after the other in a process of its own, and tells after each how it ended
# and what is loaded so far; so what is light has to come first.
_RUN = """
import contextlib, io, json, sys
from tracecloak.pipelines.commands.main import main
for line in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            code = main(line)
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, [name for name in json.loads(sys.argv[2]) if name in sys.modules]]))
"""


def loaded_by(*lines: list[str]) -> list[tuple[int, list[str]]]:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, json.dumps(lines), json.dumps(HEAVY)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return [(code, names) for code, names in map(json.loads, done.stdout.splitlines())]


def test_help_and_wrong_flags_load_nothing_heavy_but_the_keys_of_a_release(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("log: [")
    light = [
        ["--version"], ["--help"], ["--wrong"], ["wrong"], ["catalogue", "--wrong"],
        ["ledger", "show", "--wrong"], ["ledger", "--help"], ["key", "--help"],
        ["sample", "--help"], ["catalogue"],
    ]  # fmt: skip
    of_release = [["--help"], [str(wrong)], ["none.yaml"], ["--method", "wrong"], ["--wrong"]]
    found = loaded_by(*light, *(["release", *line] for line in of_release))
    expected = [(code, []) for code in (0, 0, 2, 2, 2, 2, 0, 0, 0, 0)]
    assert found == expected + [(code, ["pydantic"]) for code in (0, 2, 2, 2, 2)]


def test_methods_parameters_and_ledgers_load_neither_beam_nor_scipy_and_plans_no_beam(
    tmp_path: Path,
) -> None:
    log = csv_log(tmp_path / "log.csv", list(small_rows()))
    names = tmp_path / "names.txt"
    names.write_text("A\nB\nC\nD\n")
    places = ["--log", str(tmp_path / "*.csv"), "--output", str(tmp_path / "out")]
    ours = ["--key_store", str(tmp_path / "keys")]
    amun = ["--method", "amun", "--guessing_advantage"]
    lines = [
        ["ledger", "begin", *ours],
        ["ledger", "show", *ours],
        ["ledger", "verify", *ours],
        ["ledger", "export", *ours],
        ["catalogue"],
        ["catalogue", "--json"],
        *(["catalogue", name] for name in METHODS),
        ["release", "--method", "private-dfg", "--help"],
        ["release", *places, *amun, "2"],
        ["release", *places, *amun, "0.2", "--shards", "0"],
        ["plan", *places, *amun, "0.2"],
        ["plan", *places, "--method", "private-dfg", "--epsilon", "1", "--vocabulary", str(names)],
    ]
    found = loaded_by(*lines)
    assert [code for code, _ in found] == [0] * (7 + len(METHODS)) + [2] * 2 + [0] * 2
    # The last plan runs its method on synthetic logs, with scipy's distributions and all.
    assert "apache_beam" not in {name for _, names in found for name in names}
    assert "scipy" not in {name for _, names in found[:-1] for name in names}
    assert "pandas" not in {name for _, names in found for name in names}
    assert "pyarrow" in found[-1][1]  # what is loaded is noticed
    assert log.exists() and not (tmp_path / "out").exists()


def test_a_log_that_is_not_there_is_told_before_what_pays_and_writes_is_loaded(
    tmp_path: Path,
) -> None:
    """And a release of one that is there loads neither Beam nor pandas, nor does `verify`."""
    log = csv_log(tmp_path / "log.csv", list(small_rows()))
    release = (
        "release", "--new_ledger", "--method", "amun", "--guessing_advantage", "0.2",
        "--release_id", "r", "--output", str(tmp_path / "out"), "--key_store",
        str(tmp_path / "keys"), "--log",
    )  # fmt: skip
    verify = ["verify", str(tmp_path / "out" / "run_id=r")]
    found = loaded_by([*release, str(tmp_path / "none.csv")], [*release, str(log)], verify)
    arithmetic = ["numpy", "pyarrow", "pydantic"]
    assert found == [(3, arithmetic)] + [(0, [*arithmetic, "sqlalchemy", "jinja2"])] * 2


def test_pandas_is_had_by_whoever_imports_it() -> None:
    """Catches an Arrow that goes without pandas for ever once it was told to."""
    code = (
        "import sys\n"
        "from tracecloak.pipelines.runners.memory import keep_pandas_out\n"
        "keep_pandas_out()\n"
        "import pyarrow as pa\n"
        "pa.array(['a']), pa.scalar(1), pa.table({'a': [1]})\n"
        "assert 'pandas' not in sys.modules\n"
        "import pandas as pd\n"
        "frame = pd.DataFrame({'a': [1, 2]})\n"
        "assert pa.Table.from_pandas(frame).to_pandas().equals(frame)\n"
        "assert pa.array(pd.Series([1, 2])).to_pylist() == [1, 2]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_loads_nothing_heavy_until_a_name_is_used() -> None:
    code = (
        "import sys, tracecloak\n"
        f"assert not [n for n in {HEAVY} if n in sys.modules]\n"
        "tracecloak.ColumnMapping\n"
        "assert 'pyarrow' in sys.modules and 'apache_beam' not in sys.modules\n"
        "tracecloak.AnonymizeEventLog\n"
        "assert 'apache_beam' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
