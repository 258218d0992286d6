// The process map: sliders, frequency or time, search, what a path is, and files to save.
"use strict";

tracecloak.mapReady = (() => {
  const { data, element, number, duration, save } = tracecloak;
  let { map } = data;
  const place = document.getElementById("map");
  if (!place) return null;
  const byId = (id) => document.getElementById(id);
  const [activities, paths] = [byId("activities"), byId("paths")];
  const state = { metric: "count", chosen: null, part: null, drawing: null, isMoved: false };
  const tip = element("div", { class: "tip", hidden: true, role: "status" });
  const nInner = () => map.nodes.length - 2;

  const nameOf = (i) => (i === map.start ? "Start" : i === map.end ? "End" : map.nodes[i].name);
  const interval = (thing) =>
    thing.low === null ? "" : `, 95 % interval ${number(thing.low)} to ${number(thing.high)}`;
  const beside = (thing) =>
    thing.original === undefined ? "" : `\n${number(thing.original)} times in the original`;
  const difference = (thing) => {
    const more = thing.count - thing.original;
    return `${more > 0 ? "+" : ""}${number(more)}`;
  };
  const about = {
    node: (i) => {
      const node = map.nodes[i];
      return `${nameOf(i)}\n${number(node.count)} times${beside(node)}`;
    },
    edge: (i) => {
      const edge = map.edges[i];
      const lines = [
        `${nameOf(edge.source)} → ${nameOf(edge.target)}`,
        `${number(edge.count)} times${interval(edge)}${beside(edge)}`,
      ];
      if (edge.median_s !== null) lines.push(`median time between them: ${duration(edge.median_s)}`);
      if (edge.doubtful) lines.push("doubtful: noise alone could have made this path");
      return lines.join("\n");
    },
  };
  const SAID = {
    count: (thing) => number(thing.count),
    original: (thing) => number(thing.original),
    difference,
  };
  const labelOf = {
    node: (node) => (state.metric === "time" ? [] : [SAID[state.metric](node)]),
    edge: (edge) => {
      if (state.metric !== "time") return SAID[state.metric](edge);
      return edge.median_s === null ? "" : duration(edge.median_s);
    },
    width: (edge) => {
      if (state.metric === "original") return edge.original;
      return state.metric === "difference" ? Math.abs(edge.count - edge.original) : edge.count;
    },
  };

  const showTip = (text, event) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = place.getBoundingClientRect();
    const at = event.clientX
      ? [event.clientX - box.left + 14, event.clientY - box.top + 14]
      : [12, 12];
    tip.style.left = `${Math.max(4, Math.min(at[0], box.width - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.max(4, Math.min(at[1], box.height - tip.offsetHeight - 8))}px`;
  };

  // What is around an activity or a path, or on the way of a variant, stands out.
  const choose = (edges, nodes) => {
    const svg = place.querySelector("svg");
    place.classList.toggle("chosen", edges !== null);
    for (const g of svg.querySelectorAll(".node, .edge")) {
      const [kind, i] = g.id.split("-");
      g.classList.toggle("on", edges !== null && (kind === "node" ? nodes : edges).has(Number(i)));
    }
  };
  const chooseNode = (i) => {
    if (state.chosen === i) {
      state.chosen = null;
      return choose(null);
    }
    state.chosen = i;
    const edges = state.part.edges.filter((e) => [map.edges[e].source, map.edges[e].target].includes(i));
    const nodes = new Set([i, ...edges.flatMap((e) => [map.edges[e].source, map.edges[e].target])]);
    return choose(new Set(edges), nodes);
  };

  const zoom = d3
    .zoom()
    .scaleExtent([0.2, 6])
    // The wheel scrolls the page, as everywhere; with Ctrl or Cmd it zooms.
    .filter((event) => (event.type === "wheel" ? event.ctrlKey || event.metaKey : !event.button));

  // Pixels for a point of the drawing: smaller words cannot be read, larger ones look silly.
  const LEAST = 0.8;
  const MOST = 1.4;
  // On a phone, which two fingers enlarge, all of a map is worth more than its words.
  const LEAST_OF_PHONES = 0.3;
  const isNarrow = () => matchMedia("(width < 40rem)").matches;

  // Where its words can be read then, the place is as wide as the map, and high enough for it: on a
  // phone, where only the page scrolls, for all of it, else for as much as fits the window. What is
  // too large begins at its start.
  const begin = (svg) => {
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    const across = place.clientWidth / width;
    place.style.height = "";
    const most = place.clientHeight;
    const wanted = isNarrow()
      ? Math.min(Math.max(across, LEAST_OF_PHONES), MOST)
      : Math.min(Math.max(Math.min(across, most / height), LEAST), MOST);
    const isWhole = isNarrow() && across >= wanted;
    place.style.height = `${Math.ceil(isWhole ? wanted * height : Math.min(most, wanted * height)) + 2}px`;
    const fitted = Math.min(across, place.clientHeight / height);
    const factor = wanted / fitted;
    const isHigh = wanted * height > place.clientHeight;
    const down = isHigh ? (height - place.clientHeight / fitted) / 2 : (height / 2) * (1 - factor);
    const isWide = wanted * width > place.clientWidth;
    const right = isWide ? middleOf(svg, factor, width, place.clientWidth / fitted) : (width / 2) * (1 - factor);
    return d3.zoomIdentity.translate(right, down).scale(factor);
  };

  // How far to the right a map goes that is too wide, so that its start is in the middle.
  const middleOf = (svg, factor, width, seen) => {
    const start = svg.querySelector(`#node-${map.start} ellipse`);
    const { e: aside } = svg.querySelector("g.graph").transform.baseVal.consolidate().matrix;
    const wanted = width / 2 - factor * (Number(start.getAttribute("cx")) + aside);
    const most = (width - seen) / 2;
    return Math.min(most, Math.max(wanted, width - most - factor * width));
  };

  // What is on the map, by which rule, and what is not.
  const tell = (part) => {
    const of = (count, one, many) => `${number(count)} ${count === 1 ? one : many}`;
    const counted = (nActivities, nPaths) =>
      `${of(nActivities, "activity", "activities")} and ${of(nPaths, "path", "paths")}`;
    const nActivities = part.nodes.length - 2;
    const nPaths = part.edges.length;
    const frequent =
      part.nFrequent === part.nPossible
        ? "all between these activities"
        : `the ${number(part.nFrequent)} most frequent between these activities, loops and ways back ` +
          "among them";
    const nJoining = nPaths - part.nFrequent;
    const joining =
      `${of(nJoining, "rarer one that joins", "rarer ones that join")} an activity to the start or ` +
      "the end";
    const reasons = [...(part.nFrequent ? [frequent] : []), ...(nJoining ? [joining] : [])];
    const missing = counted(
      nInner() - nActivities + map.n_activities_left_out,
      map.edges.length - nPaths + map.n_left_out,
    );
    const shown = new Set(part.edges);
    const left = map.edges.filter((_, i) => !shown.has(i)).map(tracecloak.weight);
    const most = left.reduce((a, b) => Math.max(a, b), 0);
    byId("map-shown").textContent =
      `On the map are ${counted(nActivities, nPaths)}: ${reasons.join(", and ")}. Not on the map: ${missing}` +
      (map.n_left_out ? `, of which ${of(map.n_left_out, "path is", "paths are")} in the files alone.` : ".") +
      (left.length ? ` The most frequent of these paths was taken ${number(most)} times.` : "");
  };

  const draw = () => {
    const drawing = redraw();
    state.drawing = drawing;
    place.setAttribute("aria-busy", "true");
    place.dataset.busy = `Drawing ${byId("n-activities").textContent} activities, ${byId("n-paths").textContent} paths …`;
    drawing.finally(() => {
      if (state.drawing === drawing) place.removeAttribute("aria-busy");
    });
  };

  const redraw = async () => {
    const part = tracecloak.part(map, state.nActivities, state.nPaths);
    const shown = map;
    activities.max = nInner();
    activities.value = Math.min(state.nActivities, nInner());
    paths.min = 0;
    paths.max = part.nPossible;
    paths.value = Math.min(state.nPaths, part.nPossible);
    byId("n-activities").textContent = `${Math.min(state.nActivities, nInner())} of ${nInner()}`;
    byId("n-paths").textContent = `${part.edges.length} of ${part.nPossible}`;

    const svg = await tracecloak.drawn(tracecloak.graphOf(map, part, labelOf), "map");
    // What came after it may be of another map, whose numbers are not those of this drawing.
    if (svg === null || shown !== map) return;
    state.part = part;
    const indexOf = (g) => Number(g.id.split("-")[1]);
    const edgeOf = (g) => map.edges[indexOf(g)];
    const isLoop = (g) => edgeOf(g).source === edgeOf(g).target;
    tracecloak.moveLabels(svg, (g) => labelOf.width(edgeOf(g)), isLoop);
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", "Process map");
    const busiest = Math.max(...part.nodes.map((i) => map.nodes[i].count), 1);
    const slowest = part.edges
      .map((i) => map.edges[i].median_s)
      .filter((s) => s !== null)
      .sort((a, b) => b - a)[Math.floor(part.edges.length / 10)];
    for (const g of svg.querySelectorAll(".node, .edge")) {
      const kind = g.id.split("-")[0];
      const i = indexOf(g);
      g.setAttribute("tabindex", "0");
      g.setAttribute("role", "button");
      g.setAttribute("aria-label", about[kind](i));
      if (kind === "node") g.style.setProperty("--share", map.nodes[i].count / busiest);
      if (kind === "edge" && state.metric === "time" && map.edges[i].median_s >= slowest && slowest > 0)
        g.classList.add("slow");
      if (kind === "edge" && state.metric === "difference")
        g.classList.add(map.edges[i].count < map.edges[i].original ? "slow" : "more");
      g.addEventListener("pointerenter", (event) => showTip(about[kind](i), event));
      g.addEventListener("pointermove", (event) => showTip(about[kind](i), event));
      g.addEventListener("pointerleave", () => (tip.hidden = true));
      g.addEventListener("focus", (event) => showTip(about[kind](i), event));
      g.addEventListener("blur", () => (tip.hidden = true));
      const act = () =>
        kind === "node"
          ? chooseNode(i)
          : choose(new Set([i]), new Set([map.edges[i].source, map.edges[i].target]));
      g.addEventListener("click", (event) => {
        event.stopPropagation();
        act();
      });
      g.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          act();
        } else if (event.key === "Escape") {
          state.chosen = null;
          choose(null);
        }
      });
    }
    place.replaceChildren(svg, tip);
    state.chosen = null;
    place.classList.remove("chosen");
    const drawing = svg.querySelector("g");
    const inner = document.createElementNS("http://www.w3.org/2000/svg", "g");
    drawing.parentNode.insertBefore(inner, drawing);
    inner.append(drawing);
    zoom.on("zoom", ({ transform }) => inner.setAttribute("transform", transform));
    d3.select(svg).call(zoom).on("click", () => {
      state.chosen = null;
      choose(null);
    });
    d3.select(svg).call(zoom.transform, begin(svg));
    tell(part);
    fillTable();
    const query = byId("search").value;
    if (query) search(query);
  };

  const fillTable = () => {
    const weight = (i) => tracecloak.weight(map.edges[i]);
    const rows = [...state.part.edges].sort((a, b) => weight(b) - weight(a));
    byId("map-table").replaceChildren(
      ...rows.map((i) => {
        const edge = map.edges[i];
        return element(
          "tr",
          {},
          element("td", {}, nameOf(edge.source)),
          element("td", {}, nameOf(edge.target)),
          element("td", { class: "number" }, number(edge.count)),
          ...(edge.original === undefined
            ? []
            : [element("td", { class: "number" }, number(edge.original))]),
          element("td", {}, edge.low === null ? "" : `${number(edge.low)} to ${number(edge.high)}`),
          ...(byId("map-median").hidden
            ? []
            : [element("td", {}, edge.median_s === null ? "" : duration(edge.median_s))]),
        );
      }),
    );
  };

  const search = (query) => {
    const wanted = query.trim().toLowerCase();
    if (!wanted) return choose(null);
    const nodes = new Set(state.part.nodes.filter((i) => nameOf(i).toLowerCase().includes(wanted)));
    const edges = new Set(
      state.part.edges.filter((e) => nodes.has(map.edges[e].source) || nodes.has(map.edges[e].target)),
    );
    byId("found").textContent = nodes.size
      ? `${nodes.size} found`
      : map.nodes.some((_, i) => nameOf(i).toLowerCase().includes(wanted))
        ? "hidden: show more activities"
        : "none found";
    return choose(edges, nodes);
  };

  // What the style sheet gives is written into a copy, so that the file needs nothing else.
  const svgText = () => {
    const svg = place.querySelector("svg");
    const copy = svg.cloneNode(true);
    copy.querySelector("g").removeAttribute("transform");
    const names = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "paint-order"];
    names.push("font-size", "font-style");
    const [from, to] = [svg, copy].map((s) => [...s.querySelectorAll("path, polygon, ellipse, text")]);
    from.forEach((shape, k) => {
      const style = getComputedStyle(shape);
      for (const name of names) to[k].setAttribute(name, style.getPropertyValue(name));
      if (shape.tagName === "text") to[k].setAttribute("font-family", "Helvetica, Arial, sans-serif");
    });
    const [, , width, height] = svg.getAttribute("viewBox").split(" ");
    copy.setAttribute("width", `${width}pt`);
    copy.setAttribute("height", `${height}pt`);
    const ground = getComputedStyle(document.body).backgroundColor;
    copy.style.background = ground;
    return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}\n`;
  };

  // Another map, as of a later step: the sliders stay where somebody moved them to.
  const show = (newest) => {
    map = newest;
    if (!state.isMoved) Object.assign(state, tracecloak.firstPart(map));
    const hasTimes = map.edges.some((edge) => edge.median_s !== null);
    byId("metric-time").hidden = !hasTimes;
    byId("map-median").hidden = !hasTimes;
    draw();
  };

  activities.addEventListener("input", () => {
    state.isMoved = true;
    state.nActivities = Number(activities.value);
    // More activities come with paths of their own.
    const all = tracecloak.part(map, state.nActivities, Infinity);
    state.nPaths = Math.min(state.nPaths, all.nPossible);
    draw();
  });
  paths.addEventListener("input", () => {
    state.isMoved = true;
    state.nPaths = Number(paths.value);
    draw();
  });
  const buttons = ["count", "time", "original", "difference"].flatMap((metric) => {
    const button = byId(`metric-${metric}`);
    return button ? [[metric, button]] : [];
  });
  for (const [metric, button] of buttons) {
    button.addEventListener("click", () => {
      state.metric = metric;
      for (const [other, of] of buttons) of.setAttribute("aria-pressed", String(other === metric));
      draw();
    });
  }
  byId("search").addEventListener("input", (event) => {
    byId("found").textContent = "";
    search(event.target.value);
  });
  const scaled = (factor) => d3.select(place.querySelector("svg")).call(zoom.scaleBy, factor);
  byId("zoom-in").addEventListener("click", () => scaled(1.3));
  byId("zoom-out").addEventListener("click", () => scaled(1 / 1.3));
  byId("zoom-fit").addEventListener("click", () =>
    d3.select(place.querySelector("svg")).call(zoom.transform, d3.zoomIdentity),
  );
  const file = data.file_name;
  byId("save-svg").addEventListener("click", () => save(`${file}.svg`, svgText(), "image/svg+xml"));
  byId("save-dot").addEventListener("click", async () => {
    const graph = tracecloak.graphOf(map, state.part, labelOf);
    save(`${file}.dot`, await tracecloak.layOut(graph, "canon"), "text/vnd.graphviz");
  });
  byId("save-bpmn").addEventListener("click", async () =>
    save(`${file}.bpmn`, await tracecloak.bpmnOf(map, state.part), "application/xml"),
  );

  if (map) show(map);
  return {
    show,
    // Shows the way of a variant, given as codes, with all its activities and paths.
    follow: async (codes) => {
      await state.drawing;
      const way = [map.start, ...codes, map.end];
      const pairs = new Set(way.slice(1).map((code, k) => `${way[k]} ${code}`));
      const edges = new Set(
        state.part.edges.filter((e) => pairs.has(`${map.edges[e].source} ${map.edges[e].target}`)),
      );
      choose(edges, new Set(way));
      const nMissing = pairs.size - edges.size;
      byId("found").textContent = nMissing
        ? `${nMissing} of its ${pairs.size} paths are hidden: show more paths`
        : "";
      place.scrollIntoView({ block: "center" });
    },
  };
})();
