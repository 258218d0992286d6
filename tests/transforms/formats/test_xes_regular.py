"""Traces that are read as a whole are those that an XML parser reads, whatever they hold."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest

from tests.support.format_streams import share_read_together
from tracecloak.transforms.formats import xes
from tracecloak.transforms.formats.xes import XesReader
from tracecloak.transforms.formats.xes_regular import read_regular

WANTED = ("case:concept:name", "concept:name", "time:timestamp", "n", "case:n", "nowhere")

VALUES = [
    "A", "", "b & c", "5", "-0", " 7 ", "1e3", "2.50", "NaN", "-INF", "9" * 20,
    "ä€😀", "a'b", "x>y",
    "2024-01-01T00:00:00Z", "tab\there", "\x7f", "\ufdd0", "]]>", "1_0",
]  # fmt: skip
KEYS = ["concept:name", "time:timestamp", "n", "m", "ключ"]
TAGS = ["string", "date", "int", "float", "boolean", "id"]
ODD = [
    "<!-- <trace> -->",
    "<![CDATA[</trace>]]>",
    "<list key='x'/>",
    "<odd/>",
    "text",
    "<?pi </trace>?>",
    '<string key="n" value="1"><string key="n" value="2"/></string>',
    "<event/>",
    "<event></event>",
    '<string value="1" key="n"/>',
    '<string key="n"/>',
    '<container key="c"><event/></container>',
]
BYTES = [
    b"<", b">", b"&", b'"', b"'", b"/", b"\xff", b"\0", b"\n", b"\r", b"\t", b" ", b"<event>",
    b"</event>", b"<trace>", b"</trace>", b"</log>", b"-->", b"<!--", b"<![CDATA[", b"]]>",
    b"&#10;", b"&#1;", b"&lt;", b"&no;", b"\xef\xbf\xbf", b"\xed\xa0\x80", b'"/>', b"=", b"key",
    b"x:",
]  # fmt: skip


def log(draw: random.Random) -> bytes:
    """A log in one of the ways to write it, of which some bytes may be others."""
    end = draw.choice(["/>", " />"])
    line = draw.choice(["", "\n\t", "\r\n  ", "\r"])
    sizes = draw.choice([[1, 2, 3], [0, 1, 1, 2, 3]])
    oddity = draw.choice([0, 0, 0, 0.02, 0.2])

    def attributes() -> str:
        each = []
        for _ in range(draw.choice(sizes)):
            text = draw.choice(VALUES).replace("&", "&amp;").replace("\t", "&#9;")
            tag, key = draw.choice(TAGS), draw.choice(KEYS)
            each.append(f'{line}<{tag} key="{key}" value="{text}"{end}')
            each += [line, draw.choice(ODD)] if draw.random() < oddity else []
        return "".join(each)

    traces = []
    for _ in range(draw.randrange(2, 12)):
        events = "".join(
            f"{line}<event>{attributes()}{line}</event>" for _ in range(draw.randrange(4))
        )
        late = attributes() if draw.random() < 0.2 else ""
        traces.append(f"{line}<trace>{attributes()}{events}{late}{line}</trace>")
        traces += [draw.choice(ODD)] if draw.random() < oddity else []
    encoding = draw.choice(["utf-8"] * 8 + ["iso-8859-1", "utf-16"])
    head = draw.choice(["<log>", f'<?xml version="1.0" encoding="{encoding}"?><log>'])
    text = f"{head}{''.join(traces)}{line}</log>"
    data = bytearray(text.encode(encoding if "?xml" in head else "utf-8", "replace"))
    for _ in range(draw.choice([0, 0, 1, 1, 3])):
        place = draw.randrange(len(data))
        data[place : place + draw.randrange(3)] = draw.choice(BYTES)
    return bytes(data)


def test_logs_are_read_alike_both_ways() -> None:
    """Catches any difference of what is refused, numbered, decoded or left out."""
    bounds = {"_REGULAR_BYTES": [200, 500, 4 << 20], "_PIECE_BYTES": [80, 300, 256 << 10]}
    unnamed = [None, ("case:concept:name", "a.xes"), ("case:n", "a.xes")]
    required: list[tuple[str, ...]] = [(), ("n",), ("nowhere",), ("concept:name",)]
    share = share_read_together(
        xes, bounds, lambda draw: XesReader(draw.random() < 0.5, draw.choice(unnamed)), log, WANTED,
        required, 120, 7,
    )  # fmt: skip
    assert share > 0.3


def test_tags_that_do_not_match_are_left_to_the_parser() -> None:
    a = '<string key="k" value="v"/>'
    for inner in (
        f"<event>{a}<event>{a}</event>", f"{a}</event>", f"<event>{a}</event>{a}</event>",
        f"<event>{a}", f"{a}</trace>{a}", f"<event>{a}</event></trace><trace>",
        "<event>" + a.replace('"v"', '"\uffff"') + "</event>",
    ):  # fmt: skip
        assert read_regular(f"<trace>{inner}</trace>".encode(), ["k"], 1000) is None, inner
    assert read_regular(f"<trace><event>{a}</event></trace>".encode(), ["k"], 1000) is not None


# --- Traces without a name ------------------------------------------------------------------------


def names_of(traces: list[str], path: str = "a.xes", batch_rows: int = 1000) -> list[Any]:
    """The name of each trace by its events, of which all are together."""
    data = f"<log>{''.join(traces)}</log>".encode()
    reader = XesReader(unnamed=("case:concept:name", path))
    names: dict[int, set[str]] = {}
    for batch in reader.read(io.BytesIO(data), WANTED[:2], WANTED[:1], batch_rows):
        assert batch.traces is not None
        for trace, name in zip(batch.traces.tolist(), batch.columns[0].to_pylist(), strict=True):
            names.setdefault(trace, set()).add(name)
    assert all(len(each) == 1 for each in names.values())
    return [name for trace in sorted(names) for name in names[trace]]


def trace(*events: str, own: str = "") -> str:
    inner = "".join(f'<event><string key="concept:name" value="{e}"/></event>' for e in events)
    return f"<trace>{own}{inner}</trace>"


def test_a_trace_without_a_name_gets_one_that_no_other_trace_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = trace("A", own='<string key="concept:name" value="x"/>')
    empty = trace("A", own='<string key="concept:name" value=""/>')
    traces = [trace("A", "B"), named, trace("B"), trace("A", "B"), empty, trace("A")]
    first, x, b, second, nameless, a = names_of(traces)
    assert x == "x" and len({first, b, second, nameless, a}) == 5
    assert (first[-2:], second[-2:]) == ("-1", "-2") and first[:-2] == second[:-2]
    for added in (trace("C"), named, trace("A", "B")):
        for place in range(len(traces)):
            more = names_of([*traces[:place], added, *traces[place:]], batch_rows=1)
            assert {first, x, b, second, nameless, a} <= set(more)
    assert set(names_of(traces, "b.xes")).isdisjoint({first, b, second, nameless, a})
    monkeypatch.setattr(xes, "read_regular", lambda *_: None)
    assert names_of(traces) == [first, x, b, second, nameless, a]


def test_all_that_is_read_of_a_trace_makes_its_name() -> None:
    """Whether a value is of the trace or of which event, and where one ends, makes a difference."""
    value = '<string key="{}" value="{}"/>'.format
    traces = [
        trace("A"),
        trace("A", own=value("k", "A")),
        trace("A", own=value("k", "B")),
        trace("A", own=value("m", "A")),
        trace("A").replace("</trace>", value("k", "A") + "</trace>"),
        trace("A").replace("</event>", value("k", "A") + "</event>"),
        trace("A").replace("<event>", "<event>" + value("k", "A")),
        trace("A", "A"),
        trace("AA"),
        trace("A").replace("</trace>", "<event/></trace>"),
    ]
    assert len(set(names_of(traces))) == len(traces)
    # How it is written does not: blanks, references and tags say the same.
    others = [trace("A").replace("><", ">\n  <"), trace("&#65;").replace("string", "id")]
    assert [name[:-2] for name in names_of([trace("A"), *others])] == [names_of(traces)[0][:-2]] * 3
