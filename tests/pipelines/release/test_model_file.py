"""Public models from files: what pm4py writes, what is written by hand, and what is refused."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.support.tiers import each_row
from tracecloak.anonymizers.queries.order_rules import NamedRules, rules_of_model
from tracecloak.pipelines.configuration.model_file import read_model_rules
from tracecloak.schemas import models
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.models import net_of_tree, parse_tree

TREE = "->( 'R', *( 'T', X( tau, 'A' ) ), +( 'S', 'C' ), X( 'L', 'D' ) )"
# Silent steps that one can go round are no BPMN of ours to write.
TREES = [TREE, "X( 'A', ->( 'B', 'C' ) )", "+( 'A', ->( 'B', *( 'C', 'D' ) ) )"]


def rules_of(tree: str) -> NamedRules:
    return rules_of_model(net_of_tree(parse_tree(tree)))


def written(folder: Path, name: str, text: str | bytes) -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_a_tree_and_rules_by_name_are_read(tmp_path: Path) -> None:
    expected = rules_of(TREE)
    assert read_model_rules(written(tmp_path, "model.tree", TREE)) == expected
    body = expected.model_dump(mode="json")
    assert read_model_rules(written(tmp_path, "model.JSON", json.dumps(body))) == expected
    yaml = "activities: [A, B]\nbegins: [A]\nnever: [[B, A]]\n"
    assert read_model_rules(written(tmp_path, "model.yaml", yaml)).never == (("B", "A"),)


@pytest.mark.filterwarnings("ignore")  # of pm4py's dependencies
@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("ending", ["ptml", "pnml", "bpmn"])
def test_what_pm4py_writes_is_read(tmp_path: Path, tree: str, ending: str) -> None:
    """The same rules of the same tree, whatever it is turned into."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pm4py: Any = pytest.importorskip("pm4py")
    theirs = pm4py.parse_process_tree(tree)
    path = str(tmp_path / f"model.{ending}")
    if ending == "ptml":
        pm4py.write_ptml(theirs, path)
    elif ending == "pnml":
        pm4py.write_pnml(*pm4py.convert_to_petri_net(theirs), path)
    else:
        from pm4py.objects.bpmn.exporter import exporter  # without a drawing

        exporter.apply(pm4py.convert_to_bpmn(theirs), path)
    assert read_model_rules(path) == rules_of(tree)


BPMN = """<?xml version="1.0"?>
<b:definitions xmlns:b="http://www.omg.org/spec/BPMN/20100524/MODEL"><b:process id="p">
<b:startEvent id="s"/><b:userTask id="a" name="A"/><b:parallelGateway id="f"/>
<b:task id="x" name="X"/><b:task id="y" name="Y"/><b:exclusiveGateway id="g"/>
<b:endEvent id="e"/><b:endEvent id="e2"/>
<b:sequenceFlow id="1" sourceRef="s" targetRef="a"/>
<b:sequenceFlow id="2" sourceRef="a" targetRef="f"/>
<b:sequenceFlow id="3" sourceRef="f" targetRef="x"/>
<b:sequenceFlow id="4" sourceRef="f" targetRef="y"/>
<b:sequenceFlow id="5" sourceRef="x" targetRef="e"/>
<b:sequenceFlow id="6" sourceRef="y" targetRef="g"/>
<b:sequenceFlow id="7" sourceRef="g" targetRef="y"/>
<b:sequenceFlow id="8" sourceRef="g" targetRef="e2"/>
</b:process></b:definitions>"""

PNML = """<pnml><net id="n" type="http://www.pnml.org/version-2009/grammar/pnmlcoremodel">
<place id="p"><initialMarking><text>1</text></initialMarking></place><place id="q"/>
<place id="r"/>
<transition id="a"><name><text>A</text></name></transition>
<transition id="t"><name><text>t</text></name><toolspecific activity="$invisible$"/></transition>
<transition id="b"><name><text>B</text></name></transition>
<arc id="1" source="p" target="a"/><arc id="2" source="a" target="q"/>
<arc id="3" source="q" target="t"/><arc id="4" source="t" target="p"/>
<arc id="5" source="q" target="b"/><arc id="6" source="b" target="r"/>
</net></pnml>"""


