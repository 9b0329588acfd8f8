// SPDX-License-Identifier: Apache-2.0
// The fusion graph as a picture: a box a step, an edge where memory goes from one to the next, and at
// it why the two are not one kernel.

import {h, s} from "./dom.js";
import {bytes, plural} from "./format.js";
import {isCall, linesOf, operatorsOf, reasonsOf, titleOf} from "./fusion_data.js";
import {modelLines} from "./kernel.js";
import {layOut} from "./layered.js";

// More boxes are no picture.
const PART = 60;
const BOX = {width: 186, height: 46, gap: 34, rowGap: 58};
const MARGIN = {x: 72, y: 16};
const MOST_LABELS = 30; // with those of library calls, which say it by their shape

function clipped(text, most) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

/** A smooth line through points, from above to below. */
function path(points) {
  let line = `M${points[0].x} ${points[0].y}`;
  for (let i = 1; i < points.length; ++i) {
    const [a, b] = [points[i - 1], points[i]];
    const bend = (b.y - a.y) / 2;
    line += ` C${a.x} ${a.y + bend} ${b.x} ${b.y - bend} ${b.x} ${b.y}`;
  }
  return line;
}

function edgeText(edge, steps) {
  const what = edge.reads ? "both read" : "goes on:";
  return `${titleOf(steps[edge.from])} → ${titleOf(steps[edge.to])}: ${what} ${bytes(edge.bytes)}. Apart: ${edge.why}`;
}

function kindOf(edge, steps) {
  if (edge.reads) return "reads";
  return isCall(steps[edge.from]) || isCall(steps[edge.to]) ? "call" : "apart";
}

function drawEdge(edge, way, steps) {
  return s("g", {class: `edge edge-${kindOf(edge, steps)}`, "data-from": edge.from, "data-to": edge.to},
    s("path", {class: "hit", d: path(way)}, s("title", {}, edgeText(edge, steps))),
    s("path", {class: "wire", d: path(way), "marker-end": "url(#arrow)"}));
}

/** The reason at an edge, between two rows of boxes. */
function drawReason(edge, way, steps) {
  const at = 2 * Math.floor((way.length / 2 - 1) / 2);
  const [above, below] = [way[at], way[at + 1]];
  return s("text", {x: (above.x + below.x) / 2, y: (above.y + below.y) / 2 + 3, class: `why why-${kindOf(edge, steps)}`},
    clipped(edge.why, 34));
}

function drawStep(fusion, number, box, choose) {
  const step = fusion.steps[number];
  const does = isCall(step) ? step.call : operatorsOf(fusion, step);
  const line = linesOf(fusion, [step]).find((one) => one.source);
  return s("g", {
    class: `step ${isCall(step) ? "step-call" : "step-kernel"}`, transform: `translate(${box.x} ${box.y})`,
    role: "button", tabindex: "-1", "data-step": number, "aria-label": `step ${number}: ${titleOf(step)}, ${does}`,
    onclick: () => choose(number), onfocus: () => choose(number),
  },
    s("title", {}, [does, line?.source].filter(Boolean).join("\n")),
    s("rect", {width: BOX.width, height: BOX.height, rx: isCall(step) ? 4 : 9}),
    s("text", {x: 12, y: 19, class: "step-title"}, titleOf(step)),
    s("text", {x: BOX.width - 10, y: 19, class: "step-number"}, `#${number}`),
    s("text", {x: 12, y: 36, class: "step-does"}, clipped(isCall(step) ? line?.source ?? "library call" : does, 28)));
}

/** What the chosen step is, and why it is apart from others. */
function describe(fusion, number, key) {
  const step = fusion.steps[number];
  const around = fusion.edges.filter((edge) => edge.from === number || edge.to === number);
  const other = (edge) => fusion.steps[edge.from === number ? edge.to : edge.from];
  return [
    h("h3", {}, `Step ${number}: `, isCall(step) ? step.call
      : h("a", {href: `#/program/${key}/kernel/${step.kernel}`}, `kernel ${step.kernel}`)),
    around.length > 0 && h("ul", {class: "reasons"}, around.map((edge) => h("li", {},
      h("strong", {}, edge.reads ? "reads the same as " : edge.from === number ? "to " : "from ", titleOf(other(edge))),
      ` ${bytes(edge.bytes)}`, h("br"), edge.why))),
    modelLines(linesOf(fusion, [step])),
  ];
}

