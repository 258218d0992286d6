"""The frame of pages: what they carry is what the packages have, and nothing ends a script."""

import base64
import hashlib
import importlib.resources
import json
import re
from pathlib import Path

import pytest

from tests.support.pages import Read
from tracecloak.transforms.pages.page import (
    Chart,
    Page,
    document,
    from_template,
    policy_of,
    rendered,
)

VENDOR = importlib.resources.files("tracecloak.transforms.pages").joinpath("vendor")
LIBRARIES = json.loads(VENDOR.joinpath("libraries.json").read_text())
NASTY = "</script><script>alert(1)</script><!-- \u2028 & \" '"


def page(**changes: object) -> bytes:
    given = {"template": "page.html.j2", "title": "A page", "sections": (("a", "A"),)}
    return rendered(Page(**{**given, "context": {}, **changes}))  # type: ignore[arg-type]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library["name"])
def test_a_library_is_as_its_digest_says(library: dict[str, str]) -> None:
    """Catches a bundle that was changed, or renewed without its version."""
    data = VENDOR.joinpath(library["file"]).read_bytes()
    assert hashlib.sha256(data).hexdigest() == library["sha256"]
    assert b"</script" not in data.lower()
    assert library["version"].encode() in data[:400] or library["file"] == "plot.umd.min.js"
    assert all(library[key] for key in ("name", "licence", "package", "path", "use", "notice"))


def test_no_bundle_is_there_that_is_not_listed() -> None:
    assert {file.name for file in VENDOR.iterdir()} == {
        *(library["file"] for library in LIBRARIES),
        "libraries.json",
    }


def test_data_come_back_whatever_is_in_them() -> None:
    """Catches a name of the data that ends the script element it stands in."""
    data = {"name": NASTY, "rows": [1, None, 2.5]}
    found = Read(page(data=data)).scripts
    assert json.loads(found[0][1]) == data
    assert found[0][0] == {"type": "application/json", "id": "data"}
    assert len(found) == 2  # and that of every page


def test_titles_and_sections_are_escaped() -> None:
    text = page(title=NASTY, sections=(('"><script>', NASTY),)).decode()
    assert "<script>alert" not in text
    assert len(Read(text).scripts) == 2


def test_the_policy_allows_the_scripts_of_the_page_and_no_others() -> None:
    """Catches a script that the browser would refuse, and a policy that allows more than these."""
    names = tuple(library["name"] for library in LIBRARIES)
    made = page(scripts=("charts.js",), libraries=names)
    policy = re.search(rb'Content-Security-Policy" content="([^"]*)"', made)
    assert policy is not None
    allowed = set(re.findall(r"sha256-[^&']+", policy[1].decode().replace("&#39;", "'")))
    run = [text for attributes, text in Read(made).scripts if "type" not in attributes]
    digests = {
        "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in run
    }
    assert allowed == digests
    assert len(digests) == len(LIBRARIES) + 2
    assert b"default-src &#39;none&#39;" in policy[1]
    assert b"connect-src" not in policy[1]
    workers = policy_of(Page("page.html.j2", "t", (), {}, libraries=("Viz.js",))).split("; ")
    assert "worker-src blob:" in workers and b"worker-src" not in page(libraries=("D3",))


def test_a_page_carries_the_notices_of_its_libraries_alone() -> None:
    text = page(libraries=("D3",)).decode()
    assert "Mike Bostock" in text
    assert "Daines" not in text
    assert "carries" not in page().decode()


def test_numbers_that_json_has_not_are_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        page(data={"n": float("nan")})


def test_a_report_in_markdown_is_a_page_with_its_sections_and_tables() -> None:
    lines = ["# A report", "", "## First part", "", "| a | b |", "|---|---|", "| 1 | <b>2</b> |",
             "", "## Second: & part", "", "- `x`"]  # fmt: skip
    text = document(lines).decode()
    assert "<title>A report</title>" in text
    assert '<h2 id="1-first-part">' in text
    assert '<a href="#2-second-part">Second: &amp; part</a>' in text
    assert "&lt;b&gt;2&lt;/b&gt;" in text
    assert text.count('<div class="wide" tabindex="0"><table>') == 1
    assert "Plot" not in text


def test_a_report_carries_its_charts() -> None:
    text = document(["# R"], [Chart("attack", "Epsilons", [{"name": "claimed", "epsilon": 1}])])
    assert json.loads(Read(text).scripts[0][1]) == {"attack": [{"name": "claimed", "epsilon": 1}]}
    assert b'<figure id="attack-chart"' in text


def test_an_end_of_line_within_a_value_makes_no_further_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = tmp_path / "room_of_a_test"
    room.mkdir()
    (room / "__init__.py").touch()
    (room / "a.j2").write_text("{% for name in names %}\n- {{ name }}\n{% endfor %}\n\nend\n")
    monkeypatch.syspath_prepend(tmp_path)
    lines = from_template(room.name, "a.j2", names=["<a>", "b\n# c", None])
    assert lines == ["- <a>", "- b\n# c", "- None", "", "end"]
