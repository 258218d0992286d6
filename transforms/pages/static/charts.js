// Charts of counts: durations, beginnings, hours of the week, and what a guess can rise to.
"use strict";

(() => {
  const { data, element, number, percent, duration } = tracecloak;
  const accent = "var(--accent)";

  const put = tracecloak.chart;

  const table = (id, head, rows) =>
    document.getElementById(id)?.append(
      element(
        "details",
        { class: "no-print" },
        element("summary", {}, "As a table"),
        element(
          "table",
          {},
          element("thead", {}, element("tr", {}, ...head.map((text) => element("th", {}, text)))),
          element(
            "tbody",
            {},
            ...rows.map((row) => element("tr", {}, ...row.map((text) => element("td", {}, String(text))))),
          ),
        ),
      ),
    );

  // What the original has stands as a line around the bar of the release.
  const besideOf = (rows, ends) =>
    rows.some((row) => row.original !== undefined)
      ? [
          Plot.rectY(rows, {
            ...ends,
            y: "original",
            fill: "none",
            stroke: "var(--warm)",
            strokeWidth: 1.6,
            inset: 0.3,
          }),
        ]
      : [];
  const alsoOf = (row) =>
    row.original === undefined ? "" : `, ${number(row.original)} in the original`;

  const { times, guess } = data;
  if (times?.spans.length) {
    // The axis is the logarithm itself, so that ticks can stand at whole units of time.
    const ticks = [1, 10, 60, 600, 3600, 21600, 86400, 432000, 2629746 * 2, 31556952, 315569520];
    const log = (seconds) => Math.log(Math.max(seconds, 0.5));
    const [low, high] = [log(times.spans[0].from_s), log(times.spans.at(-1).to_s)];
    put(
      "durations",
      {
        height: 240,
        marginBottom: 46,
        x: {
          label: "from the first event to the last",
          labelOffset: 42,
          domain: [low, high],
          ticks: ticks.map(log).reduce((shown, t) => {
            const isApart = !shown.length || t - shown.at(-1) >= (high - low) / 7;
            return t >= low && t <= high && isApart ? [...shown, t] : shown;
          }, []),
          tickFormat: (t) => duration(Math.exp(t)),
        },
        y: { label: "cases", grid: true, tickFormat: number },
        marks: [
          Plot.rectY(times.spans, {
            x1: (d) => log(d.from_s),
            x2: (d) => log(d.to_s),
            y: "count",
            fill: accent,
            inset: 0.3,
            tip: true,
            title: (d) =>
              `${duration(d.from_s)} to ${duration(d.to_s)}: ${number(d.count)} cases${alsoOf(d)}`,
          }),
          ...besideOf(times.spans, { x1: (d) => log(d.from_s), x2: (d) => log(d.to_s) }),
          Plot.ruleY([0]),
        ],
      },
      "Histogram of the durations of cases",
    );
    table(
      "durations",
      ["from", "to", "cases"],
      times.spans.map((d) => [duration(d.from_s), duration(d.to_s), number(d.count)]),
    );
  }
  if (times?.starts.length) {
    const day = (n) => new Date(n * 86400000);
    put(
      "starts",
      {
        height: 230,
        x: { type: "utc", label: null },
        y: { label: `cases that begin, by ${times.period}`, grid: true, tickFormat: number },
        marks: [
          Plot.rectY(times.starts, {
            x1: (d) => day(d.first_day),
            x2: (d) => day(d.last_day),
            y: "count",
            fill: accent,
            inset: 0.3,
            tip: true,
            title: (d) => `${d.name}: ${number(d.count)} cases${alsoOf(d)}`,
          }),
          ...besideOf(times.starts, { x1: (d) => day(d.first_day), x2: (d) => day(d.last_day) }),
          Plot.ruleY([0]),
        ],
      },
      `Cases that begin, by ${times.period}`,
    );
    table("starts", [times.period, "cases"], times.starts.map((d) => [d.name, number(d.count)]));
  }
  if (times?.week) {
    const days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const cells = times.week.map((count, i) => ({ day: days[Math.floor(i / 24)], hour: i % 24, count }));
    put(
      "week",
      {
        height: 240,
        marginBottom: 44,
        padding: 0.06,
        x: { label: "hour (UTC)", labelOffset: 40, ticks: [0, 6, 12, 18, 23], tickFormat: (h) => `${h}` },
        y: { domain: days, label: null },
        color: { scheme: "YlGnBu", label: "events", legend: true, zero: true },
        marks: [
          Plot.cell(cells, {
            x: "hour",
            y: "day",
            fill: "count",
            tip: true,
            title: (d) => `${d.day}, ${d.hour}:00 to ${d.hour}:59: ${number(d.count)} events`,
          }),
        ],
      },
      "Events by hour of the week",
    );
    table(
      "week",
      ["day", "hour", "events"],
      cells.filter((d) => d.count).map((d) => [d.day, d.hour, number(d.count)]),
    );
  }
  if (guess) {
    put(
      "guess",
      {
        height: 320,
        marginLeft: 52,
        x: { label: "what somebody believed before", tickFormat: percent, domain: [0, 1] },
        y: { label: "what they can believe after", tickFormat: percent, domain: [0, 1], grid: true },
        marks: [
          Plot.areaY(guess, { x: "prior", y1: "prior", y2: "posterior", fill: accent, fillOpacity: 0.18 }),
          Plot.line(guess, { x: "prior", y: "prior", stroke: "var(--quiet)", strokeDasharray: "4 4" }),
          Plot.line(guess, { x: "prior", y: "posterior", stroke: accent, strokeWidth: 2.5 }),
          Plot.tip(
            guess,
            Plot.pointerX({
              x: "prior",
              y: "posterior",
              title: (d) => `${percent(d.prior)} before: at most ${percent(d.posterior)} after`,
            }),
          ),
        ],
      },
      "How far a guess can rise",
    );
  }
})();
