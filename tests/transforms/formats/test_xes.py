"""XES: worked examples, refusals, bounds, and traces that are read as a whole."""

from __future__ import annotations

import codecs
import encodings.aliases
import gzip
import io
import logging
import random
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.support.format_streams import Trickle, share_read_together
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.transforms.formats import xes
from tracecloak.transforms.formats.base import RawBatch
from tracecloak.transforms.formats.xes import XesReader
from tracecloak.transforms.formats.xes_regular import read_regular

CASE, ACTIVITY, TIME = "case:concept:name", "concept:name", "time:timestamp"
NAMES = (CASE, ACTIVITY, TIME)

# Two cases and every construct that must not count as an attribute of a trace or an event.
WORKED = """<?xml version="1.0" encoding="UTF-8"?>
<!-- a comment -->
<log xes.version="1849-2016" xes.features="nested-attributes" xmlns="http://www.xes-standard.org/">
  <extension name="Concept" prefix="concept" uri="http://www.xes-standard.org/concept.xesext"/>
  <global scope="trace"><string key="concept:name" value="GLOBAL"/></global>
  <global scope="event"><string key="org:resource" value="GLOBAL"/></global>
  <classifier name="Activity" keys="concept:name"/>
  <string key="concept:name" value="LOG"><string key="concept:name" value="LOG CHILD"/></string>
  <trace>
    <string key="concept:name" value="1"><string key="concept:name" value="CHILD"/></string>
    <list key="stations"><values><string key="concept:name" value="LISTED"/></values></list>
    <event>
      <string key="concept:name" value="register &amp; &#x201C;sign&#x201D;"/>
      <date key="time:timestamp" value="2026-03-01T08:00:00.000+01:00"/>
      <container key="box"><string key="concept:name" value="BOXED"/></container>
      <string key="org:resource" value="Ann"><int key="org:resource" value="7"/></string>
      <float value="3.052"/>
      <string key="org:group"/>
      <string key="lifecycle:transition" value="complete"/>
    </event>
    <event>
      <!-- between --><![CDATA[ text ]]><?target data?>
      <string value="pay" key="concept:name" extra="x"></string>
      <date key="time:timestamp" value="2026-03-02"/>
    </event>
  </trace>
  <trace>
    <event><string key="concept:name" value="register"/></event>
    <string key="concept:name" value="2"/>
    <event><int key="concept:name" value="42"/><string key="concept:name" value="last"/></event>
    <date key="time:timestamp" value="1999-01-01T00:00:00Z"/>
  </trace>
</log>
"""
WORKED_ROWS = {
    CASE: ["1", "1", "2", "2"],
    ACTIVITY: ["register & “sign”", "pay", "register", "last"],
    TIME: ["2026-03-01T08:00:00.000+01:00", "2026-03-02", None, None],
    "org:resource": ["Ann", None, None, None],
    "case:time:timestamp": [None, None, "1999-01-01T00:00:00Z", "1999-01-01T00:00:00Z"],
}


def batches(
    source: str | bytes,
    wanted: Iterable[str] = NAMES,
    required: Iterable[str] = (),
    rows: int = 100,
) -> list[RawBatch]:
    data = source.encode() if isinstance(source, str) else source
    return list(XesReader().read(io.BytesIO(data), list(wanted), list(required), rows))


def columns(source: str | bytes, wanted: Iterable[str] = NAMES) -> dict[str, list[str | None]]:
    found = batches(source, wanted)
    return pa.Table.from_batches([batch.columns for batch in found]).to_pydict()


def bare(*events: str, own: str = "") -> str:
    inner = "".join(f'<event><string key="concept:name" value="{e}"/></event>' for e in events)
    return f"<trace>{own}{inner}</trace>"


def trace(case: str, *events: str) -> str:
    return bare(*events, own=f'<string key="concept:name" value="{case}"/>')


# --- what is read ---


def test_worked_example():
    assert columns(WORKED, WORKED_ROWS) == WORKED_ROWS


@pytest.mark.parametrize("head", ["", "not even XML", "<logs/>", "<!DOCTYPE log><log/>", "<?xml"])
def test_what_is_no_log_is_refused_by_its_head(head):
    with pytest.raises(InputSchemaError):
        XesReader().column_names(io.BytesIO(head.encode()))


# --- required columns ---


def test_noted_keys_are_bounded():
    keys = "".join(f'<string key="k{i}" value="v"/>' for i in range(5_000))
    long = f'<string key="{"x" * 100_000}" value="v"/>'
    with pytest.raises(InputSchemaError) as caught:
        batches(f"<log><trace><event>{long}{keys}</event></trace></log>", ["a"], ["a"])
    assert "and 980 more" in str(caught.value) and "xxx" not in str(caught.value)


# --- what is refused ---

