// SPDX-License-Identifier: Apache-2.0
// The way from an address to what is shown.

import {ApiError, ask, takeToken} from "./api.js";
import {h} from "./dom.js";
import {age, bytes} from "./format.js";
import {listen} from "./keys.js";
import * as frame from "./frame.js";
import * as frames from "./frames.js";
import * as job from "./job.js";
import * as jobs from "./jobs.js";
import * as kernel from "./kernel.js";
import * as misses from "./misses.js";
import * as overview from "./overview.js";
import * as profile from "./profile.js";
import * as profiles from "./profiles.js";
import * as program from "./program.js";
import * as programs from "./programs.js";

// Address, what shows it, the section that it belongs to, and what is above it. A view is called as
// show(main, parts of the address, its parameters, signal that ends when another one is shown).
const VIEWS = [
  [/^\/$/, overview, "#/", ""],
  [/^\/programs$/, programs, "#/programs", "#/"],
  [/^\/program\/([0-9a-f]+)$/, program, "#/programs", "#/programs"],
  [/^\/program\/([0-9a-f]+)\/kernel\/(\d+)$/, kernel, "#/programs", "#/program/$1"],
  [/^\/frames$/, frames, "#/frames", "#/"],
  [/^\/frame\/([0-9a-f]+)$/, frame, "#/frames", "#/frames"],
  [/^\/jobs$/, jobs, "#/jobs", "#/"],
  [/^\/job\/(.*)$/, job, "#/jobs", "#/jobs"],
  [/^\/misses$/, misses, "#/misses", "#/"],
  [/^\/profiles$/, profiles, "#/profiles", "#/"],
  [/^\/profile\/(\d+)$/, profile, "#/profiles", "#/profiles"],
];

const main = document.getElementById("main");
let shown = new AbortController();

function parse() {
  const [path, query = ""] = (location.hash.slice(1) || "/").split("?");
  for (const [pattern, view, nav, up] of VIEWS) {
    const match = pattern.exec(path);
    if (!match) continue;
    const parts = match.slice(1).map(decodeURIComponent);
    return {view, nav, up: up.replace("$1", parts[0]), parts, query: new URLSearchParams(query)};
  }
  return null;
}

function explain(error) {
  const denied = error instanceof ApiError && error.status === 401;
  return h("div", {class: "failure", role: "alert"},
    h("h1", {}, denied ? "This page wants its token" : "That did not work"),
    h("p", {}, denied
      ? "Open the address that `tensorctl ui` prints: it lets only the daemon's own user in. A daemon that was started anew has a new one."
      : error.message));
}

async function show() {
  shown.abort();
  shown = new AbortController();
  const {signal} = shown;
  const place = parse();
  for (const link of document.querySelectorAll("nav a")) {
    if (place && link.getAttribute("href") === place.nav) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.dataset.up = place?.up ?? "#/";
  main.setAttribute("aria-busy", "true");
  const content = h("div", {class: "view"});
  try {
    if (!place) throw new Error("There is nothing at this address.");
    await place.view.show(content, place.parts, place.query, signal);
  } catch (error) {
    if (signal.aborted) return;
    content.replaceChildren(explain(error));
  }
  if (signal.aborted) return;
  main.replaceChildren(content);
  main.removeAttribute("aria-busy");
  document.title = `${content.querySelector("h1")?.textContent ?? "tensord"} – tensord`;
  content.dispatchEvent(new Event("shown"));
}

async function showDaemon() {
  const status = document.getElementById("daemon");
  try {
    const stats = await ask("stats");
    const problem = stats.store_problem || stats.fleet_problem;
    status.textContent = problem ? `⚠ ${problem}` :
      `${stats.version} · up ${age(stats.uptime_seconds)} · ${bytes(stats.resident_bytes)}`;
    status.className = problem ? "problem" : "well";
  } catch (error) {
    status.textContent = error instanceof ApiError && error.status === 401 ? "no token" : "no answer";
    status.className = "problem";
  }
}

takeToken();
listen(main, show);
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) takeToken();
  if (location.hash === "#main") return;
  scrollTo(0, 0);
  show();
});
show();
showDaemon();
setInterval(() => document.hidden || showDaemon(), 5000);
