/** Elements from data. Whatever comes from the server becomes a text node or an attribute, never markup. */

import { LOSS_UNITS, OUTCOMES } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An HTML element: `h("a", { href: "#/" }, "Fleet")`. */
export const h = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);

/** An SVG element. */
export const svg = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

/** Text for screen readers only. */
export const unseen = (text) => h("span", { class: "unseen" }, text);

/** An address within this page, its parts encoded. */
export function address(parts, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const after = given.length ? `?${new URLSearchParams(given)}` : "";
  return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}${after}`;
}

export const link = (text, parts, query) => h("a", { href: address(parts, query) }, text);
export const deviceLink = (name) => link(name, ["devices", name]);
export const roundLink = (number) => (number === null ? "–" : link(`round ${number}`, ["rounds", number]));

// -- numbers and times

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const TIME = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

export const count = (value) => (isNumber(value) ? value.toLocaleString("en-GB") : "–");
export const fixed = (value, digits = 3) => (isNumber(value) ? value.toFixed(digits) : "–");
/** In what the losses of a round are. */
export const lossUnit = ({ inference_loss: kind }) => LOSS_UNITS[kind ?? "ce"];
/** The same of several rounds that have losses. */
export const lossUnits = (rows) =>
  [...new Set(rows.filter(({ loss }) => loss !== null).map(lossUnit))].join(" or ") || LOSS_UNITS.ce;
/** A round's loss with its unit. */
export const lossOf = (row) => (row.loss === null ? "–" : `${fixed(row.loss)} ${lossUnit(row)}`);
/** A column of losses: the unit stands above it, or by each where they have several. */
export const lossColumn = (rows, more = {}) => (Object.values(LOSS_UNITS).includes(lossUnits(rows))
  ? { head: `Loss (${lossUnits(rows)})`, number: true, ...more, cell: ({ loss }) => fixed(loss) }
  : { head: "Loss", number: true, ...more, cell: lossOf });
export const percent = (value, digits = 1) => (isNumber(value) ? `${(100 * value).toFixed(digits)} %` : "–");
export const signed = (value, digits = 4) => (isNumber(value) ? (value > 0 ? "+" : "") + value.toFixed(digits) : "–");
export const seconds = (value) => (isNumber(value) ? `${value.toFixed(1)} s` : "–");
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

/** A moment, in seconds since 1970; the attribute holds it exactly. */
export function time(at) {
  if (!isNumber(at) || Math.abs(at) > 8e12) return "–";
  const date = new Date(at * 1000);
  return h("time", { datetime: date.toISOString() }, TIME.format(date));
}

// -- states: a sign and a word, so that colour never tells alone

const SIGNS = {
  planned: ["○", "idle"], losses: ["◐", "busy"], alarm: ["▲", "bad"], inviting: ["◐", "busy"],
  collecting: ["◐", "busy"], closing: ["◐", "busy"], aggregated: ["◐", "busy"], published: ["✓", "good"],
  aborted: ["✕", "bad"], pending: ["?", "wait"], approved: ["✓", "good"], quarantined: ["▲", "bad"],
  revoked: ["✕", "bad"], online: ["●", "good"], offline: ["○", "idle"], unknown: ["?", "idle"], invited: ["◐", "busy"],
  ...Object.fromEntries(OUTCOMES.map(({ name, sign, tone }) => [name, [sign, tone]])),
  harmful: ["▲", "bad"], current: ["✓", "good"], running: ["◐", "busy"], paused: ["▲", "bad"], finished: ["✓", "good"],
  replaced: ["○", "idle"], valid: ["✓", "good"], expired: ["○", "idle"], waiting: ["○", "idle"], asked: ["◐", "busy"],
  updated: ["✓", "good"],
};

/** A state as a badge. */
export function badge(state) {
  const [sign, tone] = SIGNS[state] ?? ["•", "idle"];
  return h("span", { class: `badge ${tone}` }, h("span", { "aria-hidden": "true" }, `${sign} `),
    state.replaceAll("_", " "));
}

// -- tables and lists

const scrolling = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    target.toggleAttribute("data-wide", target.scrollWidth > target.clientWidth);
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});

/** Let something wide scroll on its own, by keyboard too. */
export function scroll(name, child) {
  const box = h("div", { class: "scroll", role: "group", "aria-label": name }, child);
  scrolling.observe(box);
  return box;
}

/**
 * A table. Columns: `{ head, cell, number, minor }`; the first one names its row, minor ones are left out on a phone,
 * where each row becomes a card: the roles say again what is a table, because the style takes that away.
 */
export function table(caption, columns, rows, empty = "There is nothing yet.") {
  if (!rows.length) return h("p", { class: "muted" }, empty);
  const kind = ({ number, minor }, none) => [number && "number", minor && "minor", none && "none"].filter(Boolean).join(" ") || null;
  const cell = (row) => (column, i) => {
    const content = column.cell(row) ?? "–";
    return i
      ? h("td", { role: "cell", class: kind(column, content === "–"), "data-label": column.head }, h("div", {}, content))
      : h("th", { role: "rowheader", scope: "row" }, content);
  };
  const head = (column) => h("th", { role: "columnheader", scope: "col", class: kind(column) }, column.head);
  return scroll(caption, h("table", { role: "table", class: "cards" },
    h("caption", { class: "unseen" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map(head))),
    h("tbody", { role: "rowgroup" }, rows.map((row) => h("tr", { role: "row" }, columns.map(cell(row)))))));
}

/** Facts by name; those that are null are left out. */
export const facts = (pairs) =>
  h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));

export const sentences = (texts) => h("ul", { class: "sentences" }, texts.map((text) => h("li", {}, text)));

/** How far something is, as a bar and in words. */
export function progress(done, total, words) {
  const share = total ? Math.min(1, done / total) : 0;
  return h("div", { class: "progress" },
    h("progress", { max: 1, value: share, "aria-label": words }), h("span", {}, words));
}

// -- putting new content in the place of old

const STOPS = "a[href], button, input, select, summary, [tabindex]";
const keyOf = (element) =>
  `${element.tagName} ${element.getAttribute("href") ?? element.getAttribute("aria-label") ?? element.textContent}`;

/** Replace a part's content, and keep focus, opened details and scrolling where they were. */
export function swap(body, nodes) {
  const fresh = h("div", {}, nodes);
  const [now, then] = [[...fresh.childNodes], [...body.childNodes]];
  if (now.length === then.length && now.every((node, i) => node.isEqualNode(then[i]))) return;
  const held = body.contains(document.activeElement) ? keyOf(document.activeElement) : null;
  const open = [...body.querySelectorAll("details")].map((details) => details.open);
  const left = [...body.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
  body.replaceChildren(...now);
  body.querySelectorAll("details").forEach((details, i) => { details.open = open[i] ?? false; });
  body.querySelectorAll(".scroll").forEach((box, i) => { box.scrollLeft = left[i] ?? 0; });
  if (held === null) return;
  body.tabIndex = -1;
  ([...body.querySelectorAll(STOPS)].find((element) => keyOf(element) === held) ?? body).focus({ preventScroll: true });
}
