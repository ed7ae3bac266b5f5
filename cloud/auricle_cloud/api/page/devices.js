/** Devices: their list, and the history of one. */

import { get, may } from "./api.js";
import { curves } from "./charts.js";
import { admitDevice, approveAll, deviceActions } from "./actions.js";
import { address, badge, count, deviceLink, facts, fixed, h, link, lossColumn, lossUnits, percent, plural, roundLink, seconds, signed, table, time } from "./dom.js";
import { EVENTS } from "./fleet.js";
import { panel } from "./panel.js";
import { whyOf } from "./rounds.js";

const STANDINGS = ["pending", "approved", "quarantined", "revoked"];
const presence = ({ online, offline_since: since }) => [badge(online ? "online" : since === null ? "unknown" : "offline"),
  since !== null && h("span", { class: "muted" }, " since ", time(since))];

const COLUMNS = [
  { head: "Device", cell: ({ device, label }) => [deviceLink(device), label && h("span", { class: "muted" }, ` ${label}`)] },
  { head: "Standing", cell: ({ standing }) => badge(standing) },
  { head: "Presence", cell: (row) => presence(row) },
  { head: "Can take part", minor: true, cell: ({ ineligible: why, not_in_quorum: broken }) => (why ? `no, it ${why}` : broken ? `not in the quorum: ${broken}` : "yes") },
  { head: "Rounds", number: true, minor: true, cell: ({ selected }) => count(selected) },
  { head: "Harmful", number: true, minor: true, cell: ({ harmful_count: harmful }) => count(harmful) },
  { head: "Left out", number: true, minor: true, cell: ({ left_out_rounds: out }) => (out ? `last ${plural(out, "round")}` : "–") },
  { head: "Samples", number: true, minor: true, cell: ({ samples }) => count(samples) },
  { head: "Last seen", minor: true, cell: ({ last_seen: at }) => time(at) },
  { head: "Actions", cell: (row) => admitDevice(row) },
];

export function devicesPage(query) {
  const wanted = { standing: query.get("standing") ?? "", online: query.get("online") ?? "", search: query.get("search") ?? "" };
  const columns = COLUMNS.filter(({ head: name }) => name !== "Actions" || may("operator"));
  return {
    title: "Devices",
    content: [h("div", { class: "filters" }, filters(wanted), searching(wanted)), panel("Devices by name", async (after, signal) => {
      const { trouble, devices, next } = await get(["devices"], { limit: 50, after, ...wanted }, signal);
      const waiting = devices.filter(({ standing }) => standing === "pending").map(({ device }) => device);
      return { nodes: [
        trouble.length > 0 ? h("p", {}, badge("failed"), " ", trouble.join(" ")) : null,
        waiting.length > 1 ? h("p", { class: "buttons" }, approveAll(waiting)) : null,
        table("Devices", columns, devices, "No device is like that."),
      ].filter(Boolean), next };
    }, { on: ["device", "state"], wide: true })],
  };
}

function filters(wanted) {
  const choice = (name, label, options) => {
    const id = `filter-${name}`;
    const select = h("select", { id, name, onchange: () => {
      location.hash = address(["devices"], { ...wanted, [name]: select.value });
    } }, options.map(([value, words]) => h("option", { value, selected: value === wanted[name] }, words)));
    return h("p", { class: "field" }, h("label", { for: id }, label), select);
  };
  return [choice("standing", "Standing", [["", "any"], ...STANDINGS.map((standing) => [standing, standing])]),
    choice("online", "Presence", [["", "any"], ["true", "online"], ["false", "offline"]])];
}

function searching(wanted) {
  const text = h("input", { id: "search", type: "search", maxlength: 200, value: wanted.search, autocapitalize: "none", spellcheck: "false" });
  const form = h("form", { class: "filters", role: "search" },
    h("p", { class: "field" }, h("label", { for: "search" }, "Name or label contains"), text),
    h("button", { type: "submit" }, "Search"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = address(["devices"], { ...wanted, search: text.value.trim() });
  });
  return form;
}

const HISTORY = (device, history) => [
  { head: "Round", cell: ({ round }) => roundLink(round) },
  { head: "State", cell: ({ state }) => badge(state) },
  { head: "Why", cell: ({ round, reason }) => [reason && `${reason} `, link("why", ["rounds", round, device])] },
  { head: "Samples", number: true, cell: ({ samples }) => count(samples) },
  lossColumn(history),
  { head: "Shared model", number: true, minor: true, cell: ({ plugin_accuracy: accuracy }) => percent(accuracy) },
  { head: "Own model", number: true, minor: true, cell: ({ personal_accuracy: accuracy }) => percent(accuracy) },
  { head: "Behind", number: true, minor: true, cell: ({ staleness }) => count(staleness) },
  { head: "Trained", number: true, minor: true, cell: (row) => seconds(row.seconds) },
  { head: "Invited", minor: true, cell: ({ invited }) => time(invited) },
];

const decibels = (value) => (value === null ? "–" : `${Math.round(value)} dBFS`);

