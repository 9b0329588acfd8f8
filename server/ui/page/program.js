// SPDX-License-Identifier: Apache-2.0
// One program: what runs, why it is no fewer kernels, and what compiling took.

import {ask} from "./api.js";
import {facts, h, put, section} from "./dom.js";
import {ago, bytes, count, duration, hex, plural, shortKey} from "./format.js";
import {fusionGraph, reasonList} from "./fusion.js";
import {linesOf} from "./fusion_data.js";
import {table} from "./list.js";
import {timeline} from "./timeline.js";

function kernelRows(detail, key) {
  const {fusion, artifact} = detail;
  return detail.sources.map((kernel, number) => {
    const steps = fusion?.steps.filter((step) => step.kernel === number) ?? [];
    const lines = fusion ? linesOf(fusion, steps).filter((line) => line.source) : [];
    const module = artifact.modules[number];
    return {href: `#/program/${key}/kernel/${number}`, cells: [
      `kernel ${number}`, kernel.description, lines.map((line) => h("div", {}, h("code", {}, line.text || line.source), " ", line.text && h("span", {class: "quiet"}, line.source))),
      module?.registers ? `${module.registers} registers` : "", bytes(module?.size ?? 0),
    ]};
  });
}

function describeStep(step) {
  if (step.launch) return ["launch", step.launch.function, step.launch.description];
  if (step.call) return ["call", step.call.overload ? `${step.call.op}.${step.call.overload}` : step.call.op, ""];
  if (step.free !== undefined) return ["free", `buffer ${step.free}`, ""];
  return ["zero", "a part of the workspace", ""];
}

function plan(artifact) {
  return h("details", {}, h("summary", {"data-entry": true}, plural(artifact.steps.length, "step")),
    table([["", "number"], ["Step", ""], ["What", "code"], ["From", ""]],
      artifact.steps.map((step, i) => ({cells: [String(i), ...describeStep(step)]})), "Launch plan"));
}

export async function show(content, [wanted], _query, signal) {
  const detail = await ask("program", {key: wanted}, signal);
  const {summary, artifact, fusion} = detail;
  const key = hex(summary.key);
  const kernels = kernelRows(detail, key);
  put(content,
    h("h1", {}, `Program ${shortKey(key)}`),
    facts([
      ["label", summary.label], ["target", summary.target], ["captured", plural(summary.nodes, "operator")],
      ["plan", `${plural(summary.kernels, "launch").replace(/s$/, "es")}, ${plural(summary.externs, "library call")}, ${plural(artifact.inputs.length, "input")}`],
      ["size", bytes(summary.bytes)], ["found", plural(summary.hits, "time")], ["compile", duration(summary.compile_nanoseconds)],
      ["made", ago(summary.created_unix)], ["used", ago(summary.used_unix)],
      ["compiled with", detail.toolchain.split(" | ")[0]], ["key", h("code", {}, key)],
    ]),
    section("Fusion", fusion?.steps.length > 0 ? [fusionGraph(fusion, key), fusion.edges.length > 0 && h("details", {},
      h("summary", {"data-entry": true}, "Why steps are apart"), reasonList(fusion))]
      : h("p", {class: "nothing"}, fusion ? "Nothing runs: its results are its inputs." : "A daemon compiled it that kept no reasons.")),
    section("Stages", detail.stages.length > 0 ? timeline(detail.stages, {spans: detail.spans}) : h("p", {class: "nothing"}, "Not kept.")),
    section(`Kernels (${count(kernels.length)})`, kernels.length > 0 ? table([["Kernel", ""], ["From", ""], ["The model's lines", "code"], ["", "number"], ["Size", "number"]], kernels, "Kernels") : ""),
    section("Plan", plan(artifact)),
    detail.fusion_notes.length > 0 && section("Notes", h("details", {}, h("summary", {"data-entry": true}, plural(detail.fusion_notes.length, "note")),
      h("ul", {class: "plain"}, detail.fusion_notes.map((note) => h("li", {}, h("code", {}, note)))))));
}
