/** Questions before anything is changed. */

import { ask, may } from "./api.js";
import { h } from "./dom.js";
import { follow } from "./panel.js";

/**
 * A button that asks, acts, and says what came of it; null for a role that may not.
 *
 * @param {string} text
 * @param {{ least?: string, title: string, says: string|string[], fields?: HTMLElement[], verb?: string,
 *   name?: string, danger?: boolean, act: (values: object) => Promise<string> }} question `act` does it and tells in a sentence
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
      tell(await act(Object.fromEntries(new FormData(form))));
      dialog.close();
      follow();
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
    const same = [...document.querySelectorAll("main button")].find(({ textContent }) => textContent === opener.textContent);
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

// -- what can be done, wherever it stands

export const startRounds = () => action("Start rounds", {
  title: "Start rounds?", says: "The coordinator runs them one after the other, after those that are planned already.",
  fields: [
    field("count", "How many", { type: "number", min: 1, max: 10000, value: 1, required: true }),
    field("mode", "Mode", {}, [["sync", "synchronous: one cohort, a quorum and a deadline"],
      ["async", "asynchronous: updates count as they come"]]),
  ],
  verb: "Start",
  act: async ({ count, mode }) => {
    const { rounds } = await ask("POST", ["rounds"], { count: Number(count), mode });
    return rounds.length === 1 ? `Round ${rounds[0]} is planned.` : `Rounds ${rounds[0]} to ${rounds.at(-1)} are planned.`;
  },
});

export const FINISHED = ["published", "aborted"];

export function roundActions(row) {
  if (FINISHED.includes(row.state)) return null;
  const number = row.round;
  if (row.wish === "abort") {
    return action("Withdraw the abort", {
      title: `Let round ${number} go on?`, says: "This helps only as long as the coordinator has not acted on the abort.",
      verb: "Withdraw", act: async () => {
        await ask("POST", ["rounds", number, "resume"]);
        return `Round ${number} goes on.`;
      },
    });
  }
  return action("Abort the round", {
    title: `Abort round ${number}?`, danger: true, verb: "Abort", fields: [reason()],
    says: `Updates that ${row.counted ? `arrived (${row.counted})` : "arrive"} are not aggregated, and the model stays.`,
    act: async (values) => {
      await ask("POST", ["rounds", number, "abort"], values);
      return `The coordinator is asked to abort round ${number}.`;
    },
  });
}

const stand = (path, device, done) => async (values) => {
  const { devices } = await ask("POST", [path], { ...values, devices: [device] });
  return devices.length ? `${device} ${done}.` : `${device} was so already.`;
};

export function deviceActions({ device, standing }) {
  const of = (name, ...standings) => standings.includes(standing) && name;
  return [
    of(action("Approve", {
      title: `Approve ${device}?`, says: "It may be invited to rounds from now on.", fields: [reason()],
      act: stand("approvals", device, "is approved"),
    }), "pending"),
    of(action("Release", {
      title: `Release ${device}?`, says: "It may be invited to rounds again.", fields: [reason()],
      act: stand("releases", device, "is released"),
    }), "quarantined"),
    of(action("Quarantine", {
      title: `Quarantine ${device}?`, says: "It is kept out of rounds until somebody releases it.", danger: true,
      fields: [reason()], act: stand("quarantines", device, "is quarantined"),
    }), "pending", "approved"),
    of(action("Revoke", {
      title: `Revoke ${device} for good?`, danger: true, least: "admin", fields: [reason()],
      says: "Its key is never believed again. To come back it has to register under a new name.",
      act: stand("revocations", device, "is revoked"),
    }), "pending", "approved", "quarantined"),
  ].filter(Boolean);
}

export const promote = ({ version }) => action("Promote", {
  name: `Promote version ${version}`, title: `Promote version ${version}?`, says: "It is sent to all devices, and the next round begins with it.",
  fields: [reason()], act: async (values) => {
    await ask("POST", ["models", version, "promote"], values);
    return `Version ${version} is current.`;
  },
});

export const rollBack = (current) => current?.parent !== null && current?.parent !== undefined &&
  current.parent < current.version && action("Roll back", {
  title: `Roll back to version ${current.parent}?`, danger: true, fields: [reason()],
  says: `Version ${current.version} stays in the list, but devices get version ${current.parent}, and the next round begins with it.`,
  act: async (values) => {
    const { version } = await ask("POST", ["rollbacks"], { ...values, version: current.parent });
    return `Version ${version} is current again.`;
  },
});
