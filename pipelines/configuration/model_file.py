"""Reads a public process model from a file: PTML, PNML, BPMN, a process tree as text, or rules.

The ending of the name says which one it is: `.ptml`, `.pnml`, `.bpmn`, `.tree` (the text form of
`schemas.models`), or `.yaml`, `.yml` and `.json`
(`anonymizers.queries.order_rules.NamedRules`: rules by name). It reads what these formats say of
the order of activities, and passes over data, resources, times and drawings. It refuses elements
that would change the order and that it does not understand: inhibitor and reset arcs, inclusive
gateways, sub-processes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from xml.etree import ElementTree

import pydantic

from tracecloak.anonymizers.contract.wrong_values import usage_error
from tracecloak.anonymizers.queries.order_rules import NamedRules, rules_of_model
from tracecloak.pipelines.configuration.flags import bytes_of
from tracecloak.schemas import models
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.texts import bounded_json, bounded_yaml


def read_model_rules(path: str) -> NamedRules:
    """Returns the rules of the model in a file.

    Raises:
        UsageError: The file cannot be read, is no model of its format, or has an element that is
            not understood; or its model has too many states or no way to its end.
    """
    ending = path.rpartition(".")[2].lower()
    if ending not in _READERS:
        raise UsageError(f"model must be a file that ends in .{', .'.join(_READERS)}, got {path!r}")
    data = bytes_of("model", path)
    try:
        return _READERS[ending](data)
    except UsageError as error:
        raise UsageError(f"model {path!r}: {error}") from None


# --- XML ------------------------------------------------------------------------------------------


class _NoDoctype(ElementTree.TreeBuilder):
    """Refuses a DOCTYPE, and so entities, which could fetch other files or fill the memory."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise UsageError("a DOCTYPE is not allowed")


def _xml(data: bytes) -> ElementTree.Element:
    parser = ElementTree.XMLParser(target=_NoDoctype())
    try:
        parser.feed(data)
        return parser.close()
    except ElementTree.ParseError as error:
        raise UsageError(f"no well-formed XML: {error}") from None


def _tag(element: ElementTree.Element) -> str:
    """The name of an element under any namespace."""
    return str(element.tag).rpartition("}")[2]


def _all(element: ElementTree.Element, *tags: str) -> Iterator[ElementTree.Element]:
    return (part for part in element.iter() if _tag(part) in tags)


def _text(element: ElementTree.Element, tag: str) -> str | None:
    """The text of the `<text>` in the first child of a name, as PNML has it."""
    for child in element:
        if _tag(child) == tag:
            for text in _all(child, "text"):
                return (text.text or "").strip()
    return None


def _named(element: ElementTree.Element, attribute: str) -> str:
    value = element.get(attribute)
    if value is None:
        raise UsageError(f"<{_tag(element)}> lacks {attribute}")
    return value


def _number(text: str | None, default: int) -> int:
    if text is None or text == "":
        return default
    if not text.isdecimal() or len(text) > 6:
        raise UsageError(f"a number of tokens must be a whole number, got {text[:20]!r}")
    return int(text)


# --- Process trees --------------------------------------------------------------------------------


def _tree_text(data: bytes) -> models.PetriNet:
    try:
        return models.net_of_tree(models.parse_tree(data.decode()))
    except UnicodeDecodeError:
        raise UsageError("no UTF-8") from None


_OPERATORS: dict[str, models.Operator] = {
    "sequence": "sequence",
    "xor": "exclusive",
    "and": "parallel",
    "xorLoop": "loop",
}


def _ptml(data: bytes) -> models.PetriNet:
    trees = list(_all(_xml(data), "processTree"))
    if len(trees) != 1:
        raise UsageError(f"PTML must have one <processTree>, got {len(trees)}")
    nodes = {child.get("id"): child for child in trees[0] if _tag(child) != "parentsNode"}
    below: dict[str | None, list[str | None]] = defaultdict(list)
    for child in trees[0]:
        if _tag(child) == "parentsNode":
            below[child.get("sourceId")].append(child.get("targetId"))

    def build(name: str | None, above: frozenset[str | None]) -> models.ProcessTree:
        if name not in nodes or name in above or len(above) > 200:
            raise UsageError("the nodes of <processTree> are no tree of at most 200 levels")
        tag, label = _tag(nodes[name]), nodes[name].get("name")
        if tag == "manualTask":
            return models.leaf(label or "")
        if tag == "automaticTask":
            return models.ProcessTree()
        if tag not in _OPERATORS:
            raise UsageError(f"<{tag}> of a process tree is not understood")
        children = [build(child, above | {name}) for child in below[name]]
        if tag == "xorLoop" and len(children) == 3:  # body, way back, and what comes after
            return models.sequence(models.loop(*children[:2]), children[2])
        return models.ProcessTree(_OPERATORS[tag], None, tuple(children))

    return models.net_of_tree(build(trees[0].get("root"), frozenset()))


# --- PNML -----------------------------------------------------------------------------------------


