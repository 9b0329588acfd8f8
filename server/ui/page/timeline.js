// SPDX-License-Identifier: Apache-2.0
// A compile's stages over time: they ran one behind another, in the order in which they are given.

import {h} from "./dom.js";
import {duration} from "./format.js";

/** Stages with their parts: [{name, ns, parts: [{name, ns}]}]. */
function stagesOf(times) {
  const stages = [];
  for (const {stage, nanoseconds} of times) {
    const [name, part] = stage.split("/");
    let found = stages.find((one) => one.name === name);
    if (!found) stages.push(found = {name, ns: 0, parts: []});
    if (part === undefined) found.ns = Number(nanoseconds);
    else found.parts.push({name: part, ns: Number(nanoseconds)});
  }
  // Of a stage that says only its parts.
  for (const stage of stages) stage.ns ||= stage.parts.reduce((sum, part) => sum + part.ns, 0);
  return stages;
}

function row(name, ns, left, width, kind) {
  const bar = h("span", {class: "stage-bar"});
  bar.style.left = `${100 * left}%`;
  bar.style.width = `max(2px, ${100 * width}%)`;
  return h("div", {class: `stage ${kind}`, role: "listitem"},
    h("span", {class: "stage-name"}, name), h("span", {class: "track"}, bar), h("span", {class: "number"}, duration(ns)));
}

/** StageTimes as rows of bars. summed: of many compiles, so that no stage is behind another. */
export function timeline(times, {summed = false} = {}) {
  const stages = stagesOf(times);
  if (summed) stages.sort((one, other) => other.ns - one.ns);
  const whole = stages.reduce((sum, stage) => sum + stage.ns, 0) || 1;
  const body = h("div", {class: "stages", role: "list"});
  let at = 0;
  for (const stage of stages) {
    const width = stage.ns / whole;
    body.append(row(stage.name, stage.ns, at, width, "stage-whole"));
    // What workers did side by side is summed, and may be more than the stage.
    const sum = Math.max(stage.ns, stage.parts.reduce((total, part) => total + part.ns, 0)) || 1;
    let within = at;
    for (const part of stage.parts) {
      const share = width * part.ns / sum;
      body.append(row(part.name, part.ns, within, share, "stage-part"));
      within += share;
    }
    if (!summed) at += width;
  }
  const hasParts = stages.some((stage) => stage.parts.length > 0);
  return h("div", {class: "timeline without-parts"},
    h("p", {class: "bar"}, h("span", {}, `${duration(whole)} in all`), hasParts && h("label", {},
      h("input", {type: "checkbox", onchange: (event) => event.target.closest(".timeline").classList.toggle("without-parts", !event.target.checked)}), " passes of each stage")),
    body);
}
