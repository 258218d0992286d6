// Which part of a directly-follows graph is shown: activities and paths, the most frequent first.
"use strict";

// How much goes through a path or an activity: in the release, or in the original if that is more.
tracecloak.weight = (thing) => Math.max(thing.count, thing.original ?? 0);

// What comes first of things, given as their numbers: those with more, then those that stand first.
const _byWeight = (things, numbers) =>
  numbers.sort((a, b) => tracecloak.weight(things[b]) - tracecloak.weight(things[a]) || a - b);

const _inner = (map) =>
  _byWeight(
    map.nodes,
    [...map.nodes.keys()].filter((i) => i !== map.start && i !== map.end),
  );

// Of the paths between the most frequent activities the most frequent ones, and with them each that
// is as frequent as the last; loops and ways back are paths like others. Beside them those that
// connect: each activity has a way from the start and a way to the end, and of all such ways one
// whose rarest path is the most frequent. So no path is left out for one that is rarer, unless that
// one connects.
tracecloak.part = (map, nActivities, nPaths) => {
  const shown = new Set([..._inner(map).slice(0, nActivities), map.start, map.end]);
  const paths = _byWeight(
    map.edges,
    [...map.edges.keys()].filter((i) => shown.has(map.edges[i].source) && shown.has(map.edges[i].target)),
  );
  const weight = (i) => tracecloak.weight(map.edges[i]);
  const last = nPaths > 0 ? paths.slice(0, nPaths).at(-1) : undefined;
  const frequent = last === undefined ? [] : paths.filter((i) => weight(i) >= weight(last));

  const edges = new Set(frequent);
  const connect = (from, here, there) => {
    const reached = new Set([from]);
    for (;;) {
      const next = paths.find((i) => {
        const edge = map.edges[i];
        return reached.has(edge[here]) && !reached.has(edge[there]);
      });
      if (next === undefined) return;
      edges.add(next);
      reached.add(map.edges[next][there]);
    }
  };
  connect(map.start, "source", "target");
  connect(map.end, "target", "source");
  return {
    nodes: [...shown],
    edges: [...edges].sort((a, b) => a - b),
    nFrequent: frequent.length,
    nPossible: paths.length,
  };
};

// Where the sliders stand at first: activities and paths that most of the log goes through, and all
// paths of a map that has few. Both ends of these paths are among these activities, so no path of
// the whole map that is more frequent than they are is missing.
tracecloak.firstPart = (map) => {
  const [FEW_ACTIVITIES, MOST_ACTIVITIES] = [20, 30];
  const [LEAST_PATHS, FEW_PATHS, MOST_PATHS] = [20, 30, 40];
  const most = (weights, share, limit) => {
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    let sum = 0;
    let n = 0;
    while (n < weights.length && n < limit && sum < share * total) sum += weights[n++];
    return n;
  };
  const inner = _inner(map);
  const paths = _byWeight(map.edges, [...map.edges.keys()]).map((i) => map.edges[i]);
  const weights = paths.map(tracecloak.weight);
  const nAbove = (weight) => weights.filter((other) => other > weight).length;
  const rank = new Map(inner.map((i, k) => [i, k + 1]));
  const endsOf = (n) =>
    paths.slice(0, n).reduce((k, p) => Math.max(k, rank.get(p.source) ?? 0, rank.get(p.target) ?? 0), 0);

  let nPaths = Math.max(most(weights, 0.75, FEW_PATHS), Math.min(weights.length, LEAST_PATHS));
  // Paths that are equally frequent come together or, where they are too many, not at all.
  const nEqual = nPaths ? weights.filter((weight) => weight >= weights[nPaths - 1]).length : 0;
  nPaths = nEqual <= MOST_PATHS ? nEqual : nAbove(weights[nPaths - 1]);
  while (nPaths && endsOf(nPaths) > MOST_ACTIVITIES)
    nPaths = nAbove(weights[nPaths - 1]);
  const nActivities =
    inner.length <= FEW_ACTIVITIES
      ? inner.length
      : most(inner.map((i) => tracecloak.weight(map.nodes[i])), 0.95, FEW_ACTIVITIES);
  return { nActivities: Math.max(nActivities, endsOf(nPaths)), nPaths };
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

// From so many paths on Graphviz is told to search less for the best places, and to draw straight
// arrows: 2,000 paths take seconds then, and not many minutes.
const _MANY_PATHS = 200;
const _SOONER = { nslimit: 0.1, nslimit1: 0.1, mclimit: 0.05, splines: "line" };

// The part as a graph for Graphviz. Attributes `class` and `id` are kept in the SVG.
tracecloak.graphOf = (map, part, labelOf) => {
  const most = Math.max(...part.edges.map((i) => labelOf.width(map.edges[i])), 1);
  return {
    directed: true,
    graphAttributes: {
      rankdir: "TB",
      nodesep: 0.3,
      ranksep: 0.45,
      bgcolor: "transparent",
      pad: 0.2,
      ...(part.edges.length > _MANY_PATHS ? _SOONER : {}),
    },
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
