// The shown part of a map as BPMN 2.0, with where everything is drawn.
"use strict";

// An activity with several ways in gets an exclusive gateway before it, one with several ways out
// one behind it: what the map says, and no more. It knows no parallel work.
tracecloak.bpmnOf = async (map, part) => {
  const escape = (text) =>
    text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`).replace(/[\x00-\x1f]/g, " ");
  const size = { task: [120, 62], gateway: [40, 40], event: [34, 34] };
  const shapes = [];
  const flows = [];
  const into = new Map();
  const outOf = new Map();
  const waysOf = (i, end) => part.edges.filter((e) => map.edges[e][end] === i).length;
  for (const i of part.nodes) {
    const isStart = i === map.start;
    const isEnd = i === map.end;
    const tag = isStart ? "startEvent" : isEnd ? "endEvent" : "task";
    const name = isStart ? "Start" : isEnd ? "End" : map.nodes[i].name;
    shapes.push({ id: `n${i}`, tag, name, size: isStart || isEnd ? size.event : size.task });
    into.set(i, `n${i}`);
    outOf.set(i, `n${i}`);
    if (waysOf(i, "target") > 1) {
      shapes.push({ id: `in${i}`, tag: "exclusiveGateway", name: "", size: size.gateway });
      flows.push([`in${i}`, `n${i}`]);
      into.set(i, `in${i}`);
    }
    if (waysOf(i, "source") > 1) {
      shapes.push({ id: `out${i}`, tag: "exclusiveGateway", name: "", size: size.gateway });
      flows.push([`n${i}`, `out${i}`]);
      outOf.set(i, `out${i}`);
    }
  }
  for (const e of part.edges) flows.push([outOf.get(map.edges[e].source), into.get(map.edges[e].target)]);

  const drawn = JSON.parse(
    await tracecloak.layOut(
      {
        directed: true,
        graphAttributes: { rankdir: "LR", splines: "polyline", nodesep: 0.4, ranksep: 0.5 },
        nodeAttributes: { shape: "box", fixedsize: "true", label: "" },
        nodes: shapes.map((s) => ({
          name: s.id,
          attributes: { width: s.size[0] / 72, height: s.size[1] / 72 },
        })),
        edges: flows.map(([tail, head]) => ({ tail, head })),
      },
      "json0",
    ),
  );
  const top = Number(drawn.bb.split(",")[3]);
  const point = (text) => {
    const [x, y] = text.split(",").map(Number);
    return [Math.round(x), Math.round(top - y)];
  };
  const place = new Map(drawn.objects.map((o) => [o.name, point(o.pos)]));
  // A spline is its first point and triples; what it passes is the last of each.
  const ways = drawn.edges.map((edge) => {
    const [last, ...points] = edge.pos.slice(2).split(" ");
    return [...points.filter((_, k) => k % 3 === 0), last].map(point);
  });

  const ends = (id) => [
    ...flows.flatMap(([, head], k) => (head === id ? [`<incoming>f${k}</incoming>`] : [])),
    ...flows.flatMap(([tail], k) => (tail === id ? [`<outgoing>f${k}</outgoing>`] : [])),
  ];
  const lines = [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"',
    '  xmlns:bpmndi="http://www.omg.org/spec/BPMN/20100524/DI"',
    '  xmlns:dc="http://www.omg.org/spec/DD/20100524/DC"',
    '  xmlns:di="http://www.omg.org/spec/DD/20100524/DI"',
    '  targetNamespace="urn:tracecloak" id="definitions">',
    '  <process id="process" isExecutable="false">',
    ...shapes.map((s) => {
      const name = s.name ? ` name="${escape(s.name)}"` : "";
      return `    <${s.tag} id="${s.id}"${name}>${ends(s.id).join("")}</${s.tag}>`;
    }),
    ...flows.map(([a, b], k) => `    <sequenceFlow id="f${k}" sourceRef="${a}" targetRef="${b}"/>`),
    "  </process>",
    '  <bpmndi:BPMNDiagram id="diagram"><bpmndi:BPMNPlane id="plane" bpmnElement="process">',
    ...shapes.map((s) => {
      const [x, y] = place.get(s.id);
      const [width, height] = s.size;
      const bounds = `x="${x - width / 2}" y="${y - height / 2}" width="${width}" height="${height}"`;
      return `    <bpmndi:BPMNShape id="s-${s.id}" bpmnElement="${s.id}"><dc:Bounds ${bounds}/></bpmndi:BPMNShape>`;
    }),
    ...flows.map((_, k) => {
      const points = ways[k].map(([x, y]) => `<di:waypoint x="${x}" y="${y}"/>`).join("");
      return `    <bpmndi:BPMNEdge id="e-f${k}" bpmnElement="f${k}">${points}</bpmndi:BPMNEdge>`;
    }),
    "  </bpmndi:BPMNPlane></bpmndi:BPMNDiagram>",
    "</definitions>",
    "",
  ];
  return lines.join("\n");
};
