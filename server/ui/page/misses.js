// SPDX-License-Identifier: Apache-2.0
// Why frames did not serve, and programs were compiled.

import {ask} from "./api.js";
import {h, put} from "./dom.js";
import {ago, codeName, hex, plural, shortKey} from "./format.js";

function occasion({caller, count, last_unix}) {
  const who = [`process ${caller.pid}`, caller.job && `job ${caller.job}`, caller.job && `rank ${caller.rank}`, caller.host];
  return h("p", {class: "quiet"}, `${plural(count, "time")}, ${ago(last_unix)} by ${who.filter(Boolean).join(", ")}`);
}

/** Entries of /api/misses: frames. */
export function missList(misses) {
  return h("ul", {class: "cards"}, misses.map((miss) => {
    return h("li", {class: "card", tabindex: "0", "data-entry": true},
      h("h3", {}, h("a", {href: `#/frame/${hex(miss.key)}`}, codeName(miss.code))),
      h("dl", {class: "pair"},
        h("dt", {}, "expected"), h("dd", {class: "code"}, miss.guard),
        miss.found && [h("dt", {}, "found"), h("dd", {class: "code"}, miss.found)]),
      occasion(miss));
  }));
}

// What the reasons of programs mean (server/statistics/miss_reasons.h).
const WHY = {
  new: "nothing that is stored is near", unknown: "nothing is near of what is known",
  evicted: "it was evicted", lost: "its files were damaged or deleted", graph: "another graph",
  inputs: "other inputs", target: "another target", options: "other options",
  toolchain: "another C++ compiler or NVRTC", compiler: "another build of tensord",
};

function difference({field, wanted, stored}) {
  const values = wanted || stored ? [`wanted ${wanted}`, h("br"), `stored ${stored}`] : "differs";
  return [h("dt", {}, field), h("dd", {class: "code"}, values)];
}

function programList(programs) {
  const link = (key) => h("a", {href: `#/program/${hex(key)}`}, shortKey(hex(key)));
  return h("ul", {class: "cards"}, programs.map((miss) =>
    h("li", {class: "card", tabindex: "0", "data-entry": true},
      h("h3", {}, link(miss.key), ` ${miss.label}: ${WHY[miss.reason] ?? miss.reason}`),
      miss.nearest && h("p", {}, "The nearest is ", link(miss.nearest), `, with ${Math.round(100 * miss.similarity)} % of its operators.`),
      h("dl", {class: "pair"}, miss.differences.map(difference)),
      miss.more_differences > 0 && h("p", {class: "quiet"}, `and ${miss.more_differences} more`),
      occasion(miss))));
}

export async function show(content, _parts, query, signal) {
  const job = query.get("job") ?? "";
  const {misses, programs} = await ask("misses", {job}, signal);
  put(content, h("h1", {}, job ? `Misses of ${job}` : "Misses"),
    h("p", {class: "quiet"}, "Frames whose code was entered and that did not serve, the latest first: the guard that failed, and what was there instead."),
    misses.length > 0 ? missList(misses) : h("p", {class: "nothing"}, "No frame has failed to serve."),
    h("h2", {}, "Programs"),
    h("p", {class: "quiet"}, "Programs that were compiled, the latest first: the nearest that is stored, and the fields of the key that differ."),
    programs.length > 0 ? programList(programs) : h("p", {class: "nothing"}, "No program was compiled."));
}
