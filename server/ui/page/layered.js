// SPDX-License-Identifier: Apache-2.0
// A layered drawing of a graph without cycles (Sugiyama's method): layers by the longest way from the
// top, an order within each by the mean place of neighbours, and places that pull neighbours together.
// Edges over several layers go through points of their own, so that they run between the boxes.

const SWEEPS = 6;

function layersOf(count, edges) {
  const layer = new Array(count).fill(0);
  // Edges go from lower to higher numbers, which is an order of the graph.
  for (const edge of [...edges].sort((a, b) => a.to - b.to || a.from - b.from)) {
    layer[edge.to] = Math.max(layer[edge.to], layer[edge.from] + 1);
  }
  return layer;
}

/** Points, of boxes and of long edges, and the short pieces between them. */
function split(count, edges, layer) {
  const points = Array.from({length: count}, (_, i) => ({box: true, layer: layer[i], above: [], below: []}));
  const ways = edges.map((edge) => {
    const way = [edge.from];
    for (let l = layer[edge.from] + 1; l < layer[edge.to]; ++l) {
      way.push(points.length);
      points.push({box: false, layer: l, above: [], below: []});
    }
    way.push(edge.to);
    for (let i = 0; i + 1 < way.length; ++i) {
      points[way[i]].below.push(way[i + 1]);
      points[way[i + 1]].above.push(way[i]);
    }
    return way;
  });
  return {points, ways};
}

function mean(values, otherwise) {
  return values.length === 0 ? otherwise : values.reduce((sum, value) => sum + value, 0) / values.length;
}

function order(rows, points) {
  const place = [];
  const number = () => rows.forEach((row) => row.forEach((point, i) => (place[point] = i)));
  number();
  for (let sweep = 0; sweep < SWEEPS; ++sweep) {
    const down = sweep % 2 === 0;
    for (const row of down ? rows : [...rows].reverse()) {
      const wish = new Map(row.map((point) =>
        [point, mean(points[point][down ? "above" : "below"].map((other) => place[other]), place[point])]));
      row.sort((a, b) => wish.get(a) - wish.get(b) || place[a] - place[b]);
      row.forEach((point, i) => (place[point] = i));
    }
  }
}

/** Moves each point towards its neighbours as far as the row has room. */
function spread(rows, points, widthOf, gap) {
  const x = [];
  for (const row of rows) {
    let at = 0;
    for (const point of row) {
      x[point] = at + widthOf(points[point]) / 2;
      at += widthOf(points[point]) + gap;
    }
    const shift = (at - gap) / 2;
    for (const point of row) x[point] -= shift;
  }
  const apart = (a, b) => (widthOf(points[a]) + widthOf(points[b])) / 2 + gap;
  for (let sweep = 0; sweep < 2 * SWEEPS; ++sweep) {
    for (const row of sweep % 2 === 0 ? rows : [...rows].reverse()) {
      const wish = row.map((point) => mean([...points[point].above, ...points[point].below].map((other) => x[other]), x[point]));
      const left = [], right = [];
      row.forEach((point, i) => (left[i] = i === 0 ? wish[0] : Math.max(wish[i], left[i - 1] + apart(row[i - 1], point))));
      for (let i = row.length - 1; i >= 0; --i) {
        right[i] = i === row.length - 1 ? wish[i] : Math.min(wish[i], right[i + 1] - apart(row[i], row[i + 1]));
      }
      row.forEach((point, i) => (x[point] = (left[i] + right[i]) / 2));
    }
  }
  return x;
}

/**
 * Places of `count` boxes of that size, and the ways of edges ({from, to}, from < to) as points from
 * box to box; beginning at 0, 0.
 */
export function layOut(count, edges, {width, height, gap, rowGap}) {
  const layer = layersOf(count, edges);
  const {points, ways} = split(count, edges, layer);
  const rows = [];
  points.forEach((point, i) => (rows[point.layer] ??= []).push(i));
  order(rows, points);
  const x = spread(rows, points, (point) => (point.box ? width : 0), gap);
  const least = Math.min(...points.map((point, i) => x[i] - (point.box ? width / 2 : 0)));
  const most = Math.max(...points.map((point, i) => x[i] + (point.box ? width / 2 : 0)));
  const top = (l) => l * (height + rowGap);
  return {
    width: most - least,
    height: top(rows.length) - rowGap,
    boxes: points.slice(0, count).map((point, i) => ({x: x[i] - least - width / 2, y: top(point.layer), layer: point.layer})),
    ways: ways.map((way) => way.flatMap((point, i) => {
      const at = {x: x[point] - least, y: top(points[point].layer)};
      if (!points[point].box) return [at, {x: at.x, y: at.y + height}];
      return [{x: at.x, y: i === 0 ? at.y + height : at.y}];
    })),
  };
}
