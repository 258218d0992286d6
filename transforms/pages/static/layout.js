// Which part of a directly-follows graph is shown: activities and paths, the most frequent first.
"use strict";

// How much goes through a path or an activity: in the release, or in the original if that is more.
tracecloak.weight = (thing) => Math.max(thing.count, thing.original ?? 0);

// The paths are numbered as in the data. A part that hangs together has for each of its activities
// a way from the start and a way to the end; of all such ways those whose rarest path is the most
// frequent.
tracecloak.part = (map, nActivities, nPaths) => {
  const order = map.nodes
    .map((_, i) => i)
    .filter((i) => i !== map.start && i !== map.end)
    .sort((a, b) => tracecloak.weight(map.nodes[b]) - tracecloak.weight(map.nodes[a]) || a - b);
  const shown = new Set([...order.slice(0, nActivities), map.start, map.end]);
  const paths = map.edges
    .map((_, i) => i)
    .filter((i) => shown.has(map.edges[i].source) && shown.has(map.edges[i].target))
    .sort((a, b) => tracecloak.weight(map.edges[b]) - tracecloak.weight(map.edges[a]) || a - b);

  const kept = new Set();
  const grow = (from, here, there) => {
    const reached = new Set([from]);
    for (;;) {
      const next = paths.find((i) => {
        const edge = map.edges[i];
        return reached.has(edge[here]) && !reached.has(edge[there]);
      });
      if (next === undefined) return;
      kept.add(next);
      reached.add(map.edges[next][there]);
    }
  };
  grow(map.start, "source", "target");
  grow(map.end, "target", "source");
  const nNeeded = kept.size;
  for (const i of paths) {
    if (kept.size >= nPaths) break;
    kept.add(i);
  }
  return { nodes: [...shown], edges: [...kept].sort((a, b) => a - b), nNeeded, nPossible: paths.length };
};

// Where the sliders stand at first: activities and paths that most of the log goes through.
tracecloak.firstPart = (map) => {
  const most = (counts, share, limit) => {
    const sorted = [...counts].sort((a, b) => b - a);
    const total = sorted.reduce((sum, count) => sum + count, 0);
    let sum = 0;
    let n = 0;
    while (n < sorted.length && n < limit && sum < share * total) sum += sorted[n++];
    return n;
  };
  const inner = map.nodes.filter((_, i) => i !== map.start && i !== map.end);
  const nActivities = inner.length <= 20 ? inner.length : most(inner.map(tracecloak.weight), 0.95, 20);
  const all = tracecloak.part(map, nActivities, Infinity);
  const nPaths = most(all.edges.map((i) => tracecloak.weight(map.edges[i])), 0.75, 30);
  return { nActivities, nPaths: Math.max(nPaths, all.nNeeded) };
};

const _text = (name) => name.replaceAll("\\", "\\\\");

// A name in lines of about so many letters, broken at spaces, and cut after three lines.
tracecloak.lines = (name, width = 18) => {
  const lines = [""];
  for (const word of name.split(/\s+/)) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (longer.length <= width || !lines.at(-1)) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  const cut = lines.map((line) => (line.length > 26 ? `${line.slice(0, 25)}…` : line));
  return cut.length > 3 ? [...cut.slice(0, 2), `${cut[2]}…`] : cut;
};

// The part as a graph for Graphviz. Attributes `class` and `id` are kept in the SVG.
tracecloak.graphOf = (map, part, labelOf) => {
  const most = Math.max(...part.edges.map((i) => labelOf.width(map.edges[i])), 1);
  return {
    directed: true,
    graphAttributes: { rankdir: "TB", nodesep: 0.3, ranksep: 0.35, bgcolor: "transparent", pad: 0.2 },
    nodeAttributes: {
      shape: "box",
      style: "rounded,filled",
      fontname: "Helvetica",
      fontsize: 13,
      margin: "0.16,0.08",
    },
    edgeAttributes: { fontname: "Helvetica", fontsize: 11, arrowsize: 0.7 },
    subgraphs: [
      { graphAttributes: { rank: "source" }, nodes: [{ name: `n${map.start}` }] },
      { graphAttributes: { rank: "sink" }, nodes: [{ name: `n${map.end}` }] },
    ],
    nodes: part.nodes.map((i) => {
      const isEnd = i === map.start || i === map.end;
      const node = map.nodes[i];
      const words = isEnd ? [i === map.start ? "Start" : "End"] : tracecloak.lines(node.name);
      return {
        name: `n${i}`,
        attributes: {
          id: `node-${i}`,
          class: isEnd ? "end" : "activity",
          label: _text([...words, ...labelOf.node(node)].join("\n")),
          ...(isEnd ? { shape: "ellipse" } : {}),
        },
      };
    }),
    edges: part.edges.map((i) => {
      const edge = map.edges[i];
      return {
        tail: `n${edge.source}`,
        head: `n${edge.target}`,
        attributes: {
          id: `edge-${i}`,
          class: edge.doubtful ? "doubtful" : "sure",
          label: _text(` ${labelOf.edge(edge)} `),
          penwidth: (0.8 + 4.2 * Math.sqrt(labelOf.width(edge) / most)).toFixed(2),
          weight: 1 + Math.round((9 * labelOf.width(edge)) / most),
        },
      };
    }),
  };
};
