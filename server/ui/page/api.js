// SPDX-License-Identifier: Apache-2.0
// Questions to the daemon. The token came behind # in the URL of `tensorctl ui`; it is kept for this
// origin and sent in a header, never in a cookie: cookies of this host go to every port of it, and
// another port may be another user's.

const KEY = "tensord-token";

/** What the daemon refused, or that it does not answer (status 0). */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Keeps a token that the URL brings, and takes it out of the URL. */
export function takeToken() {
  const found = /^#token=([0-9a-f]+)$/.exec(location.hash);
  if (!found) return;
  localStorage.setItem(KEY, found[1]);
  history.replaceState(null, "", "#/");
}

/** The answer to /api/NAME. */
export async function ask(name, parameters = {}, signal = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined);
  const query = new URLSearchParams(given).toString();
  let reply;
  try {
    reply = await fetch(`api/${name}${query ? `?${query}` : ""}`, {
      headers: {Authorization: `Bearer ${localStorage.getItem(KEY) ?? ""}`},
      cache: "no-store",
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The daemon does not answer. Has it ended? `tensorctl ui` gives the address of the next one.");
  }
  const body = await reply.json();
  if (!reply.ok) throw new ApiError(reply.status, body.error);
  return body;
}
