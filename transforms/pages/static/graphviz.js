// Graphviz in a worker, so that the page can be read and moved while a large map is laid out.
"use strict";

// The worker is made of the library that the page carries. Where several pages share it, no page can
// read it, and where a browser allows no worker, it is not to be had: then Graphviz runs here.
tracecloak.layOut = (() => {
  const LONG_MS = 1000;
  const library = [...document.scripts].find((script) => script.text.startsWith("/*!\nViz.js"));
  const body = () => {
    const viz = Viz.instance();
    onmessage = async ({ data: { graph, format } }) => {
      try {
        postMessage({ text: (await viz).renderString(graph, { format }) });
      } catch (error) {
        postMessage({ error: String(error) });
      }
    };
  };
  const waiting = [];
  let worker = null;
  let isLost = !library;
  let current = null;

  const begin = () => {
    const source = new Blob([library.text, `\n(${body})();`], { type: "text/javascript" });
    const url = URL.createObjectURL(source);
    worker = new Worker(url);
    worker.onmessage = ({ data }) => {
      const { resolve, reject } = current;
      current = null;
      if (data.error) reject(new Error(data.error));
      else resolve(data.text);
      next();
    };
    worker.onerror = (event) => {
      event.preventDefault();
      isLost = true;
      if (current) waiting.unshift(current);
      current = null;
      next();
    };
  };

  const here = async ({ graph, format, resolve, reject }) => {
    try {
      resolve((await Viz.instance()).renderString(graph, { format }));
    } catch (error) {
      reject(error);
    }
  };

  const next = () => {
    if (isLost) {
      for (const job of waiting.splice(0)) here(job);
      return;
    }
    if (current || !waiting.length) return;
    if (!worker) begin();
    current = waiting.shift();
    current.since = performance.now();
    worker.postMessage({ graph: current.graph, format: current.format });
  };

  const giveUp = () => {
    worker.terminate();
    worker = null;
    current.resolve(null);
    current = null;
    next();
  };

  // Lays a graph out and returns it in a format of Graphviz, or null if another one of the same name
  // came after it.
  return (graph, format, name) =>
    new Promise((resolve, reject) => {
      const isOlder = (job) => name && job?.name === name;
      for (const job of waiting.filter(isOlder)) {
        waiting.splice(waiting.indexOf(job), 1);
        job.resolve(null);
      }
      const older = isOlder(current) ? current : null;
      waiting.push({ graph, format, name, resolve, reject });
      next();
      // What takes long is given up for what is wanted now; what does not is soon there.
      if (older) setTimeout(() => older === current && giveUp(), LONG_MS - (performance.now() - older.since));
    });
})();

// The drawing as an element that is as large as its place, or null as above.
tracecloak.drawn = async (graph, name) => {
  const text = await tracecloak.layOut(graph, "svg", name);
  if (text === null) return null;
  const svg = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  svg.querySelectorAll("title").forEach((title) => title.remove());
  const [width, height] = ["width", "height"].map((name) => parseFloat(svg.getAttribute(name)));
  svg.style.setProperty("--width", `${width}pt`);
  // On a sheet of A4, whose text is 516 points wide and 762 high, it needs the most of the height.
  svg.classList.toggle("tall", height * Math.min(1, 516 / width) > 460);
  svg.removeAttribute("width");
  svg.removeAttribute("height");
  return svg;
};
