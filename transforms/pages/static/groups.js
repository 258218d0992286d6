// Folds the map to groups of activities, and unfolds it.
"use strict";

tracecloak.mapReady = (async (activities) => {
  const { data } = tracecloak;
  const map = await activities;
  const [levels, controls] = [document.getElementById("levels"), document.querySelector(".controls")];
  if (!map || !data.groups || !levels || !controls) return map;
  // The template of the map is that of all pages; the control stands first among its own.
  controls.prepend(...levels.children);
  levels.remove();
  const buttons = new Map([
    [data.map, document.getElementById("level-activities")],
    [data.groups, document.getElementById("level-groups")],
  ]);
  const show = (level) => {
    for (const [other, button] of buttons) button.setAttribute("aria-pressed", String(other === level));
    map.show(level);
  };
  for (const [level, button] of buttons) button.addEventListener("click", () => show(level));
  return {
    show: map.show,
    // A variant is of activities, so the map is unfolded before its way is shown.
    follow: (codes) => {
      show(data.map);
      map.follow(codes);
    },
  };
})(tracecloak.mapReady);
