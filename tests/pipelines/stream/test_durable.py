"""Decisions, and what a stream keeps, may be read by a later version: names and fields stay.

Whoever moves a class changes its place in `transforms.columnar_names`. Whoever changes what a
name stands for cannot read what was kept, and draws other noise: a class with other fields gets
another name, and the old one goes to `REMOVED`.
"""

from __future__ import annotations

import base64
import importlib
import pkgutil
import zlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, make_dataclass
from typing import Any

import pytest

from tracecloak import anonymizers, schemas
from tracecloak.anonymizers.contract.method import Decision
from tracecloak.anonymizers.streams.dfg_steps import KeptCounts
from tracecloak.schemas.arrays import columnar
from tracecloak.schemas.arrays.columnar import decode
from tracecloak.schemas.arrays.merging import CountsByKey, OfArrays, Statistics
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.streams.open_cases import OpenCases
from tracecloak.transforms.columnar_names import COLUMNAR

FIELDS = {
    "activity-counts": "names counts",
    "activity-relations": "sources targets counts counts_before_first first_codes first_counts",
    "activity-vocabulary": "names",
    "amun-compression": "noised_starts",
    "amun-dafsa": "dafsa log_start_us log_end_us",
    "amun-filter": "times is_dropped",
    "amun-sampling": "times scales gains losses",
    "amun-selection": "changed copies",
    "attribute-shares": "shares",
    "bought-clip": "clip_units",
    "bought-length": "max_trace_length",
    "bought-time-range": "time_range",
    "bought-vocabulary": "vocabulary",
    "case-events": "keys individuals case publish times orders event_ids activities",
    "case-months": "keys counts",
    "case-norms": "buckets counts",
    "case-ranks": "groups cases",
    "case-sketch": "digests",
    "binned-spans": "borders reached n_ticks counts deviation wide",
    "case-starts": "time bucket_days buckets n_hours rates",
    "case-tables": "by_period by_span of_periods deviation",
    "case-times": "periods spans",
    "clipped-cells": "keys values",
    "clipped-flows": "keys values",
    "closed-cases": "traces",
    "closed-keys": "runs",
    "closed-run": "keys until",
    "counted-cases": "names steps counts",
    "counted-units": "digests",
    "decision": "",
    "dafsa": "variants sources activities targets is_final path",
    "directly-follows": "sources targets counts",
    "duration-index": "offsets values",
    "duration-table": "groups values counts",
    "generated-variants": "variants",
    "granularity": "granularity",
    "graph": "graph durations figures",
    "graph-kind": "edges durations released lost most_lost",
    "handover-shares": "shares",
    "input-digest": "lanes n_events",
    "k-anonymous-events": "rows offsets kept",
    "k-follows": "sources targets distances",
    "kept-counts": "counts measured",
    "kept-variants": "counted fresh measured measured_fresh",
    "known-cases": "rows counts n_sensitive",
    "times-of-log": "steps step_counts spans span_counts days day_counts hours hour_counts",
    "released-groups": "activities groups graph",
    "released-measures": "what offsets texts values deviations",
    "service-times": "borders unknown reached places",
    "pair-times": "sums deviation clip is_pure",
    "measured-variants": "variants measures",
    "noisy-counts": "counts half_width",
    "open-cases": (
        "keys individuals closes latest offsets publish times orders event_ids activities closed"
    ),
    "pair-graph": "graph",
    "parts": "parts",
    "periods": "borders_us ranks",
    "pretsa-merging": "target begins durations",
    "pretsa-places": "cases places",
    "pretsa-variants": "variants",
    "pripel-contents": "sources released replica durations values",
    "pripel-query": "offsets codes matched raw released cases starts",
    "products": "by_name came_out",
    "pair-factors": "logs is_idle",
    "read-tally": "n_events counts first",
    "released-durations": "names edges_us sources targets bins counts lows highs",
    "released-figures": "figures sources targets values lows highs kinds",
    "released-graph": "names sources targets counts lows highs",
    "released-tree": "names text is_found fitness fitness_low fitness_high",
    "released-variants": "names offsets codes counts lows highs",
    "start-range": "first_us last_us",
    "statistics": "by_name",
    "binned-steps": "borders reached is_idle n_names n_ticks",
    "step-log": (
        "release_id epoch step start_us end_us n_steps_left epsilon delta traces product view"
    ),
    "step-sums": "sums offsets",
    "time-bins": "steps spans",
    "time-range": "first_us last_us",
    "tlkc-suppression": "offsets words",
    "trace-lengths": "lengths counts",
    "traces": "case_ids offsets activities times vocabulary individuals attributes",
    "tree": "tree",
    "trie": "parents activities counts is_end depths heights nodes",
    "variant-histogram": "sequences counts",
    "working-time": "opens_us closes_us time_zone first_us last_us",
    "yield": (
        "n_cases n_variants n_activities n_edges named_share case_share max_events longest_share "
        "unclear_share n_figures"
    ),
    "bought-groups": "names is_pair",
    "bought-longest-time": "longest_us",
    "cell-sums": "values",
    "chosen-points": "points",
    "noisy-cell-sums": "values",
    "pappi-aggregates": "n_cases values",
    "graded-indicators": "indicators groups values lows highs units kinds grades",
}
# `Statistics` of some kept counts and of no open case and one that has closed.
RECORDED = (
    "c-qZZzi-n(6n;rluuz3M6e!Taii*n6Mk(r0A%+eN3=9k%kN~xA?5b9iG>R`36+&X@z{tQ*AqED77#TY-Fm$L8e?SKY28Ip"
    "{3>_-k)V%u@+lTGD2n1NV_}+c*ecwI%?wu2cVK_GgFbwoM183nB41$F{yb7h>IJ!VdjK3SCeT1>maSMMbW?_F*VC#5)RIb"
    "&XAShqA%K>qS9}vG5lqc=-vhUShI{v7<w6V~18XoJrevPoss@LM3UOXL{s;zaJL?sY|wA<`7S{u~6B3LUEG;X321-fLTMa"
    "9ZD{8?%TD-N^oU3>5t&4%X$own!Z)AhVGgpVoZTFYxDbD<+sH7D@YR93x>%tUC=M1^@IR69x4>ZHvx@tdx{?z<hQuAz)OY"
    "M85xxmI7JQ_m$8K6%fFlhqyK1tgzL_~^;jmX`yMXr?Be^5~`+U8}QH_k)#uI_adJ9q}8w$HrX@5^cL)TbC#I(UW=WUXv{N"
    "u7)pi%Uvam(y0+#Q^eQh8}m!fb0&q9ttmITmH60{+!nFD)b2EcWKpT6hN55JyO4)gs6=I=YOpJ(<*vjs<k$Nn=OLQa8oz+"
    "mXwr6S9&$OWfHfUp59_gu?Es7OCbki5uLl5Tu<aB9=COUnf=&v&ux|pd<Mxj*#DQ}o*uMc$-JijB1)I_I(XWL(b<S0!XUe"
    "GH0&(|=*P#9T%m)f{`13MHd)z>qz8A{*4SDtrv_Br<S%~+Mqe!<J)4huAQi^W0i~;Uq?EH~l>*f*9)23%;j^4!-z1~(tY!"
    "_p94D{X{^W472v?gO(^m(37(c)zU=Y{c;$9kQy<LLd}KhD-Vm!ieWAARo_w`HL9G^Vwiqje!gOVn+!x?x!A>a`AHS~K1Lw"
    "8W7E1mju;T8rIC>s7bE_r(uOfG-&L*+A=4Ol#<*KP`UB1Kh^ATPJ$0*^@}?;Ys$Iznr2K`%HoN7`ttt_afwL{%cNNBPm+4"
    "Zj58R9Y#81sXC|dySIeD095Nvn4Q;XLM!<#NjaZm?6Xjx*OM@Mjvq4gW`B8S@lRpuS7N@y_yjDR{b}|kKP<lYxxSsDPrvs"
    "qjIcPw=7G})w+8w11opq+y!a<E#F$~A#PYEV!U0dIQSrZlo>wmi_<xWdEON-YhLwBPxUJx}f>#y1s^D`9KBwS!6x`I7@rw"
    "#>YRmYRf}7eh{)vK{+A{u`f=gSh4cJofEhYY~f}7ehep|s!Z5h9-;HI{W-&1f?TgLAzxT!7U4;B1S!L33Pm$t-56<pd@Y-"
    "~)~m-H$scE33MW4!R6&kug{`DXDI6}*^%55(&JpS%k2cP?EXavp=?9`Z94egdoBMyU"
)