def test_models_written_by_hand_are_read(tmp_path: Path) -> None:
    """A, then X beside Y at least once; and A at least once, then B, which ends in the one sink."""
    found = read_model_rules(written(tmp_path, "m.bpmn", BPMN))
    assert found == rules_of("->( 'A', +( 'X', *( 'Y', tau ) ) )")
    found = read_model_rules(written(tmp_path, "m.pnml", PNML))
    assert found == rules_of("->( *( 'A', tau ), 'B' )")


FINAL = '<finalmarkings><marking><place idref="r"/></marking></finalmarkings>'
BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><pnml><net>&b;</net></pnml>'


@each_row(
    ("name", "text", "told"),
    [
        ("m.txt", "", "must be a file that ends in .ptml, .pnml, .bpmn, .tree, .yaml"),
        ("m.pnml", BOMB, "a DOCTYPE is not allowed"),
        ("m.pnml", "<pnml>", "no well-formed XML"),
        ("m.pnml", "<pnml/>", "one <net>, got 0"),
        ("m.pnml", PNML.replace("<text>1<", "<text>one<"), "whole number, got 'one'"),
        ("m.pnml", PNML.replace("<text>1<", "<text>0<"), "an initial marking"),
        ("m.pnml", PNML.replace('source="b" target="r"', 'source="b" target="a"'), "back"),
        ("m.pnml", PNML.replace('<place id="r"/>', ""), "an arc of PNML must lead"),
        (
            "m.pnml",
            PNML.replace('target="r"/>', 'target="r"><arctype><text>reset</text></arctype></arc>'),
            "type 'reset' is not understood",
        ),
        ("m.pnml", PNML.replace("</net>", f"{FINAL}{FINAL}</net>"), "must have one final marking"),
        ("m.pnml", PNML.replace("</net>", '<place id="s"/></net>'), "or one place that no arc"),
        (
            "m.pnml",
            PNML.replace("</net>", f"{FINAL}</net>".replace('"r"/></m', '"a"/></m')),
            "no way",
        ),
        ("m.bpmn", BPMN.replace("</b:definitions>", "<b:process/></b:definitions>"), "got 2"),
        ("m.bpmn", BPMN.replace("b:userTask", "b:subProcess"), "<subProcess> of BPMN is not"),
        ("m.bpmn", BPMN.replace("parallelGateway", "inclusiveGateway"), "<inclusiveGateway> of"),
        ("m.bpmn", BPMN.replace('sourceRef="s"', ""), "<sequenceFlow> lacks sourceRef"),
        ("m.bpmn", BPMN.replace('sourceRef="s"', 'sourceRef="z"'), "must join two events"),
        ("m.ptml", "<ptml/>", "one <processTree>, got 0"),
        (
            "m.ptml",
            '<ptml><processTree root="a"><and id="a"/><parentsNode sourceId="a" targetId="a"/>'
            "</processTree></ptml>",
            "are no tree",
        ),
        ("m.ptml", '<ptml><processTree root="a"><or id="a"/></processTree></ptml>', "<or> of a"),
        ("m.tree", b"\xff", "no UTF-8"),
        ("m.tree", "->( 'A'", "expected"),
        ("m.yaml", "activities: [", "no YAML"),
        ("m.yaml", "activities: [A]\nbegins: [B]", "'B', which is none of their activities"),
        ("m.json", "[]", "must be a mapping of names to values"),
    ],
)
def test_what_is_no_model_is_refused_by_name(
    tmp_path: Path, name: str, text: str | bytes, told: str
) -> None:
    path = written(tmp_path, name, text)
    with pytest.raises(UsageError) as raised:
        read_model_rules(path)
    assert told in str(raised.value) and "model" in str(raised.value)
    assert path in str(raised.value)


def test_a_model_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a public model that takes all memory, as a file or by its states."""
    path = written(tmp_path, "m.tree", "+( 'A', 'B', 'C', 'D' )")
    monkeypatch.setattr(models, "MAX_STATES", 10)
    with pytest.raises(UsageError, match="more than 10 states: simplify it"):
        read_model_rules(path)
    with pytest.raises(UsageError, match="has more than 16 MiB"):
        read_model_rules(written(tmp_path, "large.tree", " " * ((16 << 20) + 1)))