/** Steps from `first` on, as many as are a picture, drawn. choose(number): a step was chosen. */
function draw(fusion, first, withReads, choose) {
  const count = Math.min(PART, fusion.steps.length - first);
  const inside = (number) => number >= first && number < first + count;
  const edges = fusion.edges.filter((edge) => inside(edge.from) && inside(edge.to) && (withReads || !edge.reads));
  const local = edges.map((edge) => ({from: edge.from - first, to: edge.to - first}));
  const flows = local.filter((_, i) => !edges[i].reads);
  const placed = layOut(count, flows, BOX);
  const box = (number) => placed.boxes[number - first];
  const center = (number) => ({x: box(number).x + BOX.width / 2, y: box(number).y + BOX.height / 2});
  let flow = 0;
  const ways = edges.map((edge) => (edge.reads ? [center(edge.from), center(edge.to)] : placed.ways[flow++]));
  const [width, height] = [placed.width + 2 * MARGIN.x, placed.height + 2 * MARGIN.y];
  const few = flows.length <= MOST_LABELS;
  const labelled = (edge) => kindOf(edge, fusion.steps) === "apart" || (few && !edge.reads);
  return s("svg", {class: "fusion", width, height, viewBox: `${-MARGIN.x} ${-MARGIN.y} ${width} ${height}`, role: "group",
    "aria-label": `Steps ${first} to ${first + count - 1} and what goes between them`},
    s("defs", {}, s("marker", {id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto"},
      s("path", {d: "M0 0 8 4 0 8z"}))),
    edges.map((edge, i) => drawEdge(edge, ways[i], fusion.steps)),
    Array.from({length: count}, (_, i) => drawStep(fusion, first + i, placed.boxes[i], choose)),
    edges.map((edge, i) => labelled(edge) && drawReason(edge, ways[i], fusion.steps)));
}

/** Arrow keys, j and k go from step to step in the order in which they run. */
function listenToKeys(picture, total) {
  picture.addEventListener("keydown", (event) => {
    const step = event.target.closest?.("[data-step]");
    const by = {ArrowDown: 1, ArrowRight: 1, j: 1, ArrowUp: -1, ArrowLeft: -1, k: -1}[event.key];
    if (!step) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      step.parentElement.dispatchEvent(new CustomEvent("open", {detail: Number(step.dataset.step)}));
    } else if (by !== undefined) {
      event.preventDefault();
      const next = picture.querySelector(`[data-step="${Math.min(total - 1, Math.max(0, Number(step.dataset.step) + by))}"]`);
      next?.focus();
      next?.scrollIntoView({block: "nearest", inline: "nearest"});
    }
  });
}

/** The graph of a program as an element. */
export function fusionGraph(fusion, key) {
  const view = {first: 0, reads: false};
  const picture = h("div", {class: "picture"});
  const aside = h("div", {class: "chosen", "aria-live": "polite"});
  const parts = h("p", {class: "pager"});
  const choose = (number) => {
    for (const step of picture.querySelectorAll(".step")) {
      const chosen = Number(step.dataset.step) === number;
      step.classList.toggle("chosen-step", chosen);
      step.setAttribute("tabindex", chosen ? "0" : "-1");
    }
    for (const edge of picture.querySelectorAll(".edge")) {
      edge.classList.toggle("chosen-edge", [edge.dataset.from, edge.dataset.to].includes(String(number)));
    }
    aside.replaceChildren(...describe(fusion, number, key).filter(Boolean));
  };
  const redraw = () => {
    const drawing = draw(fusion, view.first, view.reads, choose);
    drawing.addEventListener("open", ({detail}) => {
      const step = fusion.steps[detail];
      if (!isCall(step)) location.hash = `#/program/${key}/kernel/${step.kernel}`;
    });
    picture.replaceChildren(drawing);
    const last = Math.min(view.first + PART, fusion.steps.length);
    const go = (by) => () => { view.first += by; redraw(); };
    parts.replaceChildren(
      h("span", {}, fusion.steps.length <= PART ? plural(fusion.steps.length, "step")
        : `Steps ${view.first} to ${last - 1} of ${fusion.steps.length}: more than ${PART} are no picture.`),
      fusion.steps.length > PART ? h("button", {type: "button", "data-previous": true, disabled: view.first === 0, onclick: go(-PART)}, "← Previous") : "",
      fusion.steps.length > PART ? h("button", {type: "button", "data-next": true, disabled: last === fusion.steps.length, onclick: go(PART)}, "Next →") : "");
    choose(view.first);
  };
  listenToKeys(picture, fusion.steps.length);
  redraw();
  const readers = fusion.edges.filter((edge) => edge.reads).length;
  return h("div", {},
    h("div", {class: "bar"},
      h("p", {class: "legend"}, h("span", {class: "swatch swatch-kernel"}), " kernel ", h("span", {class: "swatch swatch-call"}), " library call ",
        h("span", {class: "swatch-line"}), " two kernels that share memory"),
      readers > 0 && h("label", {}, h("input", {type: "checkbox", onchange: (event) => { view.reads = event.target.checked; redraw(); }}),
        ` ${plural(readers, "pair")} that only read the same`), parts),
    h("div", {class: "with-aside"}, picture, aside));
}

/** Why steps are apart, by reason. */
export function reasonList(fusion) {
  return h("ul", {class: "plain"}, reasonsOf(fusion.edges).map(([reason, times]) =>
    h("li", {}, h("span", {class: "times"}, `${times} ×`), ` ${reason}`)));
}
