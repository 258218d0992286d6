"""What a stream keeps may be read by a later version: its classes have names that stay.

Whoever moves a class changes its place in `transforms.arrow_coder.NAMES`. Whoever changes what a
name stands for cannot read what was kept: it has to be another name, beside the old one.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.stream_runs import in_time, random_messages, run, stream_config
from tracecloak.anonymizers.streams.dfg_steps import KeptCounts
from tracecloak.schemas.arrays import columnar
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.arrays.merging import Statistics
from tracecloak.schemas.plugins import load
from tracecloak.schemas.streams.open_cases import OpenCases
from tracecloak.transforms.arrow_coder import NAMES

FIELDS = {
    "activity vocabulary": "names",
    "case events": "keys individuals case publish times event_ids activities",
    "clipped flows": "keys values",
    "closed cases": "traces",
    "counted cases": "names steps counts",
    "kept counts": "counts measured",
    "kept variants": "counted fresh measured measured_fresh",
    "open cases": (
        "keys individuals closes offsets publish times event_ids activities closed_keys "
        "closed_until released_before"
    ),
    "statistics": "by_name",
    "traces": "case_ids offsets activities times vocabulary individuals attributes",
    "variant histogram": "sequences counts",
}
# `Statistics` of some kept counts and of no open cases, as the first version with names wrote it.
RECORDED = (
    "c-qBQJ#5oJ6uva3L{)?`v``>}6(N-"
    "&R3S}CKnxif7&@>4YF+!HT6GdDcB)3DsAI<t3<x1nF)=VOc3|kh(1C%m0|P^c4jtJ@V&2`^v2*z6D*jG7=iYtqd*A)"
    "OoZ~po<`hCXM9LJpgeK7ilz|qMlr-wk!dG(pk0sIu7%J({z?WbdXuo%{H}KgisD@%$g?n<rvK3pmY+bbqMY+(>v7wR"
    "vt-"
    "@+=xurBQZELz})5bbBS!2W}J+j*FwroCt+ew<OZqw`$?|C=s{2bxU&HF^n?wLfaa9^(x+geko{kZ&e8_XtFtZoNu@!"
    ">{Z2?4iB$hL`F<8vWBvZ`2^pUOJ!MNWi}=H{u#m}+-"
    "iwN#YZO!StfZ|GWAF%m)s9TOs#Xk^uBlcC23b$#O2hXrdl8Wy$_qIphn;cnA#W_Q)lt+n`Yo>TJZY`vK@Q|6K!3UA<"
    "+y{u~q;e5B)y`Ui#)rOt3^`s#N{Km&w2?<JfPFqesia|%A6X_D*ChCSzXy%!`v>j}~g#^MXZnQfrl~}4`C>?0tx?3("
    "UEL6*-g*&yyO0~LJD^<5yp}EZNC@Ka)Wu4`+6UbYpM3WubOCuyh{V;)09qJcIcq>rP0Di_?Q1*x8Kqj1-"
    "hIR${d9esJ4>fLXB(pvO{t}BZL2~V^8w0t&x{aHpU8g=MRfo?`K(iFkyb1Msv?kdq^a;3!0(x)zjzhH0VzjP>X!(Z?"
    "{2@lMpRASdv$@IedD4&8yBeZ5x-fw41NXIn-tz&Q+fhKP7|^-_btXiM-gWYS2YhLetn<C^?^$IKt#u_t%S}?q2A(OP"
    "wKDLv_Rp#1=2!F$cwYsyJ_oe2!)UF`QD+er@geXY43o8LLtkric)oKV_-jKSfqNjJ_sU^s<0NKY(;-"
    "^)auFQ(vg7OILv<$Mtt7!0?lsgUCwgA9V_M_y4-"
    ")eQaQB?#dF?p<Ivz&o)qdHt;PZ+2Nz^w7E0BTFU!)l`=e`k{z8s-X-iR4sWEe!pK?)4TA@9j)*UrKS*b6jEqocG$=X"
    "8p^G6i;a^cKyh+1oXR{8B>ECCB|n^~)SCb2zV2;_y0$*ExKN!$ob6zrx|7w#PR)T-"
    "5gXI~?xW?*5`(4&UYYFF9P)_W18OT-5gX2OKVHd;B8~7qvb9F^7xV9{-"
    "fXPeac7EO#$Rnc(d6;^;5qssF71r*VE=QxWUz+37&;{GF0Q|F$^n{{{U7?VQNa"
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
    assert (
        opened.keys.shape == (0, 2) and opened.released_before == OpenCases.none().released_before
    )


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
    for number, changes in enumerate(STREAMS.values()):
        sent = random_messages(20)
        if "individual_id" in changes:
            sent = [s._replace(individual=f"p{s.case[:2]}") for s in sent]
        folder = tmp_path / str(number)
        folder.mkdir()
        run(stream_config(folder, horizon=2, **changes), in_time(sent, 40))
    assert noting.asked == set(NAMES.values())
