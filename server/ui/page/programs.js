// SPDX-License-Identifier: Apache-2.0
// Stored programs.

import {ask} from "./api.js";
import {h, put} from "./dom.js";
import {ago, bytes, count, duration, hex, shortKey} from "./format.js";
import {controls, pager, table, wanted} from "./list.js";

const COLUMNS = [["Key", "key"], ["Label", ""], ["Target", ""], ["Operators", "number"], ["Kernels", "number"],
  ["Calls", "number"], ["Size", "number"], ["Found", "number"], ["Compile", "number"], ["Made", "number"], ["Used", "number"]];
const ORDERS = {used: "last use", hits: "how often found", compile_time: "compile time", bytes: "size", created: "age"};

export async function show(content, _parts, query, signal) {
  const reply = await ask("programs", wanted(query), signal);
  const rows = reply.programs.map((p) => {
    const key = hex(p.key);
    return {href: `#/program/${key}`, cells: [
      shortKey(key), p.label, p.target, count(p.nodes), count(p.kernels), count(p.externs), bytes(p.bytes),
      count(p.hits), duration(p.compile_nanoseconds), ago(p.created_unix), ago(p.used_unix)]};
  });
  put(content,
    h("h1", {}, "Programs"),
    h("div", {class: "bar"}, controls("/programs", query, "key, label, target", ORDERS),
      pager("/programs", query, rows.length, reply.matching)),
    rows.length > 0 ? table(COLUMNS, rows, "Stored programs")
      : h("p", {class: "nothing"}, query.get("search") ? "No program has that." : "Nothing is compiled yet."));
}
