"""What a stream keeps may be read by a later version: its classes have names that stay.

Whoever moves a class changes its place in `transforms.arrow_coder.NAMES`. Whoever changes what a
name stands for cannot read what was kept: it is refused, and another epoch has to begin.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import fields, make_dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.stream_runs import in_time, random_messages, run, stream_config
from tracecloak.anonymizers.streams.dfg_steps import KeptCounts
from tracecloak.schemas.arrays import columnar
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.plugins import load
from tracecloak.schemas.streams.open_cases import OpenCases
from tracecloak.transforms.arrow_coder import NAMES

FIELDS = {
    "activity vocabulary": "names",
    "case events": "keys individuals case publish times orders event_ids activities",
    "clipped flows": "keys values",
    "closed cases": "traces",
    "closed keys": "runs",
    "closed run": "keys until",
    "counted cases": "names steps counts",
    "input digest": "lanes n_events",
    "kept counts": "counts measured",
    "kept variants": "counted fresh measured measured_fresh",
    "open cases": (
        "keys individuals closes latest offsets publish times orders event_ids activities closed"
    ),
    "statistics": "by_name",
    "step log": (
        "release_id epoch step start_us end_us n_steps_left epsilon delta traces product view"
    ),
    "traces": "case_ids offsets activities times vocabulary individuals attributes",
    "variant histogram": "sequences counts",
}
# `Statistics` of some kept counts and of no open case and one that has closed.
RECORDED = (
    "c-qZZzi-n(6n;rluuz3Mlv1FB6@ki7MJdWqp$;7w7#J8jAW_ts*j242X%t^7s;W|l4vY*86=GmOh>?+jfuTc%_yamHFfcG"
    "MFfbt6)V%u@+lTGD2n1NV_}+c*ecwI%?wu2cVK_emFbecK183nB41<L|yb7iMIJ!VdjK3PDeT1>maSMMbW?_F<U>kVfD%T"
    "rM5R|Xm<$yTE4~Sn6%F}jv#rGO69p5V7-&|@rO^@|mzfM?Z&1>^cKc0@*_4RIxs03n=c3a(Mdy{%s1Z!oA#!XeCK$mQ`sa"
    "Sc=pQU!N>M;B6wR_uWHa#ckc04zquJ5HG+@_T4ZLgKgg^t*DC-Br%*1XNkL}<`dg?S`YyGhmRw9PZ|Tdu$1yIrTDp^Q6fn"
    "5&Gr-dLwo&m|Q;dC!NFH5}pvB%e(9=*iYsRsxS`rY4>8=w=vQyL-Rk2dnvX(n&u%;x~1Vjk_2m+Ht*(E>G^GC-XME7FqIL"
    "4PWGzyGj_PQzy8lh_A~x=9ipjErpb=DL1*5_?RuXMQks1x~(8tRH~_==r`~#<e?QRQJJb5?8+IrE3pjujlsxyh-S6MFJLv"
    "Abey_}T+SL`O$Ru{dhBBRhQ)ao+ZeXzLjW~w`$d2SY@e{8lL9a7yTI$X{UZ!<;M^GY=OC*4HEdU~8BHJk+Q`%3Tt#}OOb9"
    "Lzcb|Ao+FxWoP?*P`r#ae}4YcWdp`2fk=d*$KyCXac@jiAG=~iR9SFv48(T$cdz#WWTIMQp~IO2KQ^vulByO5&S--?JGVC"
    "=qu-iu?N+t--ZbWDpr&+!y3UPf?U7(aci*O@$y-rwSJw$`~6Emr>Md&jsv1FeTKt%Dq`^C?=QZiCee!%|PL^)04V>kXzQj"
    "vOEu*EY~v?nPS9dV{?$epmv0#JCRzTJK|8BPWAt@lzh)7RKE?(QD0~L|P9{ve*2j6s_223cSJC*9Lk|LcZod<>WP%q9yCb"
    "WsJAONM|xt=M;YTmhcyVYTXXA^O{I#CBG#p=VOe06zcQZ38UxuHbZarmv<Kb6sCS9<~xc{z{1&|W?%B7;(MR#+Zp=wd*8w"
    "ci$iQ4IE`>`m_JWo{|m;&KZy~>3_~TBk6jQBcuGx({|)rKdOF1agY;pML)JB_+_T1Q1-BKvs^C=xpI7jC1;4G}rnZb<R&Y"
    "~W#<vyR)Ryr(3T|r4_(uvZZLv0BPr>(;_?HT9YRmZ73T|r4_yYwuwPpOFf}7eh{<DIc+A{vTf`3<VtB}N{E%6Bjm$nrfn^"
    "g8Cy^4xGC=UM^FZ}28gWr6<S$stWFJ|CFvAX{!uLAs?OP7b7$FR7E{7i+PXA(wr"
)
STREAMS: dict[str, dict[str, Any]] = {
    "graphs of individuals": {
        "view": "total", "individual_id": "person", "max_cases_per_individual": 2,
    },
    "variants": {"product": "variants", "view": "total", "epsilon": "40"},
    "logs": {
        "product": "log", "epsilon": "40", "first_date": "1970-01-01", "last_date": "1970-01-02",
        "n_duration_bins": 4, "l2_clip": "4",
    },
}  # fmt: skip


def test_names_and_fields_are_those_of_what_was_kept() -> None:
    found = {name: " ".join(f.name for f in fields(load(place))) for name, place in NAMES.items()}
    assert found == FIELDS


def test_the_name_is_written_and_not_the_place() -> None:
    with pa.ipc.open_stream(encode(OpenCases.none())) as reader:
        layout = json.loads(reader.schema.metadata[columnar._KEY])
    assert layout["class"] == "open cases"


def test_a_message_that_was_recorded_is_read() -> None:
    kept = decode(zlib.decompress(base64.b85decode("".join(RECORDED))))
    assert isinstance(kept, Statistics) and list(kept.by_name) == ["kept", "open"]
    counts = kept.by_name["kept"]
    assert isinstance(counts, KeptCounts)
    assert (counts.counts.tolist(), counts.measured.tolist()) == ([1, 2], [3, 4])
    opened = kept.by_name["open"]
    assert isinstance(opened, OpenCases)
    assert opened.keys.shape == (0, 2)
    run = opened.closed.runs["0"]
    assert (run.keys.tolist(), run.until.tolist()) == ([[3, 4]], [5])


def test_a_value_of_another_version_is_refused_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = zlib.decompress(base64.b85decode("".join(RECORDED)))
    later = make_dataclass("ClosedRun", ["keys", "until", "more"], frozen=True)
    monkeypatch.setattr(columnar, "load", lambda place: later if "Run" in place else load(place))
    with pytest.raises(UsageError, match="closed run was kept by another version of tracecloak"):
        decode(data)


class _Noting(dict[str, str]):
    """Names by places that says which places were looked for."""

    asked: set[str]

    def get(self, place: str, default: Any = None) -> Any:
        self.asked.add(place)
        return super().get(place, default)


def test_all_that_streams_keep_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noting = _Noting(columnar._NAME_OF)
    noting.asked = set()
    monkeypatch.setattr(columnar, "_NAME_OF", noting)
    # What the rounds of a log decide within a step is looked at, and not kept beyond it.
    monkeypatch.setattr("tracecloak.anonymizers.contract.draws.digest", lambda value: "decided")
    for number, changes in enumerate(STREAMS.values()):
        sent = random_messages(20)
        if "individual_id" in changes:
            sent = [s._replace(individual=f"p{s.case[:2]}") for s in sent]
        folder = tmp_path / str(number)
        folder.mkdir()
        run(stream_config(folder, horizon=2, **changes), in_time(sent, 40))
    assert noting.asked == set(NAMES.values())
