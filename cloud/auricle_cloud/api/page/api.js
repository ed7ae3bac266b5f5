/** The coordinator's API: requests with the token, refusals as sentences, and the stream of events. */

const KEY = "auricle-token";
const SILENCE = 60_000;
const ROLES = ["viewer", "operator", "admin"];

/** Whose token this is; it lasts as long as the browser's tab. */
export const session = { token: sessionStorage.getItem(KEY), name: "", role: "viewer", ended: () => {} };

/** Whether the token's role allows what needs at least this role. */
export const may = (least) => ROLES.indexOf(session.role) >= ROLES.indexOf(least);

/** A request that was refused; the message is a sentence that says what to do. */
export class Refusal extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

/** Forget the token and go back to the sign-in. */
export function signOut(sentence = "") {
  session.token = null;
  sessionStorage.removeItem(KEY);
  session.ended(sentence);
}

/** Try a token, and keep it if it is good. */
export async function signIn(token) {
  session.token = token;
  try {
    const { name, role } = await ask("GET", ["me"]);
    Object.assign(session, { name, role });
    sessionStorage.setItem(KEY, token);
  } catch (error) {
    if (error.status === 401) session.token = null;
    throw error;
  }
}

const headers = () => ({ Authorization: `Bearer ${session.token}` });

const pathOf = (parts) => `/v1/${parts.map((part) => encodeURIComponent(part)).join("/")}`;

/** The answer to one request, where it is a good one; a Refusal where it is not. */
async function answered(path, options, signal) {
  const token = session.token;
  let answer;
  try {
    answer = await fetch(path, { ...options, signal, cache: "no-store", headers: { ...headers(), "Content-Type": "application/json" } });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal(0, "The coordinator does not answer: check that it runs and that you can reach it, then try again.");
  }
  if (answer.ok) return answer;
  const content = await answer.json().catch(() => null);
  if (answer.status === 401 && sessionStorage.getItem(KEY) === token) {
    signOut("Your token has expired or was revoked: sign in again.");
  }
  throw new Refusal(answer.status, content?.detail ?? `The coordinator answered with status ${answer.status}.`);
}

/**
 * One request.
 *
 * @param {string} method
 * @param {(string|number)[]} parts of the path after `/v1/`
 * @param {object} values query of GET and DELETE, body of the others; null is left out, and "" of a query
 */
export async function ask(method, parts, values = {}, signal = undefined) {
  const inQuery = ["GET", "DELETE"].includes(method);
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && !(inQuery && value === ""));
  const query = inQuery && given.length ? `?${new URLSearchParams(given)}` : "";
  const body = inQuery ? undefined : JSON.stringify(Object.fromEntries(given));
  const answer = await answered(pathOf(parts) + query, { method, body }, signal);
  const content = await answer.json().catch(() => null);
  if (content === null) throw new Refusal(answer.status, `The coordinator answered with status ${answer.status}.`);
  return content;
}

/** Save what a request answers as a file. */
export async function download(parts, name) {
  save(await (await answered(pathOf(parts), {})).blob(), name);
}

/** Save something as a file. */
export function save(content, name) {
  const url = URL.createObjectURL(content);
  const anchor = document.createElement("a");
  Object.assign(anchor, { href: url, download: name });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export const get = (parts, query, signal) => ask("GET", parts, query, signal);

/**
 * Listen to the stream of events until the signal, and connect again whenever it breaks.
 *
 * @param {(kind: string, content: object) => void} onEvent
 * @param {(live: boolean, sentence: string) => void} onState
 */
export async function listen(onEvent, onState, signal) {
  for (let wait = 1000; !signal.aborted; wait = Math.min(30_000, 2 * wait)) {
    let sentence = "The connection to the coordinator is lost; trying again.";
    try {
      const attempt = new AbortController();
      signal.addEventListener("abort", () => attempt.abort(), { once: true });
      const answer = await fetch("/v1/events", { headers: headers(), signal: attempt.signal, cache: "no-store" });
      if (answer.status === 401) return signOut("Your token has expired or was revoked: sign in again.");
      if (answer.ok) {
        onState(true, "");
        wait = 1000;
        await read(answer.body, onEvent, attempt);
      } else {
        sentence = (await answer.json().catch(() => null))?.detail ?? sentence;
      }
    } catch { /* broken: told below, and tried again */ }
    if (signal.aborted) return undefined;
    onState(false, sentence);
    await new Promise((resolve) => { setTimeout(resolve, wait); });
  }
  return undefined;
}

/** Read server-sent events; a stream without even a heartbeat is dead. */
async function read(body, onEvent, attempt) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const silent = setTimeout(() => attempt.abort(), SILENCE);
    const { value, done } = await reader.read();
    clearTimeout(silent);
    if (done) return;
    text += value;
    const messages = text.split("\n\n");
    text = messages.pop();
    for (const message of messages) {
      const kind = /^event: (.*)$/m.exec(message)?.[1];
      const data = /^data: (.*)$/m.exec(message)?.[1];
      if (kind && data) onEvent(kind, JSON.parse(data));
    }
  }
}