def test_names_and_fields_are_those_of_what_was_kept() -> None:
    """Catches another meaning of a name: whoever adds a class adds a line, and changes none."""
    found = {name: {f.name for f in fields(kind)} for name, kind in COLUMNAR.ours.items()}
    assert found == {name: set(names.split()) for name, names in FIELDS.items()}


def test_a_class_is_called_as_in_the_table_and_every_one_is_in_it() -> None:
    """Catches a decision that the next build cannot read, and a name that is not its class's."""
    assert {name: kind.wire_name for name, kind in COLUMNAR.ours.items()} == {
        name: name for name in COLUMNAR.ours
    }
    classes = set(_classes()) - {CountsByKey, OfArrays}  # what some of them are made of
    listed = set(COLUMNAR.ours.values())
    decisions = {kind for kind in classes if issubclass(kind, Decision)}
    statistics = {kind for kind in classes if hasattr(kind, "merge") and hasattr(kind, "weight")}
    products = {kind for kind in classes if hasattr(kind, "to_table")}
    assert len(decisions) > 30 and len(statistics) > 20 and len(products) > 4
    assert decisions | {kind for kind in statistics | products if is_dataclass(kind)} <= listed
    assert {kind for kind in classes if "wire_name" in vars(kind)} == listed


def _classes() -> Iterator[type[Any]]:
    """The classes of all modules that a columnar class may be in."""
    for package in (schemas, anonymizers):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and value.__module__ == module.name:
                    yield value


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
    monkeypatch.setattr(columnar, "_MET", {"closed-run": later})
    with pytest.raises(UsageError, match="closed-run was kept by another version"):
        decode(data)
