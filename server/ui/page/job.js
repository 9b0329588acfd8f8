// SPDX-License-Identifier: Apache-2.0
// The ranks of one job, and what each of them asked for, over time.

import {ask} from "./api.js";
import {h, put, section} from "./dom.js";
import {duration, hex, shortKey} from "./format.js";
import {COUNTED, counted} from "./jobs.js";
import {table} from "./list.js";

const OUTCOMES = {hit: "found", joined: "joined", compiled: "compiled", failed: "failed"};
const MOST_LANES = 256;
const ROW = 16; // pixels

function nameOf(process) {
  return `rank ${process.caller.rank}, process ${process.caller.pid}`;
}

const beginOf = (one) => Number(one.start_unix_milliseconds);
const endOf = (one) => beginOf(one) + Number(one.nanoseconds) / 1e6;

/** Requests in rows in which none lies on another. */
function rowsOf(requests) {
  const rows = [];
  for (const one of [...requests].sort((a, b) => beginOf(a) - beginOf(b))) {
    const free = rows.find((row) => endOf(row.at(-1)) <= beginOf(one));
    if (free) free.push(one);
    else rows.push([one]);
  }
  return rows;
}

/** A lane a process, a bar a request. */
function lanes(processes) {
  const requests = processes.flatMap((process) => process.requests);
  const begin = Math.min(...requests.map(beginOf));
  const whole = Math.max(1, Math.max(...requests.map(endOf)) - begin);
  const bar = (one, row) => {
    const text = `${one.label || "program"} ${shortKey(hex(one.program_key))}: ${OUTCOMES[one.outcome]} after ${duration(one.nanoseconds)}`;
    const link = h("a", {class: `bar-${one.outcome} request`, href: `#/program/${hex(one.program_key)}`, title: text, "aria-label": text});
    link.style.left = `${100 * (beginOf(one) - begin) / whole}%`;
    link.style.width = `max(5px, ${100 * Number(one.nanoseconds) / 1e6 / whole}%)`;
    link.style.top = `${row * ROW + 2}px`;
    return link;
  };
  const track = (process) => {
    const rows = rowsOf(process.requests);
    const lane = h("div", {class: "track"}, rows.map((row, i) => row.map((one) => bar(one, i))));
    lane.style.height = `${Math.max(1, rows.length) * ROW + 2}px`;
    return lane;
  };
  return [
    h("p", {class: "legend"}, Object.entries(OUTCOMES).map(([outcome, text]) => [h("span", {class: `swatch bar-${outcome}`}), ` ${text} `])),
    h("div", {class: "lanes"},
      processes.slice(0, MOST_LANES).map((process) => h("div", {class: "lane", "aria-label": nameOf(process), role: "group"},
        h("span", {class: "lane-name"}, `rank ${process.caller.rank}`), track(process))),
      h("div", {class: "lane axis", "aria-hidden": "true"}, h("span", {class: "lane-name"}),
        h("div", {class: "ends"}, h("span", {}, new Date(begin).toLocaleTimeString("en-GB")), h("span", {}, `+ ${duration(whole * 1e6)}`)))),
    processes.length > MOST_LANES && h("p", {class: "nothing"}, `The first ${MOST_LANES} of ${processes.length} processes.`),
  ];
}

export async function show(content, [name], _query, signal) {
  const {processes} = await ask("job", {name}, signal);
  const asked = processes.some((process) => process.requests.length > 0);
  put(content, h("h1", {}, name || "Processes without a job"),
    asked ? section("Requests", h("p", {class: "quiet"}, "The last 32 of each process, for programs."), lanes(processes)) : "",
    section("Ranks", table([["Rank", "number"], ["Host", ""], ["Process", "number"], ...COUNTED], processes.map((process) => ({
      cells: [String(process.caller.rank), process.caller.host, String(process.caller.pid), ...counted(process.counts, process.last_unix)],
    })), "Processes by rank")),
    name ? h("p", {}, h("a", {href: `#/misses?job=${encodeURIComponent(name)}`}, "Why frames did not serve them"), " · ",
      h("a", {href: `#/profiles?job=${encodeURIComponent(name)}`}, "Their profiles")) : "");
}
