// SPDX-License-Identifier: Apache-2.0
// Lists: a search, an order, pages of so many entries. What is shown is in the address, so that it can
// be gone back to.

import {h} from "./dom.js";
import {count} from "./format.js";

export const PAGE = 100;

/** A table. columns: [title, "number" or ""], rows: [{href, cells}], the first cell of which leads on. */
export function table(columns, rows, caption) {
  return h("div", {class: "scroll"}, h("table", {},
    h("caption", {class: "unseen"}, caption),
    h("thead", {}, h("tr", {}, columns.map(([title, kind]) => h("th", {scope: "col", class: kind}, title)))),
    h("tbody", {}, rows.map(({href, cells}) => h("tr", {}, cells.map((cell, i) => {
      const content = i === 0 && href ? h("a", {href, "data-entry": true}, cell) : cell;
      return h(i === 0 ? "th" : "td", {class: columns[i][1], ...(i === 0 ? {scope: "row"} : {})}, content);
    }))))));
}

/** The address of a list with other parameters; empty ones are left out. */
function address(path, query, changes) {
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value === 0) next.delete(name);
    else next.set(name, value);
  }
  const text = next.toString();
  return `#${path}${text ? `?${text}` : ""}`;
}

/** The search and the order of a list. orders: {value: title}, of which the first is the usual one. */
export function controls(path, query, what, orders = {}) {
  const go = (changes) => {
    location.hash = address(path, query, {...changes, skip: 0});
  };
  const search = h("input", {
    type: "search", name: "search", value: query.get("search") ?? "", placeholder: `Search ${what}  ( / )`,
    "aria-label": `Search ${what}`, "data-search": true, autocomplete: "off", spellcheck: "false",
  });
  const names = Object.keys(orders);
  const order = names.length === 0 ? null : h("label", {}, "by ", h("select", {
    onchange: (event) => go({order: event.target.value === names[0] ? "" : event.target.value}),
  }, names.map((name) => h("option", {value: name, selected: name === (query.get("order") ?? names[0])}, orders[name]))));
  return h("form", {class: "controls", role: "search", onsubmit: (event) => {
    event.preventDefault();
    go({search: search.value.trim()});
  }}, search, order);
}

/** Where in a list one is, and the way on. */
export function pager(path, query, shown, matching) {
  const skip = Number(query.get("skip") ?? 0);
  const total = Number(matching);
  const link = (title, to, attributes, possible) => possible
    ? h("a", {class: "button", href: address(path, query, {skip: to}), ...attributes}, title)
    : h("span", {class: "button", "aria-disabled": "true"}, title);
  return h("p", {class: "pager"},
    h("span", {}, total === 0 ? "none" : `${count(skip + 1)} to ${count(skip + shown)} of ${count(total)}`),
    link("← Previous", Math.max(0, skip - PAGE), {"data-previous": true}, skip > 0),
    link("Next →", skip + PAGE, {"data-next": true}, skip + shown < total));
}

/** What a list asks for. */
export function wanted(query) {
  return {
    search: query.get("search") ?? "",
    order: query.get("order") ?? "",
    skip: query.get("skip") ?? "",
    limit: PAGE,
  };
}
