// A page of a stream that asks this machine every second for what was published since.
"use strict";

(() => {
  const { element, number } = tracecloak;
  const byId = (id) => document.getElementById(id);
  let view = "";
  let version = "";

  const choose = (views, shown) =>
    byId("views").replaceChildren(
      ...views.map((name) =>
        element(
          "button",
          {
            type: "button",
            "aria-pressed": String(name === shown),
            onclick: () => {
              view = name;
              refresh();
            },
          },
          name,
        ),
      ),
    );

  const course = (id, rows, label) => {
    byId(`${id}-section`).hidden = rows.length === 0;
    byId(id).replaceChildren();
    if (!rows.length) return;
    const points = rows.map((row) => ({ ...row, at: new Date(row.end_ms) }));
    tracecloak.chart(
      id,
      {
        height: 240,
        x: { type: "utc", label: null },
        y: { label, grid: true, zero: true, tickFormat: number },
        marks: [
          Plot.areaY(points, { x: "at", y1: "low", y2: "high", fill: "var(--accent)", fillOpacity: 0.2 }),
          Plot.lineY(points, { x: "at", y: "count", stroke: "var(--accent)", strokeWidth: 2 }),
          Plot.dot(points, {
            x: "at",
            y: "count",
            fill: (d) => (d.grade === "noise" ? "var(--quiet)" : "var(--accent)"),
            tip: true,
            title: (d) =>
              `step ${d.step}\n${number(d.count)} cases, 95 % interval ${number(d.low)} to ${number(d.high)}: ${d.grade}`,
          }),
          Plot.ruleY([0]),
        ],
      },
      label,
    );
  };

  const figures = (rows, hidden) => {
    byId("figures-section").hidden = false;
    byId("hidden").textContent = hidden;
    byId("figures").replaceChildren(
      ...rows.map((row) =>
        element(
          "tr",
          { class: row.grade },
          element("td", {}, row.name),
          element("td", { class: "number" }, row.text),
          element("td", {}, `${row.kind}, ${row.grade}`),
        ),
      ),
    );
  };

  const refresh = async () => {
    let state;
    try {
      const answer = await fetch(`state.json?view=${encodeURIComponent(view)}`, { cache: "no-store" });
      state = await answer.json();
    } catch {
      byId("notice").textContent = "The page's server does not answer; this is the last that it said.";
      return;
    }
    byId("notice").textContent = state.notice;
    if (state.version === version) return;
    version = state.version;
    byId("headline").textContent = state.headline;
    byId("step").textContent = state.step_text;
    byId("budget").textContent = state.budget_text;
    byId("left").max = state.horizon;
    byId("left").value = state.n_steps_left;
    choose(state.views, state.view);
    course("totals", state.totals, "cases so far");
    course("course", state.course, "cases by step");
    figures(state.figures, state.hidden_text);
    byId("process-section").hidden = state.map === null;
    byId("nothing").hidden = state.map !== null;
    if (state.map) (await tracecloak.mapReady).show(state.map);
  };

  refresh();
  setInterval(refresh, 1000);
})();
