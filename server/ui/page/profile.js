// SPDX-License-Identifier: Apache-2.0
// One profile: where a call's time went, as a flame graph and step by step.

import {ask} from "./api.js";
import {facts, h, put, section} from "./dom.js";
import {ago, bytes, count, duration, hex, rate, share} from "./format.js";
import {flameGraph} from "./flame.js";
import {table} from "./list.js";
import {lineOf, median, numbersOf, partsOf, programName, stepName, treeOf} from "./profile_data.js";

const MOST_ROWS = 500;
const GIGA = 1e9;

function spread(times) {
  const all = times.map(Number);
  return all.length > 1 ? `${duration(Math.min(...all))} to ${duration(Math.max(...all))}` : "–";
}

/** The address of what a row ran: its program. */
function programOf(profile, row) {
  const {key} = profile.programs[row.program];
  return key ? `#/program/${hex(key)}` : null;
}

function lines(profile, row) {
  const first = lineOf(profile, row);
  const all = row.lines.map((line) => [profile.lines[line].source, profile.lines[line].text].filter(Boolean).join("\n"));
  return first ? h("span", {title: all.join("\n\n")}, first + (all.length > 1 ? ` and ${all.length - 1} more` : "")) : "–";
}

function cellsOf(profile, row, whole) {
  const {runs, ns, moves, rate: moved, limit, flops} = numbersOf(profile, row);
  return [stepName(row), duration(ns), share(ns, whole), rate(runs), spread(row.nanoseconds), moves > 0 ? bytes(moves) : "–",
    moves > 0 ? (moved / GIGA).toFixed(1) : "–", limit === null ? "–" : `${Math.round(100 * limit)} %`,
    flops > 0 ? (flops / GIGA).toFixed(1) : "–", h("span", {class: "whole"}, programName(profile.programs[row.program])), lines(profile, row)];
}

function stepTable(profile, whole) {
  const columns = [["Step", "code"], ["Time", "number"], ["Share", "number"], ["Runs", "number"], ["Spread", "number"], ["Moves", "number"],
    ["GB/s", "number"], ["Limit", "number"], ["GFLOP/s", "number"], ["Program", ""], ["The model's line", "code"]];
  const {rows} = profile;
  return [
    table(columns, rows.slice(0, MOST_ROWS).map((row) => ({href: programOf(profile, row), cells: cellsOf(profile, row, whole)})), "Steps"),
    rows.length > MOST_ROWS && h("p", {class: "nothing"}, `The longest ${MOST_ROWS} of ${count(rows.length)} steps.`),
  ];
}

/** What a bar of the flame graph is. */
function about(profile, node, whole) {
  const row = node.row;
  const shown = [["time", duration(node.ns)], ["share", share(node.ns, whole)]];
  if (!row) return [h("h3", {}, node.name), facts(shown)];
  const {runs, moves, limit} = numbersOf(profile, row);
  shown.push(["runs a call", rate(runs)], ["moves", moves > 0 ? bytes(moves) : ""],
    ["of the memory limit", limit === null ? "" : `${Math.round(100 * limit)} %`]);
  const link = programOf(profile, row);
  return [h("h3", {}, row.name), facts(shown),
    row.operators.length > 0 && h("p", {class: "chips"}, row.operators.map((op) => h("span", {class: "chip"}, op))),
    row.lines.map((line) => [h("pre", {class: "model-line"}, profile.lines[line].text), h("p", {class: "quiet"}, profile.lines[line].source)]),
    link && h("p", {}, h("a", {href: link}, programName(profile.programs[row.program])))];
}

function flame(profile, whole) {
  const root = treeOf(profile);
  const aside = h("div", {class: "chosen", "aria-live": "polite"});
  const choose = (node) => aside.replaceChildren(put(h("div", {class: "card"}), about(profile, node, whole)));
  choose(root);
  return h("div", {class: "with-aside"}, flameGraph(root, choose), aside);
}

export async function show(content, [id], _query, signal) {
  const {profiles: [{caller, profile, put_unix: unix}]} = await ask("profile", {id}, signal);
  const whole = median(profile.calls);
  put(content,
    h("h1", {}, profile.function || `Profile ${id}`),
    facts([["a call", duration(whole)], ["calls", count(profile.calls.length)], ["spread", spread(profile.calls)],
      ["device", profile.device], ["a copy moves", Number(profile.copy_rate) > 0 ? `${(Number(profile.copy_rate) / GIGA).toFixed(1)} GB/s` : ""],
      ["job", caller.job], ["process", String(caller.pid)], ["measured", ago(unix)],
      ["without", Number(profile.dropped_runs) > 0 ? `${count(profile.dropped_runs)} runs, of which times are missing` : ""]]),
    section("Where the time went", table([["Part", ""], ["Time", "number"], ["Share", "number"]],
      partsOf(profile).map(({name, ns}) => ({cells: [name, duration(ns), share(ns, whole)]})), "Parts of a call")),
    profile.rows.length === 0 ? h("p", {class: "nothing"}, "No compiled program ran in these calls.") : [
      section("Flame graph", flame(profile, whole)),
      section(`Steps (${count(profile.rows.length)})`, h("p", {class: "quiet"},
        "Moves: what a step must read and write in a call. Limit: the part of its time that a copy of as many bytes takes."),
      stepTable(profile, whole)),
    ]);
}
