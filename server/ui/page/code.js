// SPDX-License-Identifier: Apache-2.0
// Source text with line numbers and a little colour.

import {h} from "./dom.js";

const WORDS = {
  cpp: "alignas auto bool break char case const constexpr continue do double else extern false float for if inline int long namespace nullptr return short signed sizeof static struct switch template true typename unsigned using void while __global__ __device__ __shared__ __restrict__ __launch_bounds__",
  python: "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda not or pass raise return self try while with yield",
};
const TOKENS = {
  cpp: /(\/\/.*|\/\*.*?\*\/)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(#\s*\w+)|(\b\d[\w.+]*)|([A-Za-z_]\w*)/g,
  python: /(#.*)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(@\w+)|(\b\d[\w.]*)|([A-Za-z_]\w*)/g,
};
const KINDS = ["comment", "string", "mark", "number"];

/** One line as pieces of text, those with a colour in spans. */
export function coloured(line, language) {
  const words = new Set(WORDS[language].split(" "));
  const pieces = [];
  let at = 0;
  for (const match of line.matchAll(TOKENS[language])) {
    const kind = KINDS.find((_, i) => match[i + 1] !== undefined) ?? (words.has(match[5]) ? "word" : "");
    if (!kind) continue;
    pieces.push(line.slice(at, match.index), h("span", {class: `token-${kind}`}, match[0]));
    at = match.index + match[0].length;
  }
  return [...pieces, line.slice(at)];
}

/** All of a source. */
export function listing(text, language) {
  return h("pre", {class: "listing", tabindex: "0", "aria-label": "source"},
    text.replace(/\n$/, "").split("\n").map((line, i) => h("span", {class: "row"},
      h("span", {class: "gutter", "aria-hidden": "true"}, i + 1), h("span", {class: "text"}, coloured(line, language), "\n"))));
}
