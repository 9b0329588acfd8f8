// SPDX-License-Identifier: Apache-2.0
// A kernel's source beside the lines of the model that it came from.

import {ask} from "./api.js";
import {coloured, listing} from "./code.js";
import {facts, h, put} from "./dom.js";
import {bytes, hex, plural, shortKey} from "./format.js";
import {linesOf} from "./fusion_data.js";

function resources(module) {
  if (!module || module.registers === 0) return "";
  return [`${module.registers} registers`, module.shared_bytes > 0 && `${bytes(module.shared_bytes)} shared`,
    module.spill_bytes > 0 && `${bytes(module.spill_bytes)} spilled`].filter(Boolean).join(", ");
}

/** Nodes' names by operator. */
function operators(nodes) {
  const names = new Map();
  for (const node of nodes) {
    const op = node.op || node.name;
    names.set(op, [...(names.get(op) ?? []), node.name]);
  }
  return names;
}

/** Lines of the model, each with the operators of it that a step runs. */
export function modelLines(lines) {
  return h("ul", {class: "cards"}, lines.map(({source, text, nodes}) => h("li", {class: "card"},
    text ? h("pre", {class: "model-line"}, coloured(text, "python")) : "",
    h("p", {class: "quiet"}, source || "put in by a rewrite"),
    h("p", {class: "chips"}, [...operators(nodes)].map(([op, names]) =>
      h("span", {class: "chip", title: names.join(", ")}, names.length > 1 ? `${op} × ${names.length}` : op))))));
}

function neighbours(key, number, count) {
  const link = (title, to, attribute) => to >= 0 && to < count
    ? h("a", {class: "button", href: `#/program/${key}/kernel/${to}`, [attribute]: true}, title)
    : h("span", {class: "button", "aria-disabled": "true"}, title);
  return h("p", {class: "pager"}, link("← Previous", number - 1, "data-previous"), link("Next →", number + 1, "data-next"));
}

export async function show(content, [key, text], _query, signal) {
  const number = Number(text);
  const [program, kernel] = await Promise.all([ask("program", {key}, signal), ask("kernel", {key, number}, signal)]);
  const {fusion, artifact, summary} = program;
  const lines = fusion ? linesOf(fusion, fusion.steps.filter((step) => step.kernel === number)) : [];
  const runs = artifact.steps.filter((step) => step.launch?.module === number).length;
  put(content,
    h("p", {class: "crumbs"}, h("a", {href: `#/program/${key}`}, `Program ${shortKey(key)}`)),
    h("div", {class: "bar"}, h("h1", {}, `Kernel ${number}`), neighbours(key, number, program.sources.length)),
    facts([["function", h("code", {}, kernel.function)], ["from", kernel.description], ["target", summary.target],
      ["resources", resources(artifact.modules[number])], ["launched", `${plural(runs, "time")} a call`],
      ["key", h("code", {}, hex(kernel.kernel_key))]]),
    h("div", {class: "beside"},
      h("section", {"aria-label": "Source"}, h("h2", {}, "Source"), kernel.source ? listing(kernel.source, "cpp")
        : h("p", {class: "nothing"}, "The store no longer has it.")),
      h("section", {"aria-label": "Lines of the model"}, h("h2", {}, "The model's lines"), lines.length > 0 ? modelLines(lines)
        : h("p", {class: "nothing"}, "The job did not say them."))));
}
