"""Windows of a lake on Flink and on Prism have the bytes of the in-memory driver, paid for once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.engines.flink import flink_job_server
from tests.engines.prism import prism
from tests.engines.skipping import or_skip
from tests.pipelines.windows.test_releases_of_windows import ROWS, Lake
from tests.support.releasing import digests, fix_key
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(600),
    # Beam's workers are threads of this process, and one ends so when the engine hangs up.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

# A case of January, where it counts; a late event, once January is released, moves it to February.
CASE = ("f", "A", "2026-01-25T08:00Z")
LATE = ("f", "B", "2026-01-29T08:00Z")
# So much that a single case is seen in the graph, and one more or less in its bytes.
METHOD = {"method": "private-dfg", "params": {"epsilon": "60", "vocabulary": ["A", "B", "C"]}}


@pytest.fixture(scope="module", params=("flink", "prism"))
def flags(request: pytest.FixtureRequest, place: Path) -> Iterator[list[str]]:
    folder = place / request.param
    with ExitStack() as stack:
        if request.param == "prism":
            yield stack.enter_context(or_skip(prism(folder))).flags()
        else:
            yield stack.enter_context(or_skip(flink_job_server(folder))).flags()


def test_two_windows_have_the_bytes_of_the_in_memory_driver_and_are_paid_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: str, flags: list[str]
) -> None:
    fix_key(monkeypatch)
    key = tmp_path / "book.key"
    key.write_text("b0" * 32)
    released = {}
    for name, more in (("memory", []), ("engine", [*flags, "--ledger", ledger])):
        lake = Lake(tmp_path / name, runner=None if more else "InMemory")
        lake.body = {k: v for k, v in lake.body.items() if v is not None}
        lake.configure(shards=3, book_key=f"file:{key}", **METHOD)
        lake.write(1, [*ROWS[1], CASE])
        assert lake.release("2026-01", *more) == 0
        lake.write(1, [*ROWS[1], CASE, LATE])
        assert lake.release("2026-02", *more) == 0
        released[name] = [digests(lake.released(window)) for window in ("2026-01", "2026-02")]
        heads = [
            json.loads(path.read_bytes().partition(b"\n")[0])
            for path in (lake.folder / "keys" / "book").rglob("*.units")
        ]
        left_out = {head["label"]: head["n_left_out"] for head in heads}
        assert left_out == {"2026-01": 0, "2026-02": 1}
    assert released["engine"] == released["memory"]
    for window in ("2026-01", "2026-02"):
        assert json.loads((lake.released(window) / "dfg.json").read_text())["edges"]
    account = Ledger(ledger).balance("default")
    assert (str(account.spent_epsilon), account.n_releases, account.n_open) == ("60", 2, 0)
    actions = [entry.action for entry in Ledger(ledger).entries()]
    assert actions == ["reserve", "claim", "draw", "commit"] * 2
