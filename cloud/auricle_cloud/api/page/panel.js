/** A page's parts: each loads on its own, says what failed, and follows the events that concern it. */

import { h, swap } from "./dom.js";

const CALM = 1000;

/** The parts on the screen. */
let panels = [];
let leaving = new AbortController();

/** Forget the parts of the page that is left. */
export function leave() {
  leaving.abort();
  leaving = new AbortController();
  panels = [];
}

/** Load again what an event concerns; without a kind, everything. */
export function follow(kind = null, content = {}) {
  panels = panels.filter(({ section }) => section.isConnected);
  for (const panel of panels) if (kind === null || panel.concerns(kind, content)) panel.refresh();
}

/**
 * A part of a page.
 *
 * @param {string} title
 * @param {(cursor: any, signal: AbortSignal) => Promise<any>} load nodes, or `{ nodes, next }` where `next` is the
 *   cursor of the next page
 * @param {{ on?: string[], when?: (content: object) => boolean, about?: string, wide?: boolean,
 *   optional?: boolean }} options kinds of
 *   events after which it loads again, and which of them; a sentence about it; an optional one hides while there is
 *   nothing to show yet
 */
export function panel(title, load, { on = [], when = () => true, about = "", wide = false, optional = false } = {}) {
  const id = `panel-${title.toLowerCase().replaceAll(/[^a-z]+/g, "-")}`;
  const body = h("div", { class: "body", "aria-busy": "true" }, h("p", { class: "muted" }, "Loading…"));
  const pages = h("div", { class: "pages", hidden: true });
  const section = h("section", { "aria-labelledby": id, class: wide ? "panel wide" : "panel" },
    h("h2", { id }, title), about && h("p", { class: "muted" }, about), body, pages);
  const { signal } = leaving;
  const cursors = [null];
  let next = null;
  let asked = 0;
  let timer = null;
  let last = 0;

  async function show() {
    const number = (asked += 1);
    last = Date.now();
    try {
      const found = await load(cursors.at(-1), signal);
      if (number !== asked || signal.aborted) return;
      const nodes = found?.nodes ?? found;
      next = found?.nodes ? found.next : null;
      section.hidden = false;
      swap(body, [nodes].flat());
    } catch (error) {
      if (signal.aborted || number !== asked) return;
      // A conflict is how things are, not a failure: a round under way has no report yet.
      section.hidden = optional && error.status === 409;
      const tone = error.status === 409 ? "muted" : "error";
      swap(body, [h("p", { class: tone, role: tone === "error" ? "alert" : null }, error.message)]);
      if (error.status === undefined) throw error;
    } finally {
      if (number === asked) body.setAttribute("aria-busy", "false");
    }
    turn();
  }

  function turn() {
    pages.hidden = cursors.length === 1 && next === null;
    back.setAttribute("aria-disabled", String(cursors.length === 1));
    forth.setAttribute("aria-disabled", String(next === null));
    place.textContent = `Page ${cursors.length}`;
  }

  const step = (change) => (event) => {
    if (event.currentTarget.getAttribute("aria-disabled") !== "true") { change(); show(); }
  };
  const named = (text) => ({ type: "button", "aria-label": `${text} page of ${title}` });
  const back = h("button", { ...named("Previous"), onclick: step(() => cursors.pop()) }, "Previous");
  const forth = h("button", { ...named("Next"), onclick: step(() => cursors.push(next)) }, "Next");
  const place = h("span", { role: "status" });
  pages.append(back, place, forth);

  function refresh() {
    if (timer !== null) return;
    timer = setTimeout(() => { timer = null; if (!signal.aborted) show(); }, Math.max(0, last + CALM - Date.now()));
  }
  panels.push({ section, refresh, concerns: (kind, content) => on.includes(kind) && when(content) });
  show();
  return section;
}
