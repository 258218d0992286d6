"""Writes a process tree as PTML, as a Petri net in PNML and as BPMN with its drawing.

Equal trees are equal bytes: identifiers are numbers, and there is no clock. What XML cannot hold of
a name becomes U+FFFD. The formats are those that ProM, pm4py and editors of BPMN read:
PTML is ProM's of process trees; PNML is ISO/IEC 15909-2 with ProM's mark of silent transitions and
the final marking of pm4py; BPMN is OMG BPMN 2.0.2 with one private process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from tracecloak.schemas.models.petri_net import Tokens, net_of_tree
from tracecloak.schemas.models.process_tree import Operator, ProcessTree
from tracecloak.transforms.formats.xes_writer import sanitise
from tracecloak.transforms.models.tree_layout import Diagram, lay_out_tree

_HEAD = '<?xml version="1.0" encoding="UTF-8"?>'
_PTML_TAGS: dict[Operator, str] = {
    "sequence": "sequence",
    "exclusive": "xor",
    "parallel": "and",
    "loop": "xorLoop",
}
_PNML_NET = "http://www.pnml.org/version-2009/grammar/pnmlcoremodel"
_BPMN_TAGS = {
    "start": "startEvent",
    "end": "endEvent",
    "task": "task",
    "exclusive": "exclusiveGateway",
    "parallel": "parallelGateway",
}
_BPMN_SPACES = (
    'xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"'
    ' xmlns:bpmndi="http://www.omg.org/spec/BPMN/20100524/DI"'
    ' xmlns:omgdc="http://www.omg.org/spec/DD/20100524/DC"'
    ' xmlns:omgdi="http://www.omg.org/spec/DD/20100524/DI"'
)


def _attribute(text: str) -> str:
    return quoteattr(sanitise(text))


def _text(text: str) -> str:
    return escape(sanitise(text), {"\r": "&#13;"})


def _document(lines: Sequence[str]) -> str:
    return "\n".join([_HEAD, *lines, ""])


# --- PTML -----------------------------------------------------------------------------------------


def write_ptml(tree: ProcessTree, title: str) -> str:
    """Returns the tree as PTML; a loop has a third child, silent, which comes after it.

    Args:
        tree: What to write.
        title: Name of the process.
    """
    nodes: list[str] = []
    edges: list[str] = []

    def add(node: ProcessTree, parent: str | None) -> None:
        name = f"n{len(nodes)}"
        if node.operator is not None:
            nodes.append(f'<{_PTML_TAGS[node.operator]} id="{name}" name=""/>')
        elif node.label is not None:
            nodes.append(f'<manualTask id="{name}" name={_attribute(node.label)}/>')
        else:
            nodes.append(f'<automaticTask id="{name}" name=""/>')
        if parent is not None:
            edges.append(f'<parentsNode id="e{len(edges)}" sourceId="{parent}" targetId="{name}"/>')
        for child in (*node.children, *[ProcessTree()] * (node.operator == "loop")):
            add(child, name)

    add(tree, None)
    return _document(
        [
            "<ptml>",
            f'<processTree id="tree" name={_attribute(title)} root="n0">',
            *nodes,
            *edges,
            "</processTree>",
            "</ptml>",
        ]
    )


# --- PNML -----------------------------------------------------------------------------------------


def write_pnml(tree: ProcessTree, title: str) -> str:
    """Returns the tree's Petri net as PNML, with its initial and final marking.

    Args:
        tree: What to write.
        title: Name of the net.
    """
    net = net_of_tree(tree)
    places = {
        place: f"p{i}"
        for i, place in enumerate(
            dict.fromkeys(
                place
                for tokens in (net.initial, *(t.takes for t in net.transitions),
                               *(t.gives for t in net.transitions), net.final)
                for place in tokens
            )
        )
    }  # fmt: skip
    return _document(
        [
            "<pnml>",
            f'<net id="net" type="{_PNML_NET}">',
            f"<name><text>{_text(title)}</text></name>",
            '<page id="page">',
            *_pnml_places(places, net.initial),
            *(
                line
                for i, transition in enumerate(net.transitions)
                for line in _pnml_transition(i, transition.label)
            ),
            *(
                f'<arc id="{way}{i}-{places[place]}" source="{ends[0]}" target="{ends[1]}"/>'
                for i, transition in enumerate(net.transitions)
                for way, tokens in (("in", transition.takes), ("out", transition.gives))
                for place in tokens
                for ends in ((places[place], f"t{i}")[:: 1 if way == "in" else -1],)
            ),
            "</page>",
            "<finalmarkings>",
            "<marking>",
            *(
                f'<place idref="{places[place]}"><text>{n}</text></place>'
                for place, n in net.final.items()
            ),
            "</marking>",
            "</finalmarkings>",
            "</net>",
            "</pnml>",
        ]
    )


def _pnml_places(places: dict[str, str], initial: Tokens) -> Iterator[str]:
    for place, name in places.items():
        tokens = initial.get(place, 0)
        marking = f"<initialMarking><text>{tokens}</text></initialMarking>" if tokens else ""
        yield f'<place id="{name}"><name><text>{name}</text></name>{marking}</place>'


def _pnml_transition(number: int, label: str | None) -> Iterator[str]:
    yield f'<transition id="t{number}">'
    if label is None:
        yield f"<name><text>t{number}</text></name>"
        yield (
            '<toolspecific tool="ProM" version="6.4" activity="$invisible$"'
            f' localNodeID="t{number}"/>'
        )
    else:
        yield f"<name><text>{_text(label)}</text></name>"
    yield "</transition>"


# --- BPMN -----------------------------------------------------------------------------------------


def write_bpmn(tree: ProcessTree, title: str) -> str:
    """Returns the tree as BPMN: tasks and gateways, and where each of them stands.

    Args:
        tree: What to write.
        title: Name of the process.
    """
    diagram = lay_out_tree(tree)
    return _document(
        [
            f'<definitions {_BPMN_SPACES} id="definitions" targetNamespace="urn:tracecloak">',
            f'<process id="process" name={_attribute(title)} isExecutable="false">',
            *_bpmn_nodes(diagram),
            *(
                f'<sequenceFlow id="flow{i}" sourceRef="node{flow.source}"'
                f' targetRef="node{flow.target}"/>'
                for i, flow in enumerate(diagram.flows)
            ),
            "</process>",
            '<bpmndi:BPMNDiagram id="diagram">',
            '<bpmndi:BPMNPlane id="plane" bpmnElement="process">',
            *_bpmn_drawing(diagram),
            "</bpmndi:BPMNPlane>",
            "</bpmndi:BPMNDiagram>",
            "</definitions>",
        ]
    )


def _bpmn_nodes(diagram: Diagram) -> Iterator[str]:
    for i, node in enumerate(diagram.nodes):
        tag = _BPMN_TAGS[node.kind]
        incoming = [j for j, flow in enumerate(diagram.flows) if flow.target == i]
        outgoing = [j for j, flow in enumerate(diagram.flows) if flow.source == i]
        direction = ""
        if node.kind in ("exclusive", "parallel"):
            which = "Diverging" if len(outgoing) > 1 else "Converging"
            direction = f' gatewayDirection="{which}"'
        yield f'<{tag} id="node{i}" name={_attribute(node.label or "")}{direction}>'
        yield from (f"<incoming>flow{j}</incoming>" for j in incoming)
        yield from (f"<outgoing>flow{j}</outgoing>" for j in outgoing)
        yield f"</{tag}>"


def _bpmn_drawing(diagram: Diagram) -> Iterator[str]:
    for i, node in enumerate(diagram.nodes):
        yield f'<bpmndi:BPMNShape id="shape{i}" bpmnElement="node{i}">'
        yield (
            f'<omgdc:Bounds x="{node.x:.1f}" y="{node.y:.1f}" width="{node.width:.1f}"'
            f' height="{node.height:.1f}"/>'
        )
        yield "</bpmndi:BPMNShape>"
    for i, flow in enumerate(diagram.flows):
        yield f'<bpmndi:BPMNEdge id="edge{i}" bpmnElement="flow{i}">'
        yield from (f'<omgdi:waypoint x="{x:.1f}" y="{y:.1f}"/>' for x, y in flow.points)
        yield "</bpmndi:BPMNEdge>"