BOMB = """<?xml version="1.0"?>
<!DOCTYPE log [<!ENTITY a "SECRET"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<log><trace><string key="concept:name" value="&b;"/></trace></log>"""

REFUSED = {
    "empty": ("", "the input is empty"),
    "no XML": ("case,activity\n1,SECRET\n", "not well-formed XML"),
    "other root": ("<html>SECRET</html>", "no XES log.*; see the operator's log$"),
    "entity bomb": (BOMB, "DOCTYPE"),
    "external entity": (
        '<!DOCTYPE log [<!ENTITY x SYSTEM "file:///etc/passwd">]><log a="&x;"/>',
        "DOCTYPE",
    ),
    "undefined entity": ('<log>\n<string key="a" value="&SECRET;"/></log>', "undefined"),
    "truncated": (WORKED[:-20], "not well-formed XML"),
    "wrong end": ("<log><SECRET></log>", "mismatched tag"),
    "control character": ('<log><string key="a" value="SECRET\x01"/></log>', "invalid token"),
    "unknown encoding": ('<?xml version="1.0" encoding="SECRET"?><log/>', "encoding"),
    "other encoding": ('<?xml version="1.0" encoding="utf-16"?><log/>', "encoding"),
    "event in event": ("<log><trace><event><event/></event></trace></log>", "<event> stands"),
    "event in attribute": ('<log><list key="a"><event/></list></log>', "<event> stands"),
    "trace in trace": ("<log><trace><trace/></trace></log>", "<trace> stands"),
    "gzip": (gzip.compress(b"<log/>"), "not well-formed XML"),
}


