// Where the number of each path stands: on its own arrow, and off boxes, other arrows and numbers.
"use strict";

// Points of a path of the SVG of Graphviz, which is a point and cubic curves: not less than 4 apart,
// and not many more than 200.
tracecloak.pointsOf = (d) => {
  const numbers = d.match(/-?\d+(\.\d+)?/g).map(Number);
  const ends = Array.from({ length: numbers.length / 2 }, (_, k) => [numbers[2 * k], numbers[2 * k + 1]]);
  const spans = ends.slice(1).map(([x, y], k) => Math.hypot(x - ends[k][0], y - ends[k][1]));
  const step = Math.max(4, spans.reduce((sum, span) => sum + span, 0) / 200);
  const points = [ends[0]];
  for (let k = 0; k + 3 < ends.length; k += 3) {
    const [a, b, c, e] = ends.slice(k, k + 4);
    const n = Math.max(2, Math.ceil((spans[k] + spans[k + 1] + spans[k + 2]) / step));
    for (let i = 1; i <= n; i++) {
      const t = i / n;
      const u = 1 - t;
      points.push(
        [0, 1].map((x) => u * u * u * a[x] + 3 * u * u * t * b[x] + 3 * u * t * t * c[x] + t * t * t * e[x]),
      );
    }
  }
  return points;
};

// Things in squares of a plane, so that those near a box are found without a look at all.
const _squares = (size = 40) => {
  const squares = new Map();
  const over = ([x0, y0, x1, y1], act) => {
    for (let x = Math.floor(x0 / size); x <= Math.floor(x1 / size); x++)
      for (let y = Math.floor(y0 / size); y <= Math.floor(y1 / size); y++) act(`${x} ${y}`);
  };
  return {
    add: (box, thing) =>
      over(box, (key) => {
        if (!squares.has(key)) squares.set(key, []);
        squares.get(key).push(thing);
      }),
    near: (box) => {
      const things = new Set();
      over(box, (key) => squares.get(key)?.forEach((thing) => things.add(thing)));
      return things;
    },
  };
};

const _common = (a, b) =>
  Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0])) *
  Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));

// The labels come with the points of their paths and with their sizes, those first that shall stand
// best; the boxes are corners x, y, x, y. Returns the middle of each label. Of the points of its path
// each label takes the one where it covers least, and of these the one nearest to the middle.
tracecloak.placesOf = (labels, boxes) => {
  const solid = _squares();
  const ways = _squares();
  for (const box of boxes) solid.add(box, { box, price: 1 });
  labels.forEach(({ points }, k) => {
    for (const [x, y] of points) ways.add([x, y, x, y], { x, y, k });
  });
  return labels.map(({ points, width, height }, k) => {
    const boxAt = ([x, y]) => [x - width / 2, y - height / 2, x + width / 2, y + height / 2];
    const middle = points.length / 2; // of the arrow, whose head lies beyond its path
    const fromMiddle = (i) => (6 * Math.abs(i - middle)) / (middle + 1);
    const priceOf = (i) => {
      const box = boxAt(points[i]);
      let price = fromMiddle(i);
      for (const other of solid.near(box)) price += other.price * _common(box, other.box);
      for (const at of ways.near(box))
        if (at.k !== k && at.x > box[0] && at.x < box[2] && at.y > box[1] && at.y < box[3]) price += 12;
      return price;
    };
    // The beginning of a path is not for its label, which would hide where it comes from.
    const inner = [...points.keys()].slice(Math.min(Math.floor(points.length * 0.2), 4));
    let [least, best] = [Infinity, points[0]];
    for (const i of inner.sort((a, b) => fromMiddle(a) - fromMiddle(b))) {
      if (fromMiddle(i) >= least) break;
      const price = priceOf(i);
      if (price < least) [least, best] = [price, points[i]];
    }
    solid.add(boxAt(best), { box: boxAt(best), price: 3 });
    return best;
  });
};

// Moves the labels of a drawing of Graphviz onto their arrows. That of a loop, which is hardly larger,
// begins where the loop is farthest from its box.
tracecloak.moveLabels = (svg, weightOf, isLoop) => {
  const SIZE = 11;
  const FREE = 3; // around a label, which would else seem to be crossed
  const cornersOf = (shape) => {
    if (shape.tagName === "ellipse") {
      const [x, y, a, b] = ["cx", "cy", "rx", "ry"].map((name) => Number(shape.getAttribute(name)));
      return [x - a, y - b, x + a, y + b];
    }
    const numbers = (shape.getAttribute("d") ?? shape.getAttribute("points")).match(/-?\d+(\.\d+)?/g).map(Number);
    const [xs, ys] = [0, 1].map((end) => numbers.filter((_, k) => k % 2 === end));
    return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
  };
  const besideLoop = (points, width) => {
    const [x, y] = points.reduce((most, point) => (point[0] > most[0] ? point : most));
    return [x + width / 2 - 1, y];
  };
  const boxes = [...svg.querySelectorAll(".node")].map((g) => cornersOf(g.querySelector("path, polygon, ellipse")));
  const labels = [...svg.querySelectorAll(".edge")]
    .filter((g) => g.querySelector("text"))
    .sort((a, b) => weightOf(b) - weightOf(a))
    .map((g) => {
      const text = g.querySelector("text");
      const points = tracecloak.pointsOf(g.querySelector("path").getAttribute("d"));
      const width = 0.64 * SIZE * text.textContent.trim().length;
      const at = isLoop(g) ? [besideLoop(points, width)] : points;
      return { text, points: at, width: width + 2 * FREE, height: SIZE + FREE };
    });
  tracecloak.placesOf(labels, boxes).forEach(([x, y], k) => {
    labels[k].text.setAttribute("x", x.toFixed(1));
    labels[k].text.setAttribute("y", (y + 0.35 * SIZE).toFixed(1));
  });
};
