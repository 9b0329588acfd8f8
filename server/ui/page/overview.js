// SPDX-License-Identifier: Apache-2.0
// What the daemon does, and did in the last hour.

import {ask} from "./api.js";
import {chart} from "./chart.js";
import {h, put, section} from "./dom.js";
import {age, bytes, count, duration, rate, share} from "./format.js";
import {timeline} from "./timeline.js";

const EVERY_MS = 2000;
const MOST_SAMPLES = 1800;

/** The samples so far and what follows them. */
function grow(past, more) {
  if (!past) return more;
  const cut = (values) => values.slice(-MOST_SAMPLES);
  return {fields: more.fields, times: cut([...past.times, ...more.times]),
    values: past.values.map((values, i) => cut([...values, ...more.values[i]]))};
}

/** What a counter grew by in a second, by sample; the first has no number. */
function perSecond(values, times) {
  return values.map((value, i) => (i === 0 ? NaN : Math.max(0, value - values[i - 1]) * 1000 / (times[i] - times[i - 1])));
}

function charts(past) {
  const {times} = past;
  const of = (name) => past.values[past.fields.indexOf(name)];
  const rates = (name) => perSecond(of(name), times);
  return h("div", {class: "charts"},
    chart("Requests a second", times, [
      {name: "found", values: rates("hits"), kind: "a"}, {name: "compiled", values: rates("compiled"), kind: "b"},
      {name: "joined", values: rates("joined"), kind: "c"}, {name: "failed", values: rates("failed"), kind: "bad"}], rate),
    chart("Queue", times, [
      {name: "requests waiting", values: of("in_flight"), kind: "a"}, {name: "compiles queued", values: of("queued"), kind: "b"}], rate),
    chart("Workers", times, [
      {name: "processes", values: of("workers"), kind: "a"},
      {name: "CPU", values: rates("worker_cpu_nanoseconds").map((value) => value / 1e9), kind: "b"}], rate),
    chart("Kernels a second", times, [
      {name: "reused", values: rates("kernels_reused"), kind: "a"}, {name: "made", values: rates("kernels_compiled"), kind: "b"}], rate),
    chart("Frames a second", times, [
      {name: "served", values: rates("frame_hits"), kind: "a"}, {name: "captures", values: rates("captures"), kind: "b"}], rate),
    chart("Memory of the daemon", times, [{name: "resident", values: of("resident_bytes"), kind: "a"}], bytes));
}

function tile(title, value, detail) {
  return h("div", {class: "tile"}, h("dt", {}, title), h("dd", {}, value), h("dd", {class: "quiet"}, detail));
}

function tiles(stats) {
  const asked = Number(stats.hits) + Number(stats.compiled) + Number(stats.joined) + Number(stats.failed);
  return h("dl", {class: "tiles"},
    tile("Requests", count(stats.requests), `${count(stats.compiled)} compiled, ${count(stats.failed)} failed`),
    tile("Found", share(stats.hits, asked), `${count(stats.hits)}, each in ${Number(stats.hits) ? duration(stats.lookup_nanoseconds / stats.hits) : "–"}`),
    tile("Compiling saved", age(stats.saved_nanoseconds / 1e9), `${duration(stats.worker_cpu_nanoseconds)} of CPU spent`),
    tile("Waiting", count(stats.in_flight), `${count(stats.queued)} queued, ${count(stats.workers)} workers`),
    tile("Programs", count(stats.programs_stored), `${bytes(stats.bytes_stored)} of ${Number(stats.store_limit_bytes) ? bytes(stats.store_limit_bytes) : "no limit"}`),
    tile("Frames", count(stats.frames_stored), `served ${count(stats.frame_hits)} times, ${count(stats.captures)} captures`));
}

function problems(stats) {
  return [["Store", stats.store_problem], ["Fleet", stats.fleet_problem]].filter(([, text]) => text)
    .map(([name, text]) => h("p", {class: "failure", role: "alert"}, `${name}: ${text}`));
}

export async function show(content, _parts, _query, signal) {
  let past = null;
  const live = h("div");
  const update = async () => {
    const [stats, more] = await Promise.all([ask("stats", {}, signal), ask("history", {since: past?.times.at(-1) ?? 0}, signal)]);
    past = grow(past, more);
    const at = live.querySelector("details")?.open;
    live.replaceChildren(...problems(stats), tiles(stats), charts(past),
      stats.stages.length > 0 ? section("Compile time by stage, of all compiles", timeline(stats.stages, {summed: true})) : "");
    if (at) live.querySelector("details").open = true;
  };
  await update();
  put(content, h("h1", {}, "Overview"), live);
  const timer = setInterval(() => {
    // Whoever reads the passes of stages, or is on one of them, is not disturbed.
    if (document.hidden || live.contains(document.activeElement) || live.querySelector("input:checked")) return;
    update().catch(() => {}); // the next time, perhaps; the head of the page says what is wrong
  }, EVERY_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
}
