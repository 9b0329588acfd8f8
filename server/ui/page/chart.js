// SPDX-License-Identifier: Apache-2.0
// Numbers over time, drawn as lines.

import {h, s} from "./dom.js";

const [WIDTH, HEIGHT] = [600, 120];
const MOST_POINTS = 300;

/** Means of as many neighbours as make few enough points; what is no number stays none. */
function thinned(values, most) {
  if (values.length <= most) return values;
  const each = Math.ceil(values.length / most);
  const means = [];
  for (let i = 0; i < values.length; i += each) {
    const part = values.slice(i, i + each).filter(Number.isFinite);
    means.push(part.length === 0 ? NaN : part.reduce((sum, value) => sum + value, 0) / part.length);
  }
  return means;
}

function lineOf(values, most) {
  let line = "";
  let pen = "M";
  values.forEach((value, i) => {
    if (!Number.isFinite(value)) return void (pen = "M");
    const x = values.length === 1 ? WIDTH : WIDTH * i / (values.length - 1);
    line += `${pen}${x.toFixed(1)} ${(HEIGHT - 2 - (HEIGHT - 6) * value / most).toFixed(1)}`;
    pen = "L";
  });
  return line;
}

/**
 * A figure. series: [{name, values, kind}], of the same times in milliseconds. text: of a value.
 */
export function chart(title, times, series, text) {
  const shown = series.map((one) => ({...one, points: thinned(one.values, MOST_POINTS)}));
  const most = Math.max(0, ...shown.flatMap((one) => one.points).filter(Number.isFinite));
  const latest = (values) => {
    const value = values.findLast(Number.isFinite);
    return value === undefined ? "–" : text(value);
  };
  const brief = times.at(-1) - times[0] < 600_000;
  const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB", {
    hour: "2-digit", minute: "2-digit", ...(brief && {second: "2-digit"})});
  const said = series.map((one) => `${one.name} ${latest(one.values)}`).join(", ");
  return h("figure", {class: "chart"},
    h("figcaption", {}, h("span", {class: "chart-title"}, title),
      series.map((one) => h("span", {class: `now now-${one.kind}`}, one.name, " ", h("b", {}, latest(one.values))))),
    h("div", {class: "plot"},
      h("span", {class: "most"}, text(most)),
      s("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: now ${said}; at most ${text(most)}`},
        s("path", {class: "base", d: `M0 ${HEIGHT - 2}H${WIDTH}`}),
        shown.map((one) => s("path", {class: `series series-${one.kind}`, d: lineOf(one.points, most || 1)})))),
    h("div", {class: "ends"}, times.length > 0 && [h("span", {}, clock(times[0])), h("span", {}, clock(times.at(-1)))]));
}
