// SPDX-License-Identifier: Apache-2.0
// One frame.

import {ask} from "./api.js";
import {facts, h, put, section} from "./dom.js";
import {ago, codeName, count, hex, plural} from "./format.js";
import {missList} from "./misses.js";

const KINDS = {inference: "inference", forward: "forward", backward: "backward",
  backward_with_all: "backward with all gradients"};

/** The nodes of a graph, with the model's line above those that come from it. */
function nodes(graph) {
  const text = new Map(graph.nodes.filter((node) => node.line).map((node) => [node.source, node.line]));
  let source = null;
  return h("ol", {class: "nodes"}, graph.nodes.map((node) => {
    const begins = node.source !== source;
    source = node.source;
    return [
      begins && node.source && h("li", {class: "line"}, h("code", {}, text.get(source) ?? ""), h("span", {class: "quiet"}, source)),
      h("li", {}, h("code", {}, node.name), " ", h("span", {class: "quiet"}, node.op)),
    ];
  }));
}

function graphs(frame) {
  return frame.graphs.flatMap((call) => Object.entries(KINDS).filter(([kind]) => call[kind]).map(([kind, title]) =>
    h("details", {}, h("summary", {"data-entry": true},
      `${call.name}, ${title}: ${plural(call[kind].graph.nodes.length, "operator")}, ${call[kind].inputs.length} of ${plural(call[kind].arguments, "argument")}`),
    nodes(call[kind].graph))));
}

export async function show(content, [key], _query, signal) {
  const [stored, {misses}] = await Promise.all([ask("frame", {key}, signal), ask("misses", {key}, signal)]);
  const {frame} = stored;
  put(content,
    h("h1", {}, codeName(frame.code)),
    facts([
      ["key", h("code", {}, hex(stored.key))], ["code", h("code", {}, hex(frame.code.digest))],
      ["Python", frame.environment.python], ["torch", frame.environment.torch], ["format", frame.environment.format],
      ["served", plural(stored.hits, "time")], ["made", ago(stored.created_unix)], ["used", ago(stored.used_unix)],
    ]),
    section("Programs", graphs(frame)),
    section(`Guards (${count(frame.guards.length)})`, h("ol", {class: "guards"},
      frame.guards.map((guard) => h("li", {}, h("code", {}, guard.text))))),
    frame.inlined.length > 0 && section("Inlined functions", h("ul", {class: "plain"},
      frame.inlined.map((one) => h("li", {}, h("code", {}, codeName(one.code)))))),
    section("Misses", misses.length > 0 ? missList(misses) : h("p", {class: "nothing"}, "It has served whenever it was tried.")));
}
