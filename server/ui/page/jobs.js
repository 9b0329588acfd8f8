// SPDX-License-Identifier: Apache-2.0
// Who asks for programs and frames.

import {ask} from "./api.js";
import {h, put} from "./dom.js";
import {ago, count, duration} from "./format.js";
import {table} from "./list.js";

export const COUNTED = [["Found", "number"], ["Compiled", "number"], ["Joined", "number"], ["Failed", "number"],
  ["Waited", "number"], ["Frames served", "number"], ["Captures", "number"], ["Last", "number"]];

/** As the columns of COUNTED. */
export function counted(counts, lastUnix) {
  return [count(counts.hits), count(counts.compiled), count(counts.joined), count(counts.failed),
    duration(counts.waited_nanoseconds), count(counts.frame_hits), count(counts.captures), ago(lastUnix)];
}

export async function show(content, _parts, _query, signal) {
  const {jobs} = await ask("jobs", {}, signal);
  put(content, h("h1", {}, "Jobs"),
    h("p", {class: "quiet"}, "Of the last 1,024 processes that asked since the daemon's start. A job is named by TENSORD_JOB, or by its launcher."),
    jobs.length === 0 ? h("p", {class: "nothing"}, "Nobody has asked yet.")
      : table([["Job", "code"], ["Processes", "number"], ...COUNTED], jobs.map((job) => ({
        href: `#/job/${encodeURIComponent(job.job)}`,
        cells: [job.job || "(processes without one)", count(job.processes), ...counted(job.counts, job.last_unix)],
      })), "Jobs"));
}
