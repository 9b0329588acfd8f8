// SPDX-License-Identifier: Apache-2.0
// Why frames did not serve.

import {ask} from "./api.js";
import {h, put} from "./dom.js";
import {ago, codeName, hex, plural} from "./format.js";

/** Entries of /api/misses. */
export function missList(misses) {
  return h("ul", {class: "cards"}, misses.map((miss) => {
    const {caller} = miss;
    const who = [`process ${caller.pid}`, caller.job && `job ${caller.job}`, caller.job && `rank ${caller.rank}`, caller.host];
    return h("li", {class: "card", tabindex: "0", "data-entry": true},
      h("h3", {}, h("a", {href: `#/frame/${hex(miss.key)}`}, codeName(miss.code))),
      h("dl", {class: "pair"},
        h("dt", {}, "expected"), h("dd", {class: "code"}, miss.guard),
        miss.found && [h("dt", {}, "found"), h("dd", {class: "code"}, miss.found)]),
      h("p", {class: "quiet"}, `${plural(miss.count, "time")}, ${ago(miss.last_unix)} by ${who.filter(Boolean).join(", ")}`));
  }));
}

export async function show(content, _parts, query, signal) {
  const job = query.get("job") ?? "";
  const {misses} = await ask("misses", {job}, signal);
  put(content, h("h1", {}, job ? `Misses of ${job}` : "Misses"),
    h("p", {class: "quiet"}, "Frames whose code was entered and that did not serve, the latest first: the guard that failed, and what was there instead."),
    misses.length > 0 ? missList(misses) : h("p", {class: "nothing"}, "No frame has failed to serve."));
}
