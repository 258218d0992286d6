// What is not usable on the map is grey: a number whose interval reaches further than itself.
"use strict";

(() => {
  const plain = tracecloak.graphOf;
  const isTime = () =>
    document.getElementById("metric-time")?.getAttribute("aria-pressed") === "true";
  const isGrey = (thing) => (isTime() && "time_usable" in thing ? !thing.time_usable : !thing.usable);

  tracecloak.graphOf = (map, part, labelOf) => {
    const graph = plain(map, part, labelOf);
    const mark = (drawn, things) => {
      for (const { attributes } of drawn) {
        const thing = things[Number(attributes.id.split("-")[1])];
        if ("usable" in thing && isGrey(thing)) attributes.class += " unusable";
      }
    };
    mark(graph.nodes, map.nodes);
    mark(graph.edges, map.edges);
    return graph;
  };
})();
