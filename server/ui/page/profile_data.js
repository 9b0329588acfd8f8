// SPDX-License-Identifier: Apache-2.0
// What the numbers of a profile come to, as `tensorctl profile` has them.

import {hex} from "./format.js";

const KINDS = [["KERNEL", "kernels"], ["LIBRARY_CALL", "library calls"], ["ZERO_FILL", "zero fills"], ["MEMORY", "memory"]];

/** The lower one of an even number; 0 of none. */
export function median(times) {
  const sorted = times.map(Number).sort((a, b) => a - b);
  return sorted.length > 0 ? sorted[Math.floor((sorted.length - 1) / 2)] : 0;
}

/** The number of the call that took the median of all: its parts add up, as medians of parts do not. */
function typicalCall(calls) {
  const order = calls.map((time, i) => [Number(time), i]).sort(([a, i], [b, j]) => a - b || i - j);
  return order[Math.floor((order.length - 1) / 2)]?.[1] ?? 0;
}

/** Where the typical call's time went: [{name, ns, kind}], without what took none in any call. kind: of
 *  rows, or "". */
export function partsOf({calls, gaps, rows}) {
  const call = typicalCall(calls);
  const left = calls.map(Number);
  const parts = [];
  const add = (name, kind, times) => {
    times.forEach((time, i) => left[i] = Math.max(0, left[i] - time));
    if (times.some((time) => time > 0)) parts.push({name, kind, ns: times[call]});
  };
  for (const [kind, name] of KINDS) {
    const those = rows.filter((row) => row.kind === kind);
    add(name, kind, calls.map((_, i) => those.reduce((sum, row) => sum + Number(row.nanoseconds[i]), 0)));
  }
  add("gaps", "", gaps.map(Number));
  add("outside of programs", "", [...left]);
  return parts;
}

/** Of one call: runs and bytes on average (0: not known), the median of its nanoseconds. Of all calls
 *  together, as a step need not run in the median one: the rate of the bytes, its part of the limit (null:
 *  not known), floating-point operations a second (0: not known). */
export function numbersOf(profile, row) {
  const runs = Number(row.runs) / Math.max(1, profile.calls.length);
  const ns = median(row.nanoseconds);
  const seconds = Math.max(1, row.nanoseconds.reduce((sum, time) => sum + Number(time), 0)) / 1e9;
  const bytes = Number(row.bytes_read) + Number(row.bytes_written);
  const rate = bytes * Number(row.runs) / seconds;
  const copies = Number(profile.copy_rate);
  return {runs, ns, moves: bytes * runs, rate, flops: Number(row.flops) * Number(row.runs) / seconds,
    limit: copies > 0 && rate > 0 ? rate / copies : null};
}

export function programName({label, key}) {
  return `${label || "program"} ${hex(key).slice(0, 8)}`.trim();
}

/** A kernel or call with its operators, where they are not what it is called. */
export function stepName({name, operators}) {
  const isSaid = operators.length === 0 || (operators.length === 1 && operators[0] === name.split("::").pop());
  return isSaid ? name : `${name} (${operators.join(", ")})`;
}

/** The line of the model that it mostly came from; "": not known. */
export function lineOf(profile, row) {
  return row.lines.length > 0 ? profile.lines[row.lines[0]].source : "";
}

/** The typical call as a tree: {name, ns, kind, row, children}, the longest children first. Function, program,
 *  line of the model, step. */
export function treeOf(profile) {
  const root = {name: profile.function || "call", ns: 0, kind: "", children: []};
  const call = typicalCall(profile.calls);
  const put = (names, leaf) => {
    let at = root;
    for (const name of names) {
      let child = at.children.find((one) => one.name === name && !one.row);
      if (!child) at.children.push(child = {name, ns: 0, kind: "", children: []});
      at = child;
    }
    if (leaf.ns > 0) at.children.push(leaf);
  };
  for (const row of profile.rows) {
    const line = lineOf(profile, row);
    const names = [programName(profile.programs[row.program]), ...(line ? [line] : [])];
    put(names, {name: stepName(row), ns: Number(row.nanoseconds[call]), kind: row.kind, row, children: []});
  }
  for (const {name, kind, ns} of partsOf(profile)) {
    if (kind === "") put([], {name, ns, kind: "REST", children: []});
  }
  const sum = (node) => {
    for (const child of node.children) sum(child);
    if (node.children.length > 0) node.ns = node.children.reduce((total, child) => total + child.ns, 0);
    node.children = node.children.filter((child) => child.ns > 0).sort((a, b) => b.ns - a.ns);
  };
  sum(root);
  return root;
}
