"""Pages and pictures that leave for a foreign server: browsers open them, and `verify` does not.

Each is what a forger makes of a release's own page, with the manifest's digest set right.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.received import copied, edited, failed, rewritten, states
from tests.support.releasing import csv_log, released
from tests.support.stream_runs import in_time, random_messages, run, stream_config
from tracecloak.pipelines.verification.data import Contents
from tracecloak.pipelines.verification.folder import ReceivedFolder
from tracecloak.pipelines.verification.received import Received
from tracecloak.pipelines.verification.verify import verify
from tracecloak.schemas.published.manifest import OutputFile
from tracecloak.transforms.publish.products import PRODUCTS
from tracecloak.transforms.publish.report import report_html

URL = "http://127.0.0.1:9"


# --- Other files ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("REPORT.HTML", "failed"),
        ("report.html.xhtml", "failed"),
        ("DFG.svg", "failed"),
        ("log/index.html", "failed"),
        # A format, or a product, that another distribution may have added.
        ("log.html", "unsure"),
    ],
)
def test_a_file_that_no_release_has_does_not_pass(
    graph_release: Path, tmp_path: Path, name: str, state: str
) -> None:
    release = copied(graph_release, tmp_path)
    path = release / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'<script xmlns="http://www.w3.org/1999/xhtml" src="{URL}"/>')
    assert name in failed(verify(str(release)))["leftovers"]
    entry = {"path": name, "sha256": "0" * 64, "n_bytes": 0}
    edited(release, lambda body: body["outputs"].append(entry))
    rewritten(release, name, path.read_bytes())
    rewritten(release, "report.html", page_made_again(release))  # which lists it
    found = verify(str(release))
    wrong = [f for f in found.findings if f.state in ("failed", "unsure")]
    assert [(f.check, f.state) for f in wrong] == [("pictures", state)]
    assert name in wrong[0].sentence and "do not open it" in wrong[0].sentence


def page_made_again(release: Path) -> bytes:
    contents = Contents(Received.of(ReceivedFolder.at(str(release))))
    files = [OutputFile(**o) for o in contents.received.outputs if o["path"] != "report.html"]
    products = [product for product in contents.products.values() if product is not None]
    return report_html(contents.received.manifest, files, products, None)


def test_a_product_that_this_installation_lacks_is_told(
    graph_release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = copied(graph_release, tmp_path)
    monkeypatch.delitem(PRODUCTS.ours, "graph")
    found = states(verify(str(release)))
    assert (found["page"], found["pictures"]) == ("unsure", "unsure")


def test_an_activity_that_is_called_as_the_start_is_leaves_the_page_unsure(tmp_path: Path) -> None:
    """In the edges of a file it cannot be told from the start, and a forger is not helped by it."""
    log = csv_log(
        tmp_path / "log.csv",
        [(f"c{case}", name, "2026-01-01T00:00:00Z") for case in range(50) for name in ("▶", "A")],
    )
    (tmp_path / "names.txt").write_text("▶\nA\n", encoding="utf-8")
    names = ("--vocabulary", tmp_path / "names.txt")
    released(tmp_path, log, "--method", "private-dfg", "--epsilon", 9, *names)
    found = verify(str(tmp_path / "out"))
    assert failed(found) == {}
    assert {states(found)[check] for check in ("page", "pictures")} == {"unsure"}


# --- Epochs of streams ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def log_stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stream")
    config = stream_config(
        folder, product="log", horizon=2, epsilon="40", n_duration_bins=4, l2_clip="4",
        first_date="1970-01-01", last_date="1970-01-02",
    )  # fmt: skip
    run(config, in_time(random_messages(40), 80))
    return folder / "out" / "run_id=ward" / "epoch=1"


def test_a_step_has_the_files_of_a_log_and_no_page(log_stream: Path, tmp_path: Path) -> None:
    assert verify(str(log_stream)).verdict == "ok"
    release = copied(log_stream, tmp_path)
    page = next(release.rglob("step.json")).with_name("log.html")
    page.write_text(f"<script src={URL}></script>")
    assert page.name in failed(verify(str(release)))["leftovers"]


def test_a_name_that_xml_cannot_hold_leaves_a_log_in_xes_alone_unsure(tmp_path: Path) -> None:
    rows = [(f"c{case}", name, "2026-01-01T00:00:00Z") for case in range(9) for name in "A\x01"]
    for formats, verdict in (("xes", "unsure"), ("xes,csv", "ok")):
        folder = tmp_path / verdict
        folder.mkdir()
        given = ("--method", "k-anonymous-variants", "--k", 3, "--formats", formats)
        released(folder, csv_log(folder / "log.csv", rows), *given)
        found = verify(str(folder / "out"))
        assert failed(found) == {} and found.verdict == verdict
        assert ("unsure" in {states(found)[check] for check in ("forms", "page")}) == (
            verdict == "unsure"
        )