@pytest.mark.parametrize(("source", "pattern"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_without_data_and_with_the_line_in_the_log_alone(source, pattern, caplog):
    logging.getLogger("tracecloak").addHandler(caplog.handler)
    with pytest.raises(InputSchemaError, match=pattern) as caught:
        batches(source)
    logging.getLogger("tracecloak").removeHandler(caplog.handler)
    text = source if isinstance(source, str) else source.decode("latin-1")
    at = re.findall(r"at line (\d+): ", caplog.text)
    assert text == "" or 1 <= int(at[0]) <= text.count("\n") + 1
    shown: BaseException | None = caught.value
    assert "SECRET" not in str(shown) + caplog.text
    assert "line " not in str(shown)
    # What a traceback would show besides must hold no data either.
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_depth_is_bounded():
    def nested(depth: int) -> str:  # elements inside each other, the log counted
        inner = '<list key="a">' * (depth - 3) + "</list>" * (depth - 3)
        return f"<log><trace><event>{inner}</event></trace></log>"

    assert len(batches(nested(256))) == 1
    with pytest.raises(InputSchemaError, match="nested more than 256 deep"):
        batches(nested(257))


@pytest.mark.parametrize("odd", ["", "<odd/>"])  # which is not regular
@pytest.mark.parametrize("names", [("1", "x" * 2_000), ("x" * 1_000, "a", "b")])
def test_wide_events_leave_before_the_batch_is_full(names, odd, monkeypatch):
    """Whether the event or its trace is wide: what is read of this is repeated with each event."""

    def pieces() -> Iterator[bytes]:
        yield b"<log>"
        for _ in range(1_000):
            yield trace(*names).replace("</trace>", f"{odd}</trace>").encode()
        yield b"</log>"

    monkeypatch.setattr("tracecloak.transforms.formats.xes._BATCH_BYTES", 650_000)
    n_events, more = 1_000 * (len(names) - 1), pieces()
    stream = Trickle(b"", lambda: next(more, b""))
    found = [b.columns.num_rows for b in XesReader().read(stream, NAMES, (), 100_000)]
    assert sum(found) == n_events and max(found) < 700


def test_a_long_trace_that_ends_is_refused_as_well(monkeypatch):
    """Catches a limit that holds only where a piece of the file ends within the trace."""
    monkeypatch.setattr("tracecloak.transforms.formats.xes._TRACE_BYTES", 1_000)
    data = f"<log>{trace('1', *['a'] * 100)}{trace('2', 'a')}</log>".encode()
    with pytest.raises(InputSchemaError, match="a trace takes more than 512 MiB"):
        list(XesReader().read(io.BytesIO(data), [CASE], [CASE], 1_000))


# --- robustness ---


def outcome(data: bytes) -> int | None:
    """Rows read, or None if the file was refused; anything else is a fault."""
    try:
        return sum(len(b.records) for b in batches(data, WORKED_ROWS, [ACTIVITY], rows=3))
    except InputSchemaError as error:
        assert len(str(error)) < 2_000
        return None


def test_truncations_are_refused():
    data = WORKED.rstrip().encode()
    assert outcome(data) == 4
    assert all(outcome(data[:length]) is None for length in range(len(data)))


def test_any_declared_encoding_gives_batches_or_a_refusal():
    names = {*encodings.aliases.aliases, *encodings.aliases.aliases.values(), "idna", "undefined"}
    latin = f"<log>{trace('1', 'a')}</log>".encode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # codecs of old age warn when they decode all bytes
        outcomes = {
            name: outcome(b'<?xml version="1.0" encoding="%s"?>' % name.encode() + latin)
            for name in sorted(names)
        }
    assert outcomes["latin_1"] == outcomes["cp1252"] == 1
    assert outcomes["utf_16"] is None and outcomes["idna"] is None
    assert codecs.lookup("base64_codec") and outcomes["base64_codec"] is None


# --- regular traces, and those without a name -----------------------------------------------------


WANTED = ("case:concept:name", "concept:name", "time:timestamp", "n", "case:n", "nowhere")

VALUES = [
    "A", "", "b & c", "5", "-0", " 7 ", "1e3", "2.50", "NaN", "-INF", "9" * 20,
    "ä€😀", "a'b", "x>y",
    "2024-01-01T00:00:00Z", "tab\there", "\x7f", "\ufdd0", "]]>", "1_0",
]  # fmt: skip
KEYS = ["concept:name", "time:timestamp", "n", "m", "ключ"]
TAGS = ["string", "date", "int", "float", "boolean", "id"]
ODD = [
    "<!-- <trace> -->", "<![CDATA[</trace>]]>", "<list key='x'/>", "<odd/>", "text",
    "<?pi </trace>?>", '<string key="n" value="1"><string key="n" value="2"/></string>', "<event/>",
    "<event></event>", '<string value="1" key="n"/>', '<string key="n"/>',
    '<container key="c"><event/></container>',
]  # fmt: skip
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
        assert read_regular(f"<trace>{inner}</trace>".encode()) is None, inner
    assert read_regular(f"<trace><event>{a}</event></trace>".encode()) is not None


# --- Traces without a name ------------------------------------------------------------------------


def names_of(traces: list[str], path: str = "a.xes", batch_rows: int = 1000) -> list[Any]:
    """The name of each trace by its events, of which all are together."""
    data = f"<log>{''.join(traces)}</log>".encode()
    reader = XesReader(unnamed=("case:concept:name", path))
    names: dict[int, set[str]] = {}
    for batch in reader.read(io.BytesIO(data), WANTED[:2], WANTED[:1], batch_rows):
        assert batch.traces is not None
        for number, name in zip(batch.traces.tolist(), batch.columns[0].to_pylist(), strict=True):
            names.setdefault(number, set()).add(name)
    assert all(len(each) == 1 for each in names.values())
    return [name for number in sorted(names) for name in names[number]]


def test_a_trace_without_a_name_gets_one_that_no_other_trace_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named, empty = trace("x", "A"), trace("", "A")
    traces = [bare("A", "B"), named, bare("B"), bare("A", "B"), empty, bare("A")]
    first, x, b, second, nameless, a = names_of(traces)
    assert x == "x" and len({first, b, second, nameless, a}) == 5
    assert (first[-2:], second[-2:]) == ("-1", "-2") and first[:-2] == second[:-2]
    for added in (bare("C"), named, bare("A", "B")):
        for place in range(len(traces)):
            more = names_of([*traces[:place], added, *traces[place:]], batch_rows=1)
            assert {first, x, b, second, nameless, a} <= set(more)
    assert set(names_of(traces, "b.xes")).isdisjoint({first, b, second, nameless, a})
    numbered = [bare("A", own='<int key="k" value="5"/>')]
    for _ in range(2):  # a name is the same in every version: releases know cases by it
        assert names_of(traces) == [first, x, b, second, nameless, a]
        assert names_of(numbered) == ["397f025d8c78265ac3ab8aacb80cd534-1"]
        monkeypatch.setattr(xes, "read_regular", lambda *_: None)


def test_all_that_is_read_of_a_trace_makes_its_name() -> None:
    """Whether a value is of the trace or of which event, and where one ends, makes a difference."""
    value = '<string key="{}" value="{}"/>'.format
    traces = [
        bare("A"),
        bare("A", own=value("k", "A")),
        bare("A", own=value("k", "B")),
        bare("A", own=value("m", "A")),
        bare("A").replace("</trace>", value("k", "A") + "</trace>"),
        bare("A").replace("</event>", value("k", "A") + "</event>"),
        bare("A").replace("<event>", "<event>" + value("k", "A")),
        bare("A", "A"),
        bare("AA"),
        bare("A").replace("</trace>", "<event/></trace>"),
    ]
    assert len(set(names_of(traces))) == len(traces)
    # How it is written does not: blanks, references and tags say the same.
    others = [bare("A").replace("><", ">\n  <"), bare("&#65;").replace("string", "id")]
    assert [name[:-2] for name in names_of([bare("A"), *others])] == [names_of(traces)[0][:-2]] * 3
