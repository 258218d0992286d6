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
    "case events": "keys individuals case publish times orders event_ids activities",
    "clipped flows": "keys values",
    "closed cases": "traces",
    "counted cases": "names steps counts",
    "input digest": "lanes n_events",
    "kept counts": "counts measured",
    "kept variants": "counted fresh measured measured_fresh",
    "open cases": (
        "keys individuals closes offsets publish times orders event_ids activities closed_keys "
        "closed_until released_before"
    ),
    "statistics": "by_name",
    "step log": (
        "release_id epoch step start_us end_us n_steps_left epsilon delta traces product view"
    ),
    "traces": "case_ids offsets activities times vocabulary individuals attributes",
    "variant histogram": "sequences counts",
}
# `Statistics` of some kept counts and of no open cases, as the first version with names wrote it.
RECORDED = (
    "c-qBQJxmlq6n@7YctJG803uRsE+$am<%EMfjRmEJ1qFqP7+7|fu;Ko4yGJBQLP<$sL5u~ZB_)Lgg$0F$g@uI$1qB6#"
    "g$0p=_07!g?cTV%GsGy9%<jDT-uJ$FGdr{6IF3`i3D66qbi-}vf=)<d3rix^>hHm4%IzQRByEJTlKwP436{ooGsUn|"
    "e5_}*l4@C*CrZY$Rok>|Q?oK-N@mG4N;>IZ&n&LZSJbjW+q$XQw6S8;Sfj-!J&IOsRBS$g+ew<0M!B{|yt8i9><HnF"
    "WPPG;uhocH=BZgEwzaHM`{nqn4K&M!YBlPH9v`mdB?!1dLRM==r9BtYqiCvS@TsgAYmtc%(nywiw5c}QRdZts%fzhc"
    "=BlYT)RG`%&`}UMM<Z*cDj9lgP}e7Jeps;T(voG^f@q#oT)0OxT&=NKGOgwKaGsNRbhcR*Wy)M660Pe-U6d#D5eG9?"
    "jfy>Q>VkN_TkOKpkg8_mXJDJ6d;@;%<IINyrJsR5FaEBBj#8huOTcYymZU;6Pw~{&jS}u|BrF<B)jB(uEKMz`b!<L-"
    "JU%`#Q5ernOcf{dg~DVpSJ+^Moss}{UDXWKR966Qp*@Rd<q@8RwG=%-VLJ(+VBPBgn8x}A577mzrwG4cF0lK{aqx8Q"
    "@56Q;{Ihlp>oC^16v;SFkblf#bdd9V(2W7^+q8``X@8|YkeJ3t-?^`u3uumFy&tVfRt#PsclKPYH`R0;qO}>LH58)d"
    "e{%qzkb5AZwRg^PQ}FR4M(<vTUTfcw`NuKmnqs{>7c95Armr;?(0YJ%AViDpd4TuG+mX=OYWiz-7^Br6qD9Xt^1sHh"
    "rY^)<KLc9%i)gL8AzJPs3pVm<5?TuvzSiy)wcP&$93k(!gx2SPR?p?t){Fhw0G=c7*`-*kc<F1szP#EV3;delBXaj8"
    "^xiq_J3Nlbt1m>0Ze)TZUvYe$;ZU6}yz8a#iDwwr87Dfg!8Wb-`xA-z7P;GwIIm5|pT~m;z2YBh7QFruzZCWD#TiKB"
    "=x@;5Yp;99W%^2lKDpzjk&$K)9S126xj%QZIR$zj9&m5aJv2HbQ#7YD@Jct@J*~U+T$0_r6X2ITM3-Lf9o4UJxWeH%"
    "4$pD;G>1=f_zZ{3+8%#_!)0xcU*m9D+v9I?xM#cT3tJq%#qoDIT-NsZA2?jr_W1i8E^B-ILk^d<J^nWim$g0q35Uzt"
    "9{-HP&qDUf5Vx;L>EP_E;_#30#5L>xZ=9d^M8rCHb~11_|4m82^%jTy&)_%EFa6a"
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
