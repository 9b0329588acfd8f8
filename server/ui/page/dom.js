// SPDX-License-Identifier: Apache-2.0
// Elements made of data. Text goes in as text alone: no string is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** An element of HTML: h("a", {href: "#/"}, "text", [more]). `onclick` and the like listen. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same of SVG. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Adds to an element, as its children in h(). */
export function put(element, ...children) {
  return fill(element, {}, children);
}

/** A table of facts: [name, value] pairs; those without a value are left out. */
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return h("dl", {class: "facts"}, shown.map(([name, value]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** A heading with what belongs to it. */
export function section(title, ...children) {
  const id = "section-" + title.toLowerCase().replace(/[^a-z]+/g, "-");
  return h("section", {"aria-labelledby": id}, h("h2", {id}, title), children);
}
