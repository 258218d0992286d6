// What every page has: its data, its theme, numbers and durations in words, and saving a file.
"use strict";

const tracecloak = (() => {
  const root = document.documentElement;
  root.classList.add("scripted");
  const data = JSON.parse(document.getElementById("data").textContent);

  const theme = document.getElementById("theme");
  theme?.addEventListener("click", () => {
    const isDark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
  });

  const number = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 0 });

  const percent = (share) =>
    share >= 0.9995 || share === 0 || share >= 0.1
      ? `${Math.round(100 * share)} %`
      : `${(100 * share).toPrecision(2)} %`;

  // Units of durations, and from how many of the seconds on each is used.
  const UNITS = [
    ["second", 1, 1],
    ["minute", 60, 60],
    ["hour", 3600, 3600],
    ["day", 86400, 86400],
    ["month", 2629746, 2 * 2629746],
    ["year", 31556952, 31556952],
  ];

  const duration = (seconds) => {
    if (seconds < 1) return "at once";
    const [name, size] = UNITS.findLast(([, , from]) => seconds >= 0.995 * from);
    const value = seconds / size;
    const text = value < 9.95 ? String(Math.round(10 * value) / 10) : number(value);
    return `${text} ${name}${text === "1" ? "" : "s"}`;
  };

  const save = (name, text, type) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  // An element with attributes and children; texts are texts, whatever they look like.
  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (name === "style") for (const [key, v] of Object.entries(value)) made.style.setProperty(key, v);
      else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children);
    return made;
  };

  return { data, number, percent, duration, save, element };
})();
