// SPDX-License-Identifier: Apache-2.0
// What a FusionGraph says, for views that draw it.

import {bareOperator} from "./format.js";

/** The lines of the model that steps come from: [{source, text, nodes}]. */
export function linesOf(fusion, steps) {
  const lines = new Map();
  for (const number of new Set(steps.flatMap((step) => step.nodes))) {
    const node = fusion.nodes[number];
    const line = node.line === undefined ? {source: "", text: ""} : fusion.lines[node.line];
    if (!lines.has(line.source)) lines.set(line.source, {source: line.source, text: line.text, nodes: []});
    lines.get(line.source).nodes.push(node);
  }
  return [...lines.values()];
}

export function isCall(step) {
  return step.call !== undefined;
}

export function titleOf(step) {
  return isCall(step) ? bareOperator(step.call) : `kernel ${step.kernel}`;
}

/** The operators of a step, each once: "tanh, add, sum". */
export function operatorsOf(fusion, step) {
  const names = step.nodes.map((number) => fusion.nodes[number].op).filter(Boolean).map(bareOperator);
  return [...new Set(names)].join(", ");
}

/** Reasons for which steps are apart: [reason, how often], the most frequent first. */
export function reasonsOf(edges) {
  const counts = new Map();
  for (const edge of edges) counts.set(edge.why, (counts.get(edge.why) ?? 0) + 1);
  return [...counts].sort((one, other) => other[1] - one[1]);
}
