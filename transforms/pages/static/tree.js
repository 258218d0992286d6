// The process tree: operators as circles, activities as boxes, read from left to right.
"use strict";

(async () => {
  const { tree } = tracecloak.data;
  const place = document.getElementById("tree");
  if (!tree || !place) return;
  const signs = { sequence: "→", exclusive: "×", parallel: "∧", loop: "↻", silent: "τ" };
  const svg = await tracecloak.drawn({
    directed: true,
    graphAttributes: { rankdir: "TB", bgcolor: "transparent", nodesep: 0.25, ordering: "out", pad: 0.1 },
    nodeAttributes: { fontname: "Helvetica", fontsize: 13, style: "filled" },
    edgeAttributes: { arrowhead: "none" },
    nodes: tree.map((node, i) => ({
      name: `t${i}`,
      attributes:
        node.kind === "activity"
          ? {
              shape: "box",
              style: "rounded,filled",
              label: tracecloak.lines(node.activity).join("\n").replaceAll("\\", "\\\\"),
            }
          : { shape: "circle", width: 0.42, fixedsize: "true", label: signs[node.kind], class: "end" },
    })),
    edges: tree.flatMap((node, i) =>
      node.parent === null ? [] : [{ tail: `t${node.parent}`, head: `t${i}` }],
    ),
  });
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "Process tree");
  place.replaceChildren(svg);
})();