def _pnml(data: bytes) -> models.PetriNet:
    """The place/transition net; without a final marking it ends in its one sink place."""
    nets = list(_all(_xml(data), "net"))
    if len(nets) != 1:
        raise UsageError(f"PNML must have one <net>, got {len(nets)}")
    places = {
        _named(place, "id"): place for place in _all(nets[0], "place") if "id" in place.attrib
    }
    takes: dict[str, dict[str, int]] = {}
    gives: dict[str, dict[str, int]] = {}
    labels: dict[str, str | None] = {}
    for transition in _all(nets[0], "transition"):
        name = _named(transition, "id")
        silent = any(tool.get("activity") == "$invisible$" for tool in transition)
        labels[name] = None if silent else _text(transition, "name") or None
        takes[name], gives[name] = {}, {}
    for arc in _all(nets[0], "arc"):
        source, target = _named(arc, "source"), _named(arc, "target")
        kind = _text(arc, "arctype") or "normal"
        if kind != "normal":
            raise UsageError(f"an arc of type {kind[:20]!r} is not understood")
        weight = _number(_text(arc, "inscription"), 1)
        if source in places and target in takes:
            takes[target][source] = takes[target].get(source, 0) + weight
        elif source in gives and target in places:
            gives[source][target] = gives[source].get(target, 0) + weight
        else:
            raise UsageError("an arc of PNML must lead from a place to a transition, or back")
    initial = {
        name: n
        for name, place in places.items()
        if (n := _number(_text(place, "initialMarking"), 0))
    }
    if not initial:
        raise UsageError("PNML must have an initial marking")
    transitions = tuple(
        models.Transition(labels[name], takes[name], gives[name]) for name in labels
    )
    return models.PetriNet(transitions, initial, _final_marking(nets[0], set(places), transitions))


def _final_marking(
    net: ElementTree.Element, places: set[str], transitions: tuple[models.Transition, ...]
) -> dict[str, int]:
    markings = [m for listed in _all(net, "finalmarkings") for m in _all(listed, "marking")]
    if len(markings) > 1:
        raise UsageError("PNML must have one final marking")
    for marking in markings:
        return {
            _named(place, "idref"): n
            for place in _all(marking, "place")
            if (n := _number(next((t.text for t in _all(place, "text")), None), 1))
        }
    sinks = places.difference(*(t.takes for t in transitions))
    if len(sinks) != 1:
        raise UsageError("PNML must have a final marking, or one place that no arc leaves")
    return dict.fromkeys(sinks, 1)


# --- BPMN -----------------------------------------------------------------------------------------

_TASKS = ("task", "userTask", "manualTask", "serviceTask", "scriptTask", "sendTask",
          "receiveTask", "businessRuleTask", "callActivity")  # fmt: skip
_CHOICES = ("exclusiveGateway", "eventBasedGateway")
_SILENT = ("intermediateThrowEvent", "intermediateCatchEvent")
_UNDERSTOOD = (*_TASKS, *_CHOICES, *_SILENT, "startEvent", "endEvent", "parallelGateway")
_UNKNOWN = ("subProcess", "transaction", "adHocSubProcess", "inclusiveGateway", "complexGateway",
            "boundaryEvent")  # fmt: skip
_LOOPS = ("standardLoopCharacteristics", "multiInstanceLoopCharacteristics")


def _bpmn(data: bytes) -> models.PetriNet:
    """One process: a place for each sequence flow; it ends when no token is left.

    A case begins at one of the start events. A token ends at an element without an outgoing flow.
    An element with several incoming flows waits for one of them, but a parallel gateway for all. An
    element with several outgoing flows gives a token to all of them, but a choice to one.
    """
    processes = list(_all(_xml(data), "process"))
    if len(processes) != 1:
        raise UsageError(f"BPMN must have one <process>, got {len(processes)}")
    for element in _all(processes[0], *_UNKNOWN, *_LOOPS):
        raise UsageError(f"<{_tag(element)}> of BPMN is not understood")
    incoming: dict[str, list[str]] = defaultdict(list)
    outgoing: dict[str, list[str]] = defaultdict(list)
    for i, flow in enumerate(_all(processes[0], "sequenceFlow")):
        outgoing[_named(flow, "sourceRef")].append(f"flow {i}")
        incoming[_named(flow, "targetRef")].append(f"flow {i}")
    known = {element.get("id") for element in processes[0] if _tag(element) in _UNDERSTOOD}
    if not known >= {*incoming, *outgoing}:
        raise UsageError("a <sequenceFlow> of BPMN must join two events, tasks or gateways")
    transitions: list[models.Transition] = []

    def step(label: str | None, takes: list[str], gives: list[str]) -> None:
        transitions.append(
            models.Transition(label, dict.fromkeys(takes, 1), dict.fromkeys(gives, 1))
        )

    for element in processes[0]:
        tag = _tag(element)
        name = element.get("id", "")
        if tag == "startEvent":
            step(None, ["start"], outgoing[name])
        elif tag == "parallelGateway":
            step(None, incoming[name], outgoing[name])
        elif tag in _CHOICES:
            for arriving in incoming[name]:
                for leaving in outgoing[name]:
                    step(None, [arriving], [leaving])
        elif tag in _TASKS or tag in _SILENT or tag == "endEvent":
            label = (element.get("name") or None) if tag in _TASKS else None
            for arriving in incoming[name]:
                step(label, [arriving], outgoing[name])
    return models.PetriNet(tuple(transitions), {"start": 1}, {})


# --- Rules by name --------------------------------------------------------------------------------


def _rules(data: bytes) -> NamedRules:
    try:
        body = bounded_json(data)  # much faster than as YAML, and of any length
    except ValueError:
        try:
            body = bounded_yaml(data)
        except ValueError as error:
            raise UsageError(f"no YAML that can be read: {error}") from None
    try:
        return NamedRules.model_validate(body)
    except pydantic.ValidationError as error:
        raise usage_error(error, known=NamedRules.model_fields) from None


def _of(read: Callable[[bytes], models.PetriNet]) -> Callable[[bytes], NamedRules]:
    return lambda data: rules_of_model(read(data))


_READERS: dict[str, Callable[[bytes], NamedRules]] = {
    "ptml": _of(_ptml),
    "pnml": _of(_pnml),
    "bpmn": _of(_bpmn),
    "tree": _of(_tree_text),
    "yaml": _rules,
    "yml": _rules,
    "json": _rules,
}
