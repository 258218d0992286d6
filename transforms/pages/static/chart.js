// What all charts have in common: as wide as their place, one name for the whole picture.
"use strict";

tracecloak.chart = (id, options, label) => {
  const place = document.getElementById(id);
  if (!place) return;
  const drawn = Plot.plot({
    width: Math.max(300, Math.min(640, place.clientWidth)),
    marginLeft: 48,
    style: { background: "transparent", color: "currentColor", fontSize: "12px" },
    ariaLabel: label,
    ...options,
  });
  // The groups in it are no controls.
  const svg = drawn.matches("svg") ? drawn : [...drawn.querySelectorAll(":scope > svg")].at(-1);
  svg.setAttribute("role", "img");
  for (const group of drawn.querySelectorAll("g[aria-label]")) group.removeAttribute("aria-label");
  place.append(tracecloak.element("div", { class: "chart" }, drawn));
};
