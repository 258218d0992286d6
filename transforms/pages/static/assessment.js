// Charts of an assessment: risk against use, who is singled out, and what an attack measured.
"use strict";

(() => {
  const { data, percent } = tracecloak;
  const put = tracecloak.chart;

  if (data.curve)
    put(
      "curve-chart",
      {
        height: 320,
        marginLeft: 60,
        marginTop: 36,
        marginBottom: 46,
        x: { label: "what a guess of 10 % can rise to", tickFormat: percent, labelOffset: 42 },
        y: { label: data.curve.measure, grid: true, zero: true },
        marks: [
          Plot.line(data.curve.rows, { x: "risk", y: "error", stroke: "var(--accent)" }),
          Plot.dot(data.curve.rows, {
            x: "risk",
            y: "error",
            r: (row) => (row.is_own ? 7 : 4),
            fill: (row) => (row.is_own ? "var(--warm)" : "var(--accent)"),
          }),
          Plot.text(data.curve.rows, {
            x: "risk",
            y: "error",
            text: (row) => `ε ${row.epsilon}`,
            dy: -14,
          }),
        ],
      },
      "Error against risk by epsilon",
    );
  if (data.linkage)
    put(
      "linkage-chart",
      {
        height: 80 + 26 * data.linkage.length,
        marginLeft: 250,
        marginBottom: 46,
        x: { label: "singled out", tickFormat: percent, domain: [0, 1], grid: true, labelOffset: 42 },
        y: { label: null, domain: data.linkage.map((row) => row.label) },
        color: {
          domain: ["in the log", "in the release"],
          range: ["var(--warm)", "var(--accent)"],
          legend: true,
        },
        marks: [
          Plot.ruleY(data.linkage, {
            y: "label",
            x1: "before",
            x2: "after",
            stroke: "var(--quiet)",
          }),
          Plot.dot(data.linkage, { y: "label", x: "before", r: 6, fill: "var(--warm)" }),
          Plot.dot(data.linkage, {
            y: "label",
            x: "after",
            r: 6,
            symbol: "square",
            fill: "var(--accent)",
          }),
        ],
      },
      "Share of the cases that are singled out, before and after",
    );
  if (data.attack)
    put(
      "attack-chart",
      {
        height: 60 + 34 * data.attack.length,
        marginLeft: 190,
        x: { label: "epsilon", zero: true, grid: true },
        y: { label: null, domain: data.attack.map((row) => row.name) },
        marks: [
          Plot.barX(data.attack, { y: "name", x: "epsilon", fill: "var(--accent)" }),
          Plot.text(data.attack, { y: "name", x: "epsilon", text: (d) => `${d.epsilon}`, dx: 18 }),
        ],
      },
      "Claimed, accounted and measured epsilon",
    );
})();
