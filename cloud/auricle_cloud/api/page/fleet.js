/** The fleet at a glance. */

import { get } from "./api.js";
import { curves } from "./charts.js";
import { rollBack, roundActions, startRounds } from "./actions.js";
import { badge, count, deviceLink, facts, fixed, h, link, lossUnits, percent, plural, progress, roundLink, sentences, table, time } from "./dom.js";
import { panel } from "./panel.js";
import { rolloutsPanel } from "./updates.js";
import { LOSS_UNITS } from "./words.js";

const ROUNDS = 200;

/** A round's live progress. */
export function advance(row) {
  if (row.state === "planned") return h("p", {}, "It has not begun.");
  const words = `${count(row.counted)} counted of ${plural(row.invited, "invited device")}` +
    (row.left_out ? `, ${count(row.left_out)} left out by the rule` : "") +
    (row.failed ? `, ${count(row.failed)} failed or declined` : "");
  return progress(row.counted, row.invited, words);
}

export const EVENTS = [
  { head: "Kind", cell: ({ kind }) => kind },
  { head: "When", cell: ({ at }) => time(at) },
  { head: "Round", cell: ({ round }) => roundLink(round) },
  { head: "Device", cell: ({ device }) => (device ? deviceLink(device) : "–") },
  { head: "By", minor: true, cell: ({ who }) => who || "–" },
  { head: "What", cell: ({ detail }) => detail || "–" },
];

export function fleetPage() {
  // One answer serves all parts that are loaded at the same moment.
  let pending = null;
  const overview = (signal) => {
    pending ??= get(["overview"], {}, signal).finally(() => { pending = null; });
    return pending;
  };
  return {
    title: "Fleet",
    content: [h("div", { class: "grid" },
      panel("Devices", async (_, signal) => devices(await overview(signal)), { on: ["device", "state"] }),
      panel("Round", async (_, signal) => round(await overview(signal)), { on: ["state", "update", "alarm", "plan", "progress", "device"] }),
      panel("Model", async (_, signal) => model(await overview(signal)), { on: ["model", "state"] }),
      panel("Alarms", async (_, signal) => alarms(await overview(signal)), { on: ["alarm", "state", "device"], wide: true }),
      curvesPanel(), rolloutsPanel())],
  };
}

function devices({ devices: total, online, ready, standings, not_in_quorum: broken }) {
  const tile = (number, words, query) =>
    h("a", { class: "tile", href: link("", ["devices"], query).getAttribute("href") },
      h("strong", {}, count(number)), h("span", {}, words));
  return [
    h("div", { class: "tiles" }, tile(total, "known", {}), tile(online, "online", { online: true }),
      tile(ready, "ready to train", { standing: "approved", online: true })),
    h("ul", { class: "plain" }, Object.entries(standings).filter(([, number]) => number).map(([standing, number]) =>
      h("li", {}, badge(standing), " ", link(`${plural(number, "device")}${standing === "pending" ? ": approval is needed" : ""}`,
        ["devices"], { standing }))),
      broken.slice(0, FEW).map(({ device, reason }) => h("li", {}, badge("failed"), " ", deviceLink(device), ` is not in the quorum: ${reason}.`))),
  ];
}

/** Devices that are named with a reason where the whole fleet has to fit. */
const FEW = 3;

/** Why a round does not begin, or does not go on, with each device's reason; `most` of them, and a link to the others. */
export function waits(waiting, most = Infinity, others = null) {
  if (!waiting) return null;
  const left = waiting.devices.length - most;
  return [sentences(waiting.sentences), waiting.devices.length > 0 && h("ul", { class: "plain" },
    waiting.devices.slice(0, most).map(({ device, reason }) => h("li", {}, deviceLink(device), ` ${reason.replace(/\.$/, "")}.`)),
    left > 0 && h("li", {}, link(`${plural(left, "more device")}`, others ?? ["devices"])))];
}

function round({ trouble, under_way: now, last, planned, waiting }) {
  const others = waiting && { ...waiting, sentences: waiting.sentences.filter((line) => !trouble.includes(line)) };
  return [
    trouble.length > 0 && h("p", {}, badge("failed"), " ", trouble.join(" ")),
    now ? [h("p", {}, link(`Round ${now.round}`, ["rounds", now.round]), " ", badge(now.state),
      now.request === "abort" && " An abort was asked."), advance(now)] : h("p", {}, "No round is under way."),
    waits(others, FEW, now && ["rounds", now.round]),
    facts([
      ["Waiting", planned ? plural(planned, "planned round") : null],
      ["Last round", last && [link(`Round ${last.round}`, ["rounds", last.round]), " ", badge(last.state),
        ` ${count(last.counted)} of ${count(last.invited)} counted${last.left_out ? `, ${count(last.left_out)} left out by the rule` : ""}`]],
    ]),
    h("p", { class: "buttons" }, startRounds(), now && roundActions(now)),
  ];
}

function model({ model: now, task, pack, learning }) {
  if (!now) return h("p", {}, "There is no model yet: no coordinator has begun the task.");
  return [
    facts([
      ["Current", link(`Version ${now.version}`, ["models"])],
      ["Made by", now.round === null ? now.origin : [`${now.origin === "repair" ? "a repair in " : ""}`, roundLink(now.round)]],
      ["Made", time(now.created)],
      ["Accuracy on the validation set", now.accuracy === null ? null : percent(now.accuracy)],
      ["Loss on it", now.loss === null ? null : `${fixed(now.loss)} nats`],
      ["Task", task], ["Pack", pack && h("code", {}, pack.slice(0, 12))],
    ]),
    learning && h("p", {}, learning),
    h("p", { class: "buttons" }, rollBack(now)),
  ];
}

const alarms = ({ alarms: rows }) =>
  [table("Alarms", EVENTS, rows, "No alarm so far."), h("p", {}, link("All events", ["events"]))];

function curvesPanel() {
  return panel("Learning", async (_, signal) => {
    const [{ rounds }, { models }] = await Promise.all([
      get(["rounds"], { limit: ROUNDS }, signal), get(["models"], { limit: ROUNDS }, signal)]);
    const of = (name) => rounds.map((row) => [row.round, row[name]]);
    const judged = (name) => models.filter((row) => row.round !== null && row.origin === "round").map((row) => [row.round, row[name]]);
    return h("div", { class: "pair" },
      curves({
        title: "Accuracy over rounds", unit: "%", low: 0, high: 1, write: percent, tick: (value) => String(Math.round(100 * value)),
        series: [
          { name: "shared model, devices' held-out clips", points: of("plugin_accuracy") },
          { name: "devices' own models, same clips", points: of("personal_accuracy") },
          { name: "shared model, validation set", points: judged("accuracy") },
        ],
      }),
      curves({
        title: "Loss over rounds", unit: lossUnits(rounds), low: 0, write: (value) => fixed(value), series: [
          { name: "shared model, devices' clips", points: of("loss") },
          { name: `shared model, validation set${lossUnits(rounds) === LOSS_UNITS.ce ? "" : `, in ${LOSS_UNITS.ce}`}`, points: judged("loss") },
        ],
      }));
  }, {
    on: ["state"], when: ({ state }) => state === "published", wide: true,
    about: "On devices: the model that the round began with. On the validation set: the model that the round made.",
  });
}