const REPORTS = [
  { head: "Received", cell: ({ received }) => time(received) },
  { head: "Hours heard", number: true, cell: ({ heard }) => fixed(heard, 2) },
  { head: "Detected", number: true, cell: ({ detections }) => count(detections) },
  { head: "Denied", number: true, cell: ({ denied }) => count(denied) },
  { head: "Missed", number: true, cell: ({ missed }) => count(missed) },
  { head: "Level", number: true, minor: true, cell: ({ level }) => decibels(level) },
  { head: "Noise", number: true, minor: true, cell: ({ noise }) => decibels(noise) },
  { head: "At full scale", minor: true, cell: (row) => row.full_scale },
];

const REFUSALS = [
  { head: "Reason", cell: ({ code }) => h("code", {}, code) },
  { head: "Times", number: true, cell: (row) => count(row.count) },
  { head: "Last", cell: ({ last }) => time(last) },
  { head: "Detail", cell: ({ detail }) => detail || "–" },
];

export function devicePage(device) {
  const when = (content) => content.device === device || content.device === undefined;
  const show = (values, signal) => get(["devices", device], values, signal);
  const live = { on: ["device", "update", "state", "refusal"], when, wide: true };
  return {
    title: device,
    content: [
      panel("Standing", async (_, signal) => head((await show({ limit: 1 }, signal)).row), live),
      panel("Its last finished round", async (_, signal) => {
        const { last } = await get(["overview"], {}, signal);
        if (last === null) return h("p", { class: "muted" }, "No round is finished yet.");
        return [h("h3", {}, roundLink(last.round)), ...await whyOf(last.round, device, signal)];
      }, { on: ["state"], wide: true }),
      panel("Participation", async (before, signal) => {
        const { history, learning, next } = await show({ limit: 50, before }, signal);
        return { nodes: [learning && h("p", {}, learning), table("Participation", HISTORY(device, history), history, "It was never invited."), over(history)].filter(Boolean), next };
      }, live),
      panel("What it hears", async (before, signal) => {
        const { row, reports, next } = await get(["devices", device, "hearing"], { limit: 24, before }, signal);
        return { nodes: [heard(row), table("Reports", REPORTS, reports, "It has never reported how well it hears.")].filter(Boolean), next };
      }, { on: ["hearing"], when, wide: true, about: "Coarse figures, which its owner lets it report." }),
      panel("Refused frames", async (_, signal) =>
        table("Refused frames", REFUSALS, (await show({ limit: 1 }, signal)).refusals, "Nothing of it was ever refused."), live),
      panel("Events", async (before, signal) => {
        const { events, next } = await get(["journal"], { limit: 25, before, device }, signal);
        return { nodes: table("Events", EVENTS.filter(({ head: name }) => name !== "Device"), events), next };
      }, live),
    ],
  };
}

function head(row) {
  return [
    h("p", {}, badge(row.standing), " ", presence(row), row.reason && ` ${row.reason}`),
    facts([
      ["Label", row.label], ["Can take part now", row.ineligible ? `no, it ${row.ineligible}` : "yes"],
      ["Invited to", `${count(row.selected)} round${row.selected === 1 ? "" : "s"}`],
      ["Named harmful", row.harmful_count ? `${count(row.harmful_count)} times` : "never"],
      ["Not in the quorum", row.not_in_quorum || null],
      ["Left out by the rule", row.left_out_rounds ? `of its last ${plural(row.left_out_rounds, "round")}` : null], ["Training samples", count(row.samples)],
      ["Architecture", row.architecture], ["Agent", row.agent], ["Pack", row.pack && h("code", {}, row.pack.slice(0, 12))],
      ["First seen", time(row.first_seen)], ["Last seen", time(row.last_seen)],
      ["Sensitivity", row.sensitivity_now === null ? "not taken from here" : `${signed(row.sensitivity_now, 0)}${row.sensitivity === row.sensitivity_now ? "" : `, ${signed(row.sensitivity, 0)} is wanted`}`],
      ["Public key", h("code", { class: "long" }, row.public_key)],
    ]),
    h("p", { class: "buttons" }, deviceActions(row)),
  ];
}

function heard(row) {
  if (!row.devices) return null;
  // Less than an hour shows no rate.
  const often = (name, rate) => row.hours < 1
    ? [name, `${count(Math.round(rate * row.hours))} in ${Math.round(60 * row.hours)} min`]
    : [`${name} an hour`, fixed(rate, 2)];
  return facts([
    ["Heard in a week", `${fixed(row.hours, 1)} h`], often("Detected", row.detections),
    often("Denied", row.denied), often("Missed", row.missed),
    ["Level", decibels(row.level)], ["Noise", decibels(row.noise)],
    ["Microphone", row.troubles.length ? row.troubles.join(", ") : "no trouble"],
  ]);
}

function over(history) {
  if (!history.length) return null;
  const of = (name) => history.map((row) => [row.round, row[name]]);
  return h("div", { class: "pair" },
    curves({ title: "Loss", unit: lossUnits(history), low: 0, write: (value) => fixed(value), series: [{ name: "received model, its clips", points: of("loss") }] }),
    curves({
      title: "Accuracy", unit: "%", low: 0, high: 1, write: percent, tick: (value) => String(Math.round(100 * value)),
      series: [{ name: "shared model, its held-out clips", points: of("plugin_accuracy") }, { name: "its own model", points: of("personal_accuracy") }],
    }));
}
