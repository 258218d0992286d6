// Numbers on the map look as their grade: what is noise, or a modelled time, is grey.
"use strict";

(() => {
  const plain = tracecloak.graphOf;
  const isTime = () =>
    document.getElementById("metric-time")?.getAttribute("aria-pressed") === "true";
  const gradeOf = (thing) => (isTime() && thing.time_grade) || thing.grade;

  tracecloak.graphOf = (map, part, labelOf) => {
    const graph = plain(map, part, labelOf);
    const mark = (drawn, things) => {
      for (const { attributes } of drawn) {
        const thing = things[Number(attributes.id.split("-")[1])];
        if (gradeOf(thing)) attributes.class += ` ${gradeOf(thing)}`;
      }
    };
    mark(graph.nodes, map.nodes);
    mark(graph.edges, map.edges);
    return graph;
  };
})();
