from __future__ import annotations

import codecs
import encodings.aliases
import gzip
import io
import logging
import re
import warnings
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest

from tests.support.format_streams import Trickle
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.transforms.formats.base import RawBatch
from tracecloak.transforms.formats.xes import XesReader

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


def trace(case: str, *events: str) -> str:
    inner = "".join(f'<event><string key="concept:name" value="{e}"/></event>' for e in events)
    return f'<trace><string key="concept:name" value="{case}"/>{inner}</trace>'


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
    assert "and 979 more" in str(caught.value) and "xxx" not in str(caught.value)


# --- what is refused ---

BOMB = """<?xml version="1.0"?>
<!DOCTYPE log [<!ENTITY a "SECRET"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<log><trace><string key="concept:name" value="&b;"/></trace></log>"""

REFUSED = {
    "empty": ("", "the input is empty"),
    "no XML": ("case,activity\n1,SECRET\n", "not well-formed XML"),
    "other root": ("<html>SECRET</html>", "no XES log.*; the operator's log says at .* xmllint$"),
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


def test_xml_names_are_bounded():
    names = "".join(f"<n{i} a{i}=''/>" for i in range(20_000))
    with pytest.raises(InputSchemaError, match="different XML names"):
        batches(f"<log>{names}</log>")


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
