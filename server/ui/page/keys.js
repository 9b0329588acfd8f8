// SPDX-License-Identifier: Apache-2.0
// The keyboard. Entries that j and k go through have the attribute data-entry; what n and p do, the
// elements with data-next and data-previous.

const SECTIONS = {o: "#/", p: "#/programs", f: "#/frames", j: "#/jobs", m: "#/misses", t: "#/profiles"};

function move(main, by) {
  const entries = [...main.querySelectorAll("[data-entry]")].filter((entry) => entry.checkVisibility());
  if (entries.length === 0) return false;
  const at = entries.findIndex((entry) => entry.contains(document.activeElement));
  const next = at < 0 ? (by > 0 ? 0 : entries.length - 1) : Math.min(entries.length - 1, Math.max(0, at + by));
  entries[next].focus();
  entries[next].scrollIntoView({block: "nearest"});
  return true;
}

function press(main, selector) {
  const target = main.querySelector(selector);
  if (!target || target.disabled) return false;
  target.click();
  return true;
}

function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName));
}

/** Listens from now on; `again` shows the same place anew. */
export function listen(main, again) {
  const help = document.getElementById("help");
  let waits = false; // for the letter behind g
  const actions = {
    "/": () => {
      const search = main.querySelector("[data-search]");
      search?.focus();
      search?.select();
      return search !== null;
    },
    "?": () => (help.open ? help.close() : help.showModal(), true),
    j: () => move(main, 1),
    k: () => move(main, -1),
    ArrowDown: () => move(main, 1),
    ArrowUp: () => move(main, -1),
    n: () => press(main, "[data-next]"),
    p: () => press(main, "[data-previous]"),
    r: () => (again(), true),
    u: () => (main.dataset.up ? (location.hash = main.dataset.up, true) : false),
    g: () => (waits = true),
  };
  document.getElementById("help-button").addEventListener("click", actions["?"]);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (help.open && event.key !== "?") return;
    const goes = waits && SECTIONS[event.key];
    waits = false;
    if (goes) {
      location.hash = goes;
      event.preventDefault();
    } else if (actions[event.key]?.()) {
      event.preventDefault();
    }
  });
}
