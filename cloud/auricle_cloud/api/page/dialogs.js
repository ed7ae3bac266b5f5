/** Questions before anything is changed; what can be done stands in `actions.js`. */

import { may } from "./api.js";
import { h } from "./dom.js";
import { follow } from "./panel.js";

/**
 * A button that asks, acts, and says what came of it; null for a role that may not.
 *
 * @param {string} text
 * @param {{ least?: string, title: string, says: string|string[], fields?: HTMLElement[], verb?: string,
 *   name?: string, danger?: boolean, act: (values: object) => Promise<string|Node> }} question `act` does it and tells in a
 *   sentence; what has to be kept, e.g. a secret, it answers as a node, which stays until the reader closes it
 */
export function action(text, question) {
  if (!may(question.least ?? "operator")) return null;
  const tone = question.danger ? "danger" : null;
  return h("button", {
    type: "button", class: tone, "aria-label": question.name, onclick: () => open(text, question),
  }, text);
}

/** A labelled field of a question. */
export function field(name, label, attributes = {}, options = null) {
  const id = `field-${name}`;
  const input = options === null
    ? h("input", { id, name, ...attributes })
    : h("select", { id, name, ...attributes }, options.map(([value, words]) => h("option", { value }, words)));
  return h("p", { class: "field" }, h("label", { for: id }, label), input);
}

const nameOf = (element) => element.getAttribute("aria-label") ?? element.textContent;

/** The reason that goes into the log. */
export const reason = () => field("reason", "Reason, for the log (optional)", { type: "text", maxlength: 200 });

function open(text, { title, says, fields = [], verb = text, danger = false, act }) {
  const failed = h("p", { class: "error", role: "alert" });
  const yes = h("button", { type: "submit", class: danger ? "danger" : "primary" }, verb);
  const no = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const form = h("form", {},
    h("h2", { id: "dialog-title" }, title),
    h("div", { id: "dialog-says" }, [says].flat().map((sentence) => h("p", {}, sentence))),
    fields.map((one) => one.cloneNode(true)), failed, h("div", { class: "buttons" }, no, yes));
  const dialog = h("dialog", { "aria-labelledby": "dialog-title", "aria-describedby": "dialog-says" }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (yes.getAttribute("aria-disabled") === "true") return;
    yes.setAttribute("aria-disabled", "true");
    failed.textContent = "";
    try {
      const done = await act(Object.fromEntries(new FormData(form)));
      follow();
      if (typeof done === "string") {
        tell(done);
        dialog.close();
      } else {
        dialog.replaceChildren(done, h("div", { class: "buttons" },
          h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Close")));
        dialog.querySelector("input, button").focus();
      }
    } catch (error) {
      failed.textContent = error.message;
      if (error.status === undefined) throw error;
    } finally {
      yes.removeAttribute("aria-disabled");
    }
  });
  const opener = document.activeElement;
  dialog.addEventListener("close", () => {
    dialog.remove();
    // What opened it may have been loaded again meanwhile.
    const same = [...document.querySelectorAll("main button")].find((button) => nameOf(button) === nameOf(opener));
    if (!opener.isConnected) (same ?? document.querySelector("h1")).focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  const first = form.querySelector("input, select") ?? (danger ? no : yes);
  first.focus();
  first.select?.();
}

/** Say what was done, on the screen for a while and to screen readers. */
export function tell(sentence) {
  const said = document.getElementById("said");
  said.replaceChildren(h("span", {}, sentence));
  setTimeout(() => { if (said.textContent === sentence) said.replaceChildren(); }, 8000);
}

/** Keep an alarm in sight until somebody has read it. */
export function warn(sentence, to) {
  const notice = h("p", { class: "notice" }, h("span", {}, h("strong", {}, "Alarm. "), sentence, " ", to),
    h("button", { type: "button", onclick: () => notice.remove() }, "Dismiss"));
  const notices = document.getElementById("notices");
  notices.append(notice);
  if (notices.children.length > 3) notices.firstChild.remove();
}
