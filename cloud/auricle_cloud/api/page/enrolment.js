/** Who may connect to the broker: claim tokens, which devices exchange for certificates, and certificates. */

import { ask, get, save } from "./api.js";
import { action, field } from "./dialogs.js";
import { badge, h, table, time } from "./dom.js";
import { panel } from "./panel.js";

const CLAIMS = [
  { head: "Device", cell: ({ device }) => device },
  { head: "Made", minor: true, cell: ({ created }) => time(created) },
  { head: "Good until", cell: ({ expires }) => time(expires) },
  { head: "For", cell: ({ replaces }) => (replaces ? "a board that takes the name's place" : "a new device") },
];

const state = ({ revoked, expires }) => {
  if (revoked !== null) return badge("revoked");
  return expires * 1000 < Date.now() ? badge("expired") : badge("valid");
};

const CERTIFICATES = [
  { head: "Name", cell: ({ name }) => name },
  { head: "Kind", cell: ({ kind }) => kind },
  { head: "State", cell: (row) => [state(row), row.reason && ` ${row.reason}`] },
  { head: "Issued", minor: true, cell: ({ issued }) => time(issued) },
  { head: "Good until", cell: ({ expires }) => time(expires) },
  { head: "Serial number", minor: true, cell: ({ serial }) => h("code", {}, serial.slice(0, 16)) },
];

export function enrolmentPage() {
  return {
    title: "Enrolment",
    content: [
      h("p", { class: "buttons" }, letJoin(), newDevices(), replacement()),
      panel("Claim tokens that may still be used", async (_, signal) =>
        table("Claim tokens", CLAIMS, (await get(["enrolled"], {}, signal)).claims, "No device is waited for."), {
        on: ["device"], wide: true, about: "A device exchanges its token for a certificate when it starts for the first time.",
      }),
      panel("Certificates", async (_, signal) => {
        const { certificates, pin } = await get(["enrolled"], {}, signal);
        return [table("Certificates", CERTIFICATES, certificates, "Nobody is certified yet."),
          h("p", { class: "muted" }, "The authority's pin, which every device is given: ", h("code", { class: "long" }, pin))];
      }, { on: ["device"], wide: true, about: "To revoke one, use auricle cloud enrol revoke where the broker's folder is: the broker has to be told." }),
    ],
  };
}

const HOURS = () => field("hours", "Hours they may be used", { type: "number", min: 1, max: 720, value: 24, required: true });

const letJoin = () => action("Let devices join", {
  least: "admin", title: "Draw the code by which devices join?", verb: "Draw a code",
  says: "Who runs auricle edge run --home in this network is asked for it. The code before is worth nothing then.",
  fields: [field("minutes", "Minutes it may be used", { type: "number", min: 1, max: 1440, value: 30, required: true })],
  act: async ({ minutes }) => {
    const { code, expires } = await ask("POST", ["join-codes"], { minutes: Number(minutes) });
    return h("div", {}, h("h2", { id: "dialog-title" }, "The code"), h("p", { id: "dialog-says" }, h("code", {}, code), " is good until ", time(expires), "."));
  },
});

const newDevices = () => action("New devices", {
  least: "admin", title: "Make claim tokens for new devices?", verb: "Make tokens",
  says: "Each board gets a file with its token. Tokens are shown once.",
  fields: [
    field("prefix", "Names begin with", { required: true, maxlength: 56, value: "device", pattern: "[a-z0-9][a-z0-9\\-]*", title: "small letters, digits and hyphens", autocapitalize: "none" }),
    field("count", "How many", { type: "number", min: 1, max: 50, value: 1, required: true }), HOURS(),
  ],
  act: async ({ prefix, count, hours }) =>
    given(await ask("POST", ["claims"], { prefix, count: Number(count), hours: Number(hours) })),
});

const replacement = () => action("Replace a board", {
  least: "admin", title: "Make a claim token for a board that takes a name's place?", verb: "Make the token", danger: true,
  says: "When it is claimed, the certificates that the name has are revoked and its old key is not trusted any more; name, standing and history stay.",
  fields: [
    field("device", "Name of the device", { required: true, maxlength: 64, pattern: "[a-z0-9\\-]{4,64}", title: "the name that it has", autocapitalize: "none" }), HOURS(),
  ],
  act: async ({ device, hours }) => given(await ask("POST", ["claims"], { device, hours: Number(hours), replace: true })),
});

/** The text of a token's file, as `auricle edge claim` reads it. */
const fileOf = (token, pin) =>
  (location.protocol === "https:" ? `${token}\nserver ${location.origin}\nca-pin ${pin}\n` : `${token}\n`);

/** Tokens, as long as their dialog is open. */
function given({ pin, tokens }) {
  const file = ({ device, token }) => h("button", {
    type: "button", "aria-label": `Save ${device}.token`,
    onclick: () => save(new Blob([fileOf(token, pin)], { type: "text/plain" }), `${device}.token`),
  }, `${device}.token`);
  return h("div", { class: "secret" }, h("h2", { id: "dialog-title" }, tokens.length === 1 ? "The token" : `${tokens.length} tokens`),
    h("p", { id: "dialog-says" }, "Save each file now: it is never shown again. Put it on its board and run auricle edge claim there."),
    h("p", { class: "buttons" }, tokens.map(file)),
    h("p", { class: "muted" }, "A broker that asks for passwords has to be told of new names: auricle cloud enrol broker."));
}
