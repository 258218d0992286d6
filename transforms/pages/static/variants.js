// The variants: the most frequent first, found by an activity, and followed on the map.
"use strict";

(() => {
  const { data, element, number, percent } = tracecloak;
  const list = document.getElementById("variants");
  if (!data.variants || !list) return;
  const { names, rows, n_cases: nCases } = data.variants;
  const most = Math.max(...rows.map((row) => row.count));
  const more = document.getElementById("more-variants");
  const query = document.getElementById("variant-search");
  const told = document.getElementById("variants-told");
  const PAGE = 12;
  let nShown = PAGE;

  // The most frequent activities have colours of their own; the others are told by their names.
  const occurrences = new Map();
  for (const row of rows)
    for (const code of row.codes) occurrences.set(code, (occurrences.get(code) ?? 0) + row.count);
  const ranked = [...occurrences.keys()].sort((a, b) => occurrences.get(b) - occurrences.get(a));
  const hue = new Map(ranked.slice(0, 10).map((code, k) => [code, d3.schemeTableau10[k]]));

  const LONGEST = 40;
  const item = (row) => {
    const shown = row.codes.slice(0, LONGEST);
    const steps = shown.map((code) =>
      element("span", { class: "step", style: { "--hue": hue.get(code) ?? "var(--quiet)" } }, names[code]),
    );
    const nHidden = row.n_events - shown.length;
    if (nHidden > 0) steps.push(element("span", { class: "quiet" }, `and ${nHidden} more`));
    if (!row.n_events) steps.push(element("span", { class: "quiet" }, "no events"));
    const interval =
      row.low === null
        ? []
        : [element("span", { class: "quiet" }, ` (${number(row.low)} to ${number(row.high)})`)];
    const beside =
      row.original === undefined
        ? []
        : [element("span", { class: "quiet" }, `, original ${number(row.original)}`)];
    const counted = element(
      "button",
      {
        class: "row",
        "aria-label": `${number(row.count)} cases, ${percent(row.count / nCases)}: show on the map`,
        onclick: async () => (await tracecloak.mapReady)?.follow(row.codes),
      },
      element("strong", {}, number(row.count)),
      ...interval,
      ...beside,
      element("span", { class: "quiet" }, ` ${percent(row.count / nCases)}`),
      element("span", {
        class: "share",
        "aria-hidden": "true",
        style: { width: `${(100 * row.count) / most}%` },
      }),
    );
    return element("li", {}, counted, element("div", { class: "steps" }, ...steps));
  };

  const draw = () => {
    const wanted = query.value.trim().toLowerCase();
    const found = wanted
      ? rows.filter((row) => row.codes.some((code) => names[code].toLowerCase().includes(wanted)))
      : rows;
    list.replaceChildren(...found.slice(0, nShown).map(item));
    const sum = found.slice(0, nShown).reduce((cases, row) => cases + row.count, 0);
    told.textContent = found.length
      ? `${Math.min(nShown, found.length)} of ${number(found.length)} variants, with ${percent(sum / nCases)} of the cases`
      : "No variant has such an activity.";
    more.hidden = nShown >= found.length;
  };
  query.addEventListener("input", () => {
    nShown = PAGE;
    draw();
  });
  more.addEventListener("click", () => {
    nShown += 3 * PAGE;
    draw();
  });
  draw();
})();
