/** What can be done to rounds, schedules, devices, models and tokens, wherever it stands. */

import { ask, download } from "./api.js";
import { action, field, reason, tell } from "./dialogs.js";
import { h } from "./dom.js";

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
  if (row.request === "abort") {
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

// -- schedules

/** A new schedule, or a changed one. */
export const setSchedule = (row = null) => action(row ? "Change" : "Add a schedule", {
  name: row && `Change ${row.name}`, title: row ? `Change the schedule ${row.name}?` : "Add a schedule?", verb: row ? "Change" : "Add",
  says: "Rounds start automatically at this time of every day, or always when no round is planned, as soon as enough devices are ready.",
  fields: [
    row ? null : field("name", "Name", { required: true, maxlength: 64, pattern: "[A-Za-z0-9_.\\-]+", title: "letters, digits, dots, hyphens and underscores", autocapitalize: "none" }),
    field("at", "When: HH:MM on the coordinator's clock, or always", {
      required: true, pattern: "(([01][0-9]|2[0-3]):[0-5][0-9]|always)", value: row?.at ?? "02:30", title: "e.g. 02:30, or always", autocapitalize: "none",
    }),
    field("idle", "Devices that must be ready", { type: "number", min: 1, max: 1000000, value: row?.idle ?? 1, required: true }),
    field("rounds", "Rounds each time", { type: "number", min: 1, max: 10000, value: row?.rounds ?? 1, required: true }),
  ].filter(Boolean),
  act: async ({ name = row?.name, at, idle, rounds }) => {
    await ask("PUT", ["schedules", name], { at, idle: Number(idle), rounds: Number(rounds) });
    return `The schedule ${name} is set.`;
  },
});

export const removeSchedule = ({ name }) => action("Remove", {
  name: `Remove ${name}`, title: `Remove the schedule ${name}?`, danger: true, says: "Rounds that it has planned already stay planned.",
  act: async () => (await ask("DELETE", ["schedules", name])).done,
});

// -- devices

const labelDevice = ({ device, label }) => action("Label", {
  title: `Label ${device}`, says: "A name for people. Leave it empty to take the label away.", verb: "Save",
  fields: [field("label", "Label", { type: "text", maxlength: 200, value: label })],
  act: async (values) => {
    await ask("PUT", ["devices", device, "label"], values);
    return values.label ? `${device} is labelled ${values.label}.` : `${device} has no label.`;
  },
});

const move = async (path, body, device, done) => {
  const { devices } = await ask("POST", path, body);
  return devices.length ? `${device} ${done}.` : `${device} was so already.`;
};

const stand = (path, device, done) => (values) => move([path], { ...values, devices: [device] }, device, done);

/** What lets a device take part, where it may not. */
export function admitDevice({ device, standing }) {
  if (standing === "pending") {
    return action("Approve", {
      name: `Approve ${device}`, title: `Approve ${device}?`, says: "It may be invited to rounds from now on.",
      fields: [reason()], act: stand("approvals", device, "is approved"),
    });
  }
  return standing === "quarantined" ? action("Release", {
    name: `Release ${device}`, title: `Release ${device}?`, says: "It may be invited to rounds again.", fields: [reason()],
    act: (values) => move(["devices", device, "release"], values, device, "is released"),
  }) : null;
}

export const approveAll = (names) => action(`Approve these ${names.length}`, {
  title: `Approve ${names.length} devices?`, says: "They may be invited to rounds from now on.", verb: "Approve", fields: [reason()],
  act: async (values) => {
    const { devices } = await ask("POST", ["approvals"], { ...values, devices: names });
    return `${devices.length} devices are approved.`;
  },
});

export function deviceActions(row) {
  const { device, standing } = row;
  const of = (button, ...standings) => standings.includes(standing) && button;
  return [
    admitDevice(row), labelDevice(row),
    of(action("Quarantine", {
      title: `Quarantine ${device}?`, says: "It is kept out of rounds until somebody releases it.", danger: true,
      fields: [reason()], act: stand("quarantines", device, "is quarantined"),
    }), "pending", "approved"),
    of(action("Revoke", {
      title: `Revoke ${device} for good?`, danger: true, least: "admin", fields: [reason()],
      says: "Its key is never trusted again. To come back it has to register under a new name.",
      act: stand("revocations", device, "is revoked"),
    }), "pending", "approved", "quarantined"),
  ].filter(Boolean);
}

// -- models

/** The weights as a file; anybody who may look may have them. */
export const downloadModel = ({ version }) => h("button", {
  type: "button", "aria-label": `Download version ${version}`,
  onclick: () => download(["models", version, "file"], `model-${version}.safetensors`).then(
    () => tell(`Version ${version} is downloaded.`), (error) => tell(error.message)),
}, "Download");

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

// -- tokens

const ROLES = [["viewer", "viewer: looks"], ["operator", "operator: acts"], ["admin", "admin: does all"]];

export const createToken = () => action("Create a token", {
  least: "admin", title: "Create a token?", verb: "Create", says: "Whoever has it acts in its name. It is shown once.",
  fields: [
    field("name", "Whose it is", { required: true, maxlength: 64, pattern: "[A-Za-z0-9_.\\-]+", title: "letters, digits, dots, hyphens and underscores", autocapitalize: "none" }),
    field("role", "Role", {}, ROLES),
    field("days", "Days until it expires (optional)", { type: "number", min: 1, max: 36500 }),
  ],
  act: async ({ name, role, days }) => {
    const { token } = await ask("POST", ["tokens"], { name, role, days: days ? Number(days) : null });
    return secret(name, token);
  },
});

/** A token, as long as its dialog is open. */
function secret(name, token) {
  const shown = h("input", { id: "secret", value: token, readonly: true, spellcheck: "false", autocomplete: "off", onfocus: () => shown.select() });
  const said = h("span", { role: "status" });
  const copy = navigator.clipboard && h("button", { type: "button", onclick: async () => {
    said.textContent = await navigator.clipboard.writeText(token).then(() => "Copied.", () => "Copy it by hand.");
  } }, "Copy");
  return h("div", { class: "secret" }, h("h2", { id: "dialog-title" }, `The token of ${name}`), h("p", { id: "dialog-says" }, "Copy it now: it is never shown again."),
    h("p", { class: "field" }, h("label", { for: "secret" }, "Token"), shown), h("p", { class: "buttons" }, copy, said));
}

export const revokeToken = ({ name }) => action("Revoke", {
  least: "admin", name: `Revoke ${name}`, title: `Revoke the token ${name}?`, danger: true, says: "Whoever uses it is signed out at once.",
  act: async () => (await ask("DELETE", ["tokens", name])).done,
});
