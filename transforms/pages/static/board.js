// The board: charts and tables of the log, the kind of release, the epsilon and the measure that
// somebody chose. Medians are marks, quartiles are bars.
"use strict";

(() => {
  const { data, element, percent } = tracecloak;
  const { measures, logs } = data;
  const NOTHING = "–";
  const ACCENT = "var(--accent)";
  const WARM = "var(--warm)";
  const QUIET = "var(--quiet)";
  const BEST = "the best of each";
  const place = (id) => document.getElementById(id);

  const number = (value) => {
    if (value === null || value === undefined) return NOTHING;
    return value < 10 ? value.toFixed(3) : value.toLocaleString("en-US", { maximumFractionDigits: 0 });
  };
  const spread = (quartiles) => {
    if (!quartiles) return NOTHING;
    const [median, low, high] = quartiles.map(number);
    return low === high ? median : `${median} (${low}–${high})`;
  };
  const distinct = (values) => [...new Set(values)];

  // --- What was chosen ---------------------------------------------------------------------------

  // Epsilon 1 first, where it is there: at the ends of a range little differs.
  const chosen = { epsilon: "1" };

  const select = (name, label, options, redraw) => {
    const before = chosen[name];
    const values = options.map((option) => option.value);
    chosen[name] = values.includes(before) ? before : values[0];
    const field = element("select", { onchange: () => ((chosen[name] = field.value), redraw()) });
    for (const option of options) {
      const one = element("option", { value: option.value }, option.title);
      one.selected = option.value === chosen[name];
      field.append(one);
    }
    return element("label", {}, label, field);
  };
  const named = (values) => values.map((value) => ({ value, title: value }));

  const kindOf = () => data.kinds.find((kind) => kind.name === chosen.kind);
  const logOf = () => logs.find((log) => log.name === chosen.log);

  // --- Figures -----------------------------------------------------------------------------------

  // What a log's releases got at an epsilon, methods first, then what is recorded, then the lines.
  const rowsOf = (log, epsilon, kind) => [
    ...log.releases
      .filter((one) => one.epsilon === epsilon && one.kind === kind && one.refused === null)
      .map((one) => ({ ...one, name: one.method, group: "method", n: one.n_releases })),
    ...log.recorded
      .filter((one) => Number(one.epsilon) === Number(epsilon) && one.kind === kind)
      .map((one) => ({ ...one, name: `${one.method} (recorded)`, group: "recorded", n: one.n_runs })),
    ...log.lines.map((one) => ({ ...one, delta: "", group: "line", n: one.n_draws })),
  ];
  const median = (row, measure) => row.figures[measure]?.[0] ?? null;

  // Smaller is better; as the registry of measures has it.
  const distance = (value, measure, log) => {
    const better = measures[measure].better;
    if (better === "log") return Math.abs(value - (log.of_log[measure] ?? value));
    return { less: value, more: -value, none: 0 }[better];
  };
  const sorted = (rows, measure, log) => {
    const rank = (row) => {
      const value = median(row, measure);
      return value === null ? Infinity : distance(value, measure, log);
    };
    const groups = ["method", "recorded", "line"];
    return rows.toSorted(
      (a, b) => groups.indexOf(a.group) - groups.indexOf(b.group) || Math.sign(rank(a) - rank(b) || 0),
    );
  };
  // The methods with the best median as it is shown; none where one is not known, or none is better.
  const best = (rows, measure, log) => {
    const methods = rows.filter((row) => row.group === "method");
    const values = methods.map((row) => median(row, measure));
    const { better } = measures[measure];
    const isKnown = better !== "log" || log.of_log[measure] !== undefined;
    if (values.length < 2 || values.includes(null) || better === "none" || !isKnown) return [];
    const least = values.reduce((a, b) =>
      distance(b, measure, log) < distance(a, measure, log) ? b : a,
    );
    return methods.filter((row) => number(median(row, measure)) === number(least));
  };

  // --- Charts ------------------------------------------------------------------------------------

  const draw = (id, caption, options, label) => {
    const figure = place(id);
    figure.querySelector(".chart")?.remove();
    figure.hidden = caption === null;
    if (caption === null) return;
    figure.querySelector("figcaption").textContent = caption;
    if (options) tracecloak.chart(id, options(figure.clientWidth), label);
  };
  const scaled = (measure) =>
    measure === "seconds" ? { type: "log" } : { zero: measures[measure].range[0] === 0 };
  const colour = (row) => ({ method: ACCENT, recorded: WARM, line: QUIET })[row.group];

  // One measure of all methods, in an order that may be that of another measure.
  const byMethod = (id, measure, ordered, log, caption) => {
    const rows = ordered.filter((row) => median(row, measure) !== null);
    if (!rows.length) {
      draw(id, `${caption}: nothing was measured.`, null);
      return;
    }
    const low = (row) => row.figures[measure][1];
    const high = (row) => row.figures[measure][2];
    // What the log itself has is worth a line where that need not be the best.
    const isLined = measures[measure].better === "log" || data.disclosure.includes(measure);
    const ofLog = (isLined && log.of_log[measure]) ?? false;
    draw(
      id,
      `${caption}; ${words(measure)}${ofLog === false ? "" : `; the log itself has ${number(ofLog)} (dashed line)`}`,
      (width) => ({
        width: Math.max(300, Math.min(640, width)),
        height: 64 + 24 * rows.length,
        marginLeft: 136,
        marginRight: 56,
        marginBottom: 44,
        x: { label: measures[measure].title, labelOffset: 40, grid: true, ticks: width < 420 ? 2 : 4, ...scaled(measure) },
        y: { axis: null, domain: rows.map((row) => row.name) },
        marks: [
          Plot.axisY({ label: null, tickSize: 0, lineWidth: 10.5 }),
          ...(ofLog === false ? [] : [Plot.ruleX([ofLog], { stroke: QUIET, strokeDasharray: "4 4" })]),
          Plot.ruleY(rows, {
            y: "name", x1: low, x2: high, stroke: colour, strokeWidth: 7, strokeOpacity: 0.35,
          }),
          Plot.dot(rows, {
            y: "name",
            x: (row) => median(row, measure),
            r: 4.5,
            stroke: colour,
            strokeWidth: 1.8,
            fill: (row) => (row.group === "method" ? ACCENT : "var(--ground)"),
            tip: true,
            title: (row) => `${row.name}: ${spread(row.figures[measure])}, of ${row.n}`,
          }),
          Plot.text(rows, {
            y: "name", frameAnchor: "right", dx: 10, textAnchor: "start", fill: "currentColor",
            text: (row) => number(median(row, measure)),
          }),
        ],
      }),
      `${measures[measure].title} by method, with quartiles`,
    );
  };
  const words = (measure) =>
    ({ less: "less is better", more: "more is better", log: "nearer to the log is better", none: "neither is better" })[
      measures[measure].better
    ];

  // One small panel for each method: its medians and quartiles over epsilon, beside the bootstrap.
  const byEpsilon = (log, kind, measure) => {
    const points = log.releases
      .filter((one) => one.kind === kind && one.figures[measure])
      .map((one) => {
        const [middle, low, high] = one.figures[measure];
        return { name: one.method, epsilon: Number(one.epsilon), middle, low, high };
      });
    const names = distinct(points.map((point) => point.name));
    if (data.epsilons.length < 2 || !points.length) {
      draw("by-epsilon", null);
      return;
    }
    const line = log.lines.find((one) => one.name === data.lines[0])?.figures[measure];
    draw(
      "by-epsilon",
      `${measures[measure].title} over epsilon on ${log.name}, a panel for each method: the median and the quartiles` +
        (line ? `; the dashed line is the ${data.lines[0]}.` : "."),
      (width) => {
        const columns = Math.min(width < 560 ? 2 : 4, names.length);
        const at = (name) => names.indexOf(name);
        const cell = {
          fx: (d) => at(d.name ?? d) % columns,
          fy: (d) => Math.floor(at(d.name ?? d) / columns),
        };
        const ends = [Math.min(...points.map((d) => d.epsilon)), Math.max(...points.map((d) => d.epsilon))];
        return {
          width: Math.max(300, Math.min(60 + 280 * columns, width)),
          height: 60 + 120 * Math.ceil(names.length / columns),
          marginLeft: 44,
          marginBottom: 40,
          marginTop: 8,
          fx: { axis: null, padding: 0.08 },
          fy: { axis: null, padding: 0.24 },
          x: {
            type: "log", domain: ends, label: "epsilon", labelOffset: 36,
            ticks: data.epsilons.map(Number), tickFormat: (value) => String(value),
          },
          y: { label: null, grid: true, ticks: 3, ...scaled(measure) },
          marks: [
            Plot.frame({ stroke: "var(--line)" }),
            ...(line ? [Plot.ruleY([line[0]], { stroke: QUIET, strokeDasharray: "4 4" })] : []),
            Plot.areaY(points, { ...cell, x: "epsilon", y1: "low", y2: "high", fill: ACCENT, fillOpacity: 0.25, z: "name" }),
            Plot.line(points, { ...cell, x: "epsilon", y: "middle", stroke: ACCENT, z: "name" }),
            Plot.dot(points, {
              ...cell, x: "epsilon", y: "middle", fill: ACCENT, r: 3, tip: true,
              title: (d) => `${d.name} at epsilon ${d.epsilon}: ${spread([d.middle, d.low, d.high])}`,
            }),
            Plot.text(names, {
              ...cell, text: (name) => name, frameAnchor: "top-right", dx: -4, dy: 4, fontWeight: 600,
              fill: "currentColor", stroke: "var(--ground)", strokeWidth: 4,
            }),
          ],
        };
      },
      `${measures[measure].title} by epsilon, for each method`,
    );
  };

  // All methods on all logs at one epsilon: one of them, or the best of each log, stands out.
  const byLog = (epsilon, kind, measure, method) => {
    const dots = logs.flatMap((log) => {
      const rows = rowsOf(log, epsilon, kind);
      const methods = rows.filter((row) => row.group === "method");
      const first = methods.length === 1 ? methods : best(rows, measure, log);
      const known = rows.filter((row) => median(row, measure) !== null);
      return known.map((row) => ({
        log: log.name,
        group: row.group,
        name: row.name,
        quartiles: row.figures[measure],
        isChosen: method === BEST ? first.includes(row) : row.name === method,
      }));
    });
    if (logs.length < 2 || !dots.length) {
      draw("by-log", null);
      return;
    }
    const ofMethods = dots.filter((dot) => dot.group === "method" && !dot.isChosen);
    const standingOut = dots.filter((dot) => dot.isChosen);
    const lines = dots.filter((dot) => dot.name === data.lines[0]);
    const x = (dot) => dot.quartiles[0];
    const title = (dot) => `${dot.name} on ${dot.log}: ${spread(dot.quartiles)}`;
    draw(
      "by-log",
      `${measures[measure].title} of all methods on each log at epsilon ${epsilon}. ` +
        `The large mark is ${method === BEST ? "the best method" : method}, the upright stroke the ${data.lines[0]}.`,
      (width) => ({
        width: Math.max(300, Math.min(760, width)),
        height: 64 + 30 * logs.length,
        marginLeft: 136,
        marginBottom: 44,
        marginRight: 16,
        x: { label: measures[measure].title, labelOffset: 40, grid: true, ticks: 5, ...scaled(measure) },
        y: { label: null, domain: logs.map((log) => log.name), tickSize: 0, tickFormat: (name) => (name.length > 20 ? `${name.slice(0, 19)}…` : name) },
        marks: [
          Plot.dot(ofMethods, { x, y: "log", r: 3, fill: ACCENT, fillOpacity: 0.45, tip: true, title }),
          Plot.tickX(lines, { x, y: "log", stroke: QUIET, strokeWidth: 2 }),
          Plot.ruleY(standingOut, {
            y: "log", x1: (dot) => dot.quartiles[1], x2: (dot) => dot.quartiles[2],
            stroke: WARM, strokeWidth: 7, strokeOpacity: 0.35,
          }),
          Plot.dot(standingOut, { x, y: "log", r: 5.5, fill: WARM, tip: true, title }),
        ],
      }),
      `${measures[measure].title} by log`,
    );
  };

  // --- Tables ------------------------------------------------------------------------------------

  const table = (head, rows) =>
    element(
      "div",
      { class: "wide board", tabindex: "0" },
      element(
        "table",
        {},
        element("thead", {}, element("tr", {}, ...head.map((text, i) => element("th", { class: i ? "number" : null }, text)))),
        element("tbody", {}, ...rows),
      ),
    );

  const figuresOf = (ordered, log, epsilon, kind) => {
    const columns = kind.measures;
    const firsts = Object.fromEntries(columns.map((one) => [one, best(ordered, one, log)]));
    const cell = (row, measure) => {
      const text = spread(row.figures[measure]);
      return element("td", { class: "number" }, firsts[measure].includes(row) ? element("strong", {}, text) : text);
    };
    const rows = ordered
      .filter((row) => columns.some((one) => median(row, one) !== null))
      .map((row) =>
        element(
          "tr",
          { class: row.group === "line" ? "line" : null },
          element("td", {}, row.name),
          element("td", { class: "number" }, row.delta),
          ...columns.map((one) => cell(row, one)),
        ),
      );
    const near = columns.map((one) => (["log", "more"].includes(measures[one].better) || data.disclosure.includes(one) ? log.of_log[one] : undefined));
    if (near.some((value) => value !== undefined))
      rows.push(
        element("tr", { class: "line" }, element("td", {}, "the log itself"), element("td", {}),
          ...near.map((value) => element("td", { class: "number" }, number(value)))),
      );
    const head = ["method", "delta", ...columns.map((one) => measures[one].title)];
    const caption = `${log.name}, ${kind.title}, epsilon ${epsilon}: medians and quartiles; the best is bold.`;
    place("figures").replaceChildren(
      element("p", { class: "quiet" }, caption),
      table(head, rows),
      ...notesOf(ordered, log, epsilon, kind),
    );
  };

  // What a table cannot say: refusals, releases that are missing, and where figures are from.
  const notesOf = (ordered, log, epsilon, kind) => {
    const here = log.releases.filter((one) => one.epsilon === epsilon && one.kind === kind.name);
    const every = distinct(logs.flatMap((one) => one.releases).filter((one) => one.kind === kind.name).map((one) => one.method));
    const missing = every.filter((name) => !here.some((one) => one.method === name));
    const fewer = here.filter((one) => one.refused === null && one.n_releases < data.wanted);
    const texts = [
      ...here.filter((one) => one.refused !== null).map((one) => `${one.method} refused: ${one.refused}.`),
      ...(fewer.length ? [`Of fewer than ${data.wanted} releases: ${fewer.map((one) => `${one.method} (${one.n_releases})`).join(", ")}.`] : []),
      ...(missing.length ? [`Not computed on this log, for which the time was short: ${missing.join(", ")}.`] : []),
      ...(kind.name === "log" ? log.notes : []),
    ];
    return texts.map((text) => element("p", { class: "quiet" }, text.replaceAll("`", "")));
  };

  const bestOf = (kind, measure) => {
    const releases = logs.flatMap((log) => log.releases).filter((one) => one.kind === kind.name);
    place("best").hidden = distinct(releases.map((one) => one.method)).length < 2;
    const rows = logs.map((log) =>
      element(
        "tr",
        {},
        element("td", {}, log.name),
        ...data.epsilons.map((epsilon) => {
          const [first] = best(rowsOf(log, epsilon, kind.name), measure, log);
          return element("td", { class: "number" }, first ? `${first.name} ${number(median(first, measure))}` : NOTHING);
        }),
        element("td", { class: "number" }, number(log.lines[0]?.figures[measure]?.[0])),
      ),
    );
    const head = ["log", ...data.epsilons.map((epsilon) => `epsilon ${epsilon}`), data.lines[0]];
    const caption = `${measures[measure].title}, ${kind.title}. ${NOTHING}: not known for all methods.`;
    place("best").replaceChildren(
      element("h3", {}, "The best method of each log and epsilon"),
      element("p", { class: "quiet" }, caption),
      table(head, rows),
    );
  };

  // --- All of it ---------------------------------------------------------------------------------

  const controls = () => {
    const kinds = data.kinds.map((kind) => ({ value: kind.name, title: kind.title }));
    const choice = [
      select("log", "log", named(logs.map((log) => log.name)), redraw),
      select("kind", "released", kinds, redraw),
      select("epsilon", "epsilon", data.epsilons.map((one) => ({ value: one, title: one })), redraw),
    ];
    const kind = kindOf();
    choice.push(
      select("measure", "measure", kind.measures.map((one) => ({ value: one, title: measures[one].title })), redraw),
      select(
        "method",
        "standing out among logs",
        named([BEST, ...distinct(logs.flatMap((log) => data.epsilons.flatMap((one) => rowsOf(log, one, kind.name)))
          .filter((row) => row.group !== "line").map((row) => row.name))]),
        redraw,
      ),
    );
    const focused = [...place("choice").querySelectorAll("select")].indexOf(document.activeElement);
    place("choice").replaceChildren(...choice);
    if (focused >= 0) place("choice").querySelectorAll("select")[focused].focus();
  };

  const redraw = () => {
    controls();
    const [log, kind, { epsilon, measure }] = [logOf(), kindOf(), chosen];
    const rows = sorted(rowsOf(log, epsilon, kind.name), measure, log);
    const after = 1 / (1 + Math.exp(-Number(epsilon)));
    place("chosen").textContent =
      `${log.name}: ${log.n_cases.toLocaleString("en-US")} cases, ${log.n_events.toLocaleString("en-US")} events, ` +
      `${log.n_variants.toLocaleString("en-US")} variants, ${log.n_activities} activities; cases are cut at ${log.max_trace_length} events. ` +
      `At epsilon ${epsilon} a guess of 50 % that some case is in the log becomes ${percent(after)} at most, delta aside.`;
    const at = `${log.name}, ${kind.title}, epsilon ${epsilon}`;
    byMethod("by-method", measure, rows, log, `${measures[measure].title}: ${at}`);
    const measured = data.disclosure.filter((one) => kind.measures.includes(one));
    for (const [i, id] of ["disclosed", "disclosed-in-time"].entries()) {
      if (measured[i] && measured[i] !== measure)
        byMethod(id, measured[i], rows, log, `${measures[measured[i]].title}, in the same order`);
      else draw(id, kind.name === "graph" && !i ? "A graph has no cases, so none of them is singled out by events that somebody knows: what it tells of a case is bounded by its epsilon." : null);
    }
    figuresOf(rows, log, epsilon, kind);
    byEpsilon(log, kind.name, measure);
    byLog(epsilon, kind.name, measure, chosen.method);
    bestOf(kind, measure);
  };

  if (!data.kinds.length) {
    place("chosen").textContent = "Nothing was released: the time was short. The same command goes on.";
    return;
  }
  redraw();
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) redraw();
    width = innerWidth;
  });
})();
