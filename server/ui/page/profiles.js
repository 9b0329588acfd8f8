// SPDX-License-Identifier: Apache-2.0
// What jobs have measured.

import {ask} from "./api.js";
import {h, put} from "./dom.js";
import {ago, count, duration} from "./format.js";
import {table} from "./list.js";
import {median} from "./profile_data.js";

export async function show(content, _parts, query, signal) {
  const job = query.get("job") ?? "";
  const {profiles} = await ask("profiles", {job}, signal);
  put(content, h("h1", {}, job ? `Profiles of ${job}` : "Profiles"),
    h("p", {class: "quiet"}, "The latest of each process: where the time of compiled calls went, as ",
      h("code", {}, "tensord.profile(function, …)"), " measured it in a job."),
    profiles.length === 0 ? h("p", {class: "nothing"}, "Nothing was profiled since the daemon's start.")
      : table([["Function", "code"], ["Call", "number"], ["Calls", "number"], ["Device", ""], ["Job", ""], ["Process", "number"], ["Measured", "number"]],
        profiles.map(({id, caller, put_unix: unix, profile}) => ({
          href: `#/profile/${id}`,
          cells: [profile.function || "(no name)", duration(median(profile.calls)), count(profile.calls.length),
            profile.device, caller.job, String(caller.pid), ago(unix)],
        })), "Profiles"));
}
