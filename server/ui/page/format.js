// SPDX-License-Identifier: Apache-2.0
// Numbers, keys and times for people. JSON has 64-bit integers as texts.

export function bytes(value) {
  let number = Number(value);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (number < 1024) return `${unit === "B" || number >= 99.5 ? Math.round(number) : number.toFixed(1)} ${unit}`;
    number /= 1024;
  }
  return `${number.toFixed(1)} TiB`;
}

export function duration(nanoseconds) {
  const ns = Number(nanoseconds);
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${short(ns / 1e3)} µs`;
  if (ns < 1e9) return `${short(ns / 1e6)} ms`;
  if (ns < 120e9) return `${short(ns / 1e9)} s`;
  return age(ns / 1e9);
}

function short(value) {
  return value < 9.95 ? value.toFixed(1) : String(Math.round(value));
}

/** "3 h" of seconds. */
export function age(seconds) {
  const value = Math.max(0, Number(seconds));
  if (value < 120) return `${Math.round(value)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  if (value < 172800) return `${Math.round(value / 3600)} h`;
  return `${Math.round(value / 86400)} d`;
}

/** How long ago a second since the epoch was. */
export function ago(unix) {
  return Number(unix) === 0 ? "never" : `${age(Date.now() / 1000 - Number(unix))} ago`;
}

export function count(value) {
  return Number(value).toLocaleString("en");
}

export function share(part, whole) {
  return Number(whole) === 0 ? "–" : `${(100 * Number(part) / Number(whole)).toFixed(1)} %`;
}

/** A rate: few digits. */
export function rate(value) {
  return !Number.isInteger(value) && value < 9.95 ? value.toFixed(1) : String(Math.round(value));
}

/** The hex digits of a key, which JSON has in base64. */
export function hex(base64) {
  return Array.from(atob(base64), (c) => c.charCodeAt(0).toString(16).padStart(2, "0")).join("");
}

/** So many of its digits as tell keys apart. */
export function shortKey(digits) {
  return digits.slice(0, 12);
}

/** "torch.nn.Linear forward" of a CodeIdentity. */
export function codeName(code) {
  return code ? [code.module, code.qualified_name].filter(Boolean).join(" ") : "(no longer stored)";
}

/** "mm" of "aten::mm". */
export function bareOperator(op) {
  return op.split("::").pop();
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${Number(number) === 1 ? "" : "s"}`;
}
