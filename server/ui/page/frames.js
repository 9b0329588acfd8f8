// SPDX-License-Identifier: Apache-2.0
// Stored frames, and why others were not recorded.

import {ask} from "./api.js";
import {h, put, section} from "./dom.js";
import {ago, bytes, codeName, count, hex, shortKey} from "./format.js";
import {controls, pager, table, wanted} from "./list.js";

const COLUMNS = [["Key", "key"], ["Code", "code"], ["Guards", "number"], ["Graphs", "number"], ["Inlined", "number"],
  ["Size", "number"], ["Served", "number"], ["Made", "number"], ["Used", "number"]];

export async function show(content, _parts, query, signal) {
  const reply = await ask("frames", wanted(query), signal);
  const rows = reply.frames.map((f) => {
    const key = hex(f.key);
    return {href: `#/frame/${key}`, cells: [
      shortKey(key), codeName(f.code), count(f.guards), count(f.graphs), count(f.inlined), bytes(f.bytes),
      count(f.hits), ago(f.created_unix), ago(f.used_unix)]};
  });
  put(content,
    h("h1", {}, "Frames"),
    h("div", {class: "bar"}, controls("/frames", query, "key, module, function"),
      pager("/frames", query, rows.length, reply.matching)),
    rows.length > 0 ? table(COLUMNS, rows, "Stored frames")
      : h("p", {class: "nothing"}, query.get("search") ? "No frame has that." : "Nothing is recorded yet."));
  if (reply.unrecorded.length === 0) return;
  put(content, section("Captures without a frame", table([["Reason", "code"], ["Times", "number"]],
    reply.unrecorded.map((one) => ({cells: [one.reason, count(one.count)]})), "Why captures gave no frame")));
}
