"""The notebooks are valid, hold no outputs and no place of a machine, and run from top to bottom.

Their cells run in order in one namespace of a process of its own: they are plain Python, and a
Jupyter kernel would need thirty more packages and sockets to do the same.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))
_NEEDS = {
    "analyst": "pandas", "engineer": "pyarrow", "questions": "pandas", "researcher": "pandas",
}  # fmt: skip
_RUN = """
import json, sys
names = {"__name__": "__main__"}
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
"""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_valid_has_nothing_of_a_run_and_imports_public_names(path: Path) -> None:
    body = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(body)
    code = [cell for cell in body["cells"] if cell["cell_type"] == "code"]
    assert code
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
    text = "".join("".join(cell["source"]) for cell in body["cells"])
    assert not re.search(r"[\"'(](/|[A-Z]:\\|~)\w", text)
    text = "".join("".join(cell["source"]) for cell in code)
    imported = set(re.findall(r"^ *(?:import|from) (tracecloak[.\w]*)", text, re.MULTILINE))
    assert "tracecloak" in imported <= {"tracecloak", "tracecloak.plugins"}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(_NEEDS[path.stem])
    monkeypatch.delenv("TRACECLOAK_KEY_STORE", raising=False)
    done = subprocess.run(
        [sys.executable, "-c", _RUN, path], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert [made.name for made in tmp_path.iterdir()] == [f"{path.stem}-notebook"]
