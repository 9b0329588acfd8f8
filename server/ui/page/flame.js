// SPDX-License-Identifier: Apache-2.0
// A tree of times as a flame graph: what is below a bar is a part of it. Choosing a bar widens it.

import {h, s} from "./dom.js";
import {duration, share} from "./format.js";

const WIDTH = 1000;
const ROW = 24; // pixels
const CHARACTER = 6.4;
const LEAST = 0.6; // of a bar that is drawn

/** The bars of a node and all below it, {node, x, width, depth}, where the widened one has all of the
 *  width, and those above it too. */
function barsOf(root, widened) {
  const bars = [];
  const visit = (node, x, width, depth) => {
    if (width < LEAST) return;
    bars.push({node, x, width, depth});
    let at = x;
    const inner = node.children.find((child) => child.holds);
    for (const child of node.children) {
      const part = inner ? (child === inner ? width : 0) : width * child.ns / Math.max(1, node.ns);
      visit(child, at, part, depth + 1);
      at += part;
    }
  };
  const mark = (node) => {
    node.holds = false;
    const within = node.children.map(mark).some(Boolean);
    return node.holds = within || (node === widened && node !== root);
  };
  mark(root);
  visit(root, 0, WIDTH, 0);
  return bars;
}

function depthOf(node) {
  return 1 + Math.max(0, ...node.children.map(depthOf));
}

function shortened(text, width) {
  const most = Math.floor((width - 8) / CHARACTER);
  if (most < 3) return "";
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

/** An SVG of the tree. `chosen` is called with the node of a bar that was chosen. */
export function flameGraph(root, chosen) {
  const height = depthOf(root) * ROW;
  const picture = s("svg", {class: "flame", viewBox: `0 0 ${WIDTH} ${height}`, role: "group", "aria-label": "Flame graph"});
  const draw = (widened) => {
    const choose = (node) => {
      draw(node === widened ? root : node);
      chosen(node);
      picture.querySelector(".flame-chosen")?.focus({preventScroll: true});
    };
    picture.replaceChildren(...barsOf(root, widened).map(({node, x, width, depth}) => {
      const said = `${node.name}: ${duration(node.ns)}, ${share(node.ns, root.ns)}`;
      return s("g", {
        class: `flame-bar flame-${node.kind.toLowerCase() || "group"}${node === widened ? " flame-chosen" : ""}`,
        transform: `translate(${x} ${depth * ROW})`, tabindex: "0", role: "button", "aria-label": said, "data-entry": true,
        onclick: () => choose(node),
        onkeydown: (event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          choose(node);
        },
      }, s("title", {}, said), s("rect", {width: Math.max(LEAST, width - 1), height: ROW - 2, rx: 2}),
      s("text", {x: 5, y: ROW - 8}, shortened(node.name, width)));
    }));
  };
  draw(root);
  return h("div", {class: "picture flame-picture"}, picture);
}
