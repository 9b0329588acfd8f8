// SPDX-License-Identifier: Apache-2.0
// A compile's stages over time. Where it is known when they ran, there they stand; of what an earlier
// daemon compiled only their durations are, and they are shown one behind another, in their order.

import {h} from "./dom.js";
import {duration} from "./format.js";

const MOST_KERNELS = 200;

/** Stages with their parts: [{name, ns, parts: [{name, ns, full}]}]. */
function stagesOf(times) {
  const stages = [];
  for (const {stage, nanoseconds} of times) {
    const [name, part] = stage.split("/");
    let found = stages.find((one) => one.name === name);
    if (!found) stages.push(found = {name, full: name, ns: 0, parts: []});
    if (part === undefined) found.ns = Number(nanoseconds);
    else found.parts.push({name: part, full: stage, ns: Number(nanoseconds)});
  }
  // Of a stage that says only its parts.
  for (const stage of stages) stage.ns ||= stage.parts.reduce((sum, part) => sum + part.ns, 0);
  return stages;
}

/** bars: [{left, width, title}], in shares of the whole. */
function row(name, ns, bars, kind) {
  return h("div", {class: `stage ${kind}`, role: "listitem"},
    h("span", {class: "stage-name", title: name}, name),
    h("span", {class: "track"}, bars.map(({left, width, title}) => {
      const bar = h("span", {class: "stage-bar", title: title ?? false});
      bar.style.left = `${100 * left}%`;
      bar.style.width = `max(2px, ${100 * width}%)`;
      return bar;
    })),
    h("span", {class: "number"}, duration(ns)));
}

/** Rows one behind another. */
function rowsInOrder(stages, whole, summed) {
  const rows = [];
  let at = 0;
  for (const stage of stages) {
    const width = stage.ns / whole;
    rows.push(row(stage.name, stage.ns, [{left: at, width}], "stage-whole"));
    // What workers did side by side is summed, and may be more than the stage.
    const sum = Math.max(stage.ns, stage.parts.reduce((total, part) => total + part.ns, 0)) || 1;
    let within = at;
    for (const part of stage.parts) {
      const share = width * part.ns / sum;
      rows.push(row(part.name, part.ns, [{left: within, width: share}], "stage-part"));
      within += share;
    }
    if (!summed) at += width;
  }
  return rows;
}

const startOf = (span) => Number(span.start_nanoseconds);
const endOf = (span) => startOf(span) + Number(span.nanoseconds);

/** Rows with a bar where each span was, and one for each kernel that was made. */
function rowsInTime(stages, spans, begin, whole) {
  const bar = (span) => ({
    left: (startOf(span) - begin) / whole, width: Number(span.nanoseconds) / whole,
    title: `${[span.name, span.detail].filter(Boolean).join(", ")}: ${duration(span.nanoseconds)}, from ${duration(startOf(span) - begin)} on${span.process === "WORKER" ? `, worker ${span.pid}` : ""}`,
  });
  const barsOf = (name) => spans.filter((span) => span.name === name).map(bar);
  return stages.flatMap((stage) => [
    row(stage.name, stage.ns, barsOf(stage.full), "stage-whole"),
    stage.parts.map((part) => row(part.name, part.ns, barsOf(part.full), "stage-part")),
    spans.filter((span) => span.name === "jit/kernel" && stage.name === "jit").slice(0, MOST_KERNELS)
      .map((span) => row(`kernel: ${span.detail}`, span.nanoseconds, [bar(span)], "stage-part stage-kernel")),
  ].flat());
}

/** StageTimes as rows of bars. spans: when they ran. summed: of many compiles, so that no stage is
 *  behind another. */
export function timeline(times, {spans = [], summed = false} = {}) {
  const stages = stagesOf(times);
  if (summed) stages.sort((one, other) => other.ns - one.ns);
  const begin = Math.min(...spans.map(startOf));
  const whole = (spans.length > 0 ? Math.max(...spans.map(endOf)) - begin : stages.reduce((sum, stage) => sum + stage.ns, 0)) || 1;
  const rows = spans.length > 0 ? rowsInTime(stages, spans, begin, whole) : rowsInOrder(stages, whole, summed);
  const hasParts = stages.some((stage) => stage.parts.length > 0);
  return h("div", {class: "timeline without-parts"},
    h("p", {class: "bar"}, h("span", {}, `${duration(whole)} in all`), hasParts && h("label", {},
      h("input", {type: "checkbox", onchange: (event) => event.target.closest(".timeline").classList.toggle("without-parts", !event.target.checked)}), " passes of each stage")),
    h("div", {class: "stages", role: "list"}, rows));
}
