/** Rounds: their list, one of them, and why a device counted in it as it did. */

import { get, may } from "./api.js";
import { dots } from "./charts.js";
import { FINISHED, removeSchedule, roundActions, setSchedule, startRounds } from "./actions.js";
import {
  address, badge, count, deviceLink, facts, fixed, h, link, lossColumn, lossOf, lossUnit, percent, plural, progress, roundLink, seconds, sentences, signed, table, time,
} from "./dom.js";
import { advance, waits } from "./fleet.js";
import { map } from "./map.js";
import { panel } from "./panel.js";
import { FIGURES, OUTCOMES } from "./words.js";

const WRITE = { count, share: percent, number: fixed };

const COLUMNS = (rounds) => [
  { head: "Round", cell: ({ round }) => link(`Round ${round}`, ["rounds", round]) },
  { head: "State", cell: ({ state, request }) => [badge(state), request && ` ${request} was asked`] },
  { head: "Counted", number: true, cell: ({ counted, invited, left_out: out }) =>
    `${count(counted)} of ${count(invited)}${out ? `, ${count(out)} left out` : ""}` },
  { head: "Failed", number: true, minor: true, cell: ({ failed }) => count(failed) },
  ...FIGURES.filter(({ shown }) => shown.includes("table")).map(({ name, head, unit, minor }) => (unit === "loss"
    ? lossColumn(rounds, { minor }) : { head, number: true, minor, cell: ({ [name]: value }) => WRITE[unit](value) })),
  { head: "Mode", minor: true, cell: ({ mode }) => mode },
  { head: "Opened", minor: true, cell: ({ opened }) => time(opened) },
  { head: "Closed", minor: true, cell: ({ closed }) => time(closed) },
];

export function roundsPage() {
  return {
    title: "Rounds",
    content: [
      h("p", { class: "buttons" }, startRounds(), setSchedule()),
      panel("All rounds, the newest first", async (before, signal) => {
        const { rounds, next } = await get(["rounds"], { limit: 50, before }, signal);
        return { nodes: table("Rounds", COLUMNS(rounds), rounds, "No round was planned yet."), next };
      }, { on: ["state", "update", "plan"], wide: true }),
      panel("Schedules", async (_, signal) =>
        table("Schedules", schedules(), (await get(["schedules"], {}, signal)).schedules, "No rounds start automatically."),
      { on: ["state", "plan"], wide: true, about: "Rounds that start automatically, on the coordinator's clock." }),
    ],
  };
}

const schedules = () => [
  { head: "Schedule", cell: ({ name }) => name },
  { head: "When", cell: ({ at, zone }) => (at === "always" ? at : `every day at ${at} ${zone}`) },
  { head: "Devices ready", number: true, cell: ({ idle }) => `at least ${count(idle)}` },
  { head: "Rounds", number: true, cell: ({ rounds }) => count(rounds) },
  { head: "Last run", minor: true, cell: ({ last }) => time(last) },
  { head: "Actions", cell: (row) => h("span", { class: "buttons" }, setSchedule(row), removeSchedule(row)) },
].filter(({ head }) => head !== "Actions" || may("operator"));

/** What devices are looked for by: outcomes, and what a method or detection says of those that counted. */
const WANTED = OUTCOMES.flatMap(({ name }) => (name === "left_out" ? [name, "pruned", "harmful"] : [name]));

const COHORT = (number, isOver, members) => [
  { head: "Device", cell: ({ device }) => link(device, ["rounds", number, device]) },
  { head: "State", cell: ({ state }) => badge(state === "invited" && isOver ? "silent" : state) },
  { head: "Why", cell: ({ reason, state, counted_in: where }) =>
    reason || (state === "counted" && where !== null && where !== number ? ["in ", roundLink(where)] : "–") },
  { head: "Samples", number: true, minor: true, cell: ({ samples }) => count(samples) },
  lossColumn(members),
  { head: "Behind", number: true, minor: true, cell: ({ staleness }) => count(staleness) },
  { head: "Trained", number: true, minor: true, cell: (row) => seconds(row.seconds) },
  { head: "Received", minor: true, cell: ({ received }) => time(received) },
];

/** The cohort by layer and in a table; the choice of who is shown stands in the address. */
function cohort(number, query, live, done) {
  const shown = h("div", { class: "parts" });
  const show = (outcome) => shown.replaceChildren(
    panel("Kept and pruned by layer", async (after, signal) => {
      const { devices, next } = await get(["rounds", number, "why"], { limit: 25, after, outcome }, signal);
      if (devices.length && !devices.some(({ layers }) => layers.length)) return { nodes: h("p", { class: "muted" }, "No layer was averaged yet."), next: null };
      return { nodes: devices.length ? map(number, devices) : h("p", { class: "muted" }, "No device had this outcome."), next };
    }, { ...done, about: "Open a device to read why.", optional: true }),
    panel("Cohort", async (after, signal) => {
      const { row, cohort: members, next } = await get(["rounds", number], { limit: 50, after, outcome }, signal);
      const none = outcome ? "No invited device had this outcome." : "Nobody is invited yet.";
      const known = members.map((each) => ({ ...each, inference_loss: row.inference_loss }));
      return { nodes: table("Cohort", COHORT(number, FINISHED.includes(row.state), known), known, none), next };
    }, { ...live, wide: true }));
  const chosen = WANTED.includes(query.get("outcome")) ? query.get("outcome") : "";
  const select = h("select", { id: "filter-outcome", onchange: () => {
    history.replaceState(null, "", address(["rounds", number], { outcome: select.value }));
    show(select.value);
  } }, h("option", { value: "" }, "all"), WANTED.map((one) =>
    h("option", { value: one, selected: one === chosen }, one.replaceAll("_", " "))));
  show(chosen);
  return [h("div", { class: "filters" }, h("p", { class: "field" }, h("label", { for: "filter-outcome" }, "Devices that were"), select)), shown];
}

export function roundPage(text, query) {
  const number = Number(text);
  const when = ({ round }) => round === number;
  const live = { on: ["state", "update", "alarm"], when };
  const done = { on: ["state"], when, wide: true };
  const steps = h("div", { class: "steps" });
  const judging = ({ done: judged, total }) => steps.replaceChildren(
    progress(judged, total, `Judging devices: ${count(judged)} of at most ${plural(total, "coalition")}`));
  return {
    title: `Round ${number}`,
    content: [
      panel("Progress", async (_, signal) => {
        const { row, model, waiting } = await get(["rounds", number], { limit: 1 }, signal);
        if (row.state !== "alarm") steps.replaceChildren();
        return [...head(row, model), waits(waiting)].filter(Boolean).flat();
      }, { ...live, on: [...live.on, "progress"], when: (content) => {
        if (when(content) && "total" in content) judging(content);
        return when(content);
      }, wide: true }),
      steps,
      panel("What happened", async (_, signal) => {
        const { state, sentences: said } = await get(["rounds", number, "why"], { limit: 1 }, signal);
        return FINISHED.includes(state) ? sentences(said) : h("p", { class: "muted" }, "The round is not finished yet.");
      }, done),
      panel("Detection", async (_, signal) => detection(await get(["rounds", number], { limit: 1 }, signal)),
        { ...done, on: ["state", "alarm"] }),
      cohort(number, query, live, done),
    ],
  };
}

function head(row, model) {
  return [
    h("p", {}, badge(row.state), row.request === "abort" && " An abort was asked: the coordinator acts on it as soon as it can."),
    advance(row),
    facts([
      ["Mode", row.mode === "async" ? "asynchronous" : "synchronous"], ["Asked by", row.asked_by],
      ["Planned", time(row.planned)], ["Opened", row.opened && time(row.opened)], ["Closed", row.closed && time(row.closed)],
      ["Made", model === null ? null : link(`model version ${model}`, ["models"])],
      ["Began with", row.base_version === null ? null : `model version ${row.base_version}`],
      ...FIGURES.filter(({ shown }) => shown.includes("round")).map(({ name, words, unit }) =>
        [words, row[name] === null || (unit === "count" && !row[name]) ? null : unit === "loss" ? lossOf(row) : WRITE[unit](row[name])]),
    ]),
    h("p", { class: "buttons" }, roundActions(row), link("All rounds", ["rounds"])),
  ];
}

function detection({ detection: found, row }) {
  if (!found) return h("p", { class: "muted" }, "No detection has run in this round.");
  const votes = new Set(found.votes ?? []);
  const bad = new Set(found.bad ?? []);
  const value = (row) => row.value ?? Infinity;
  const losses = Object.entries(found.losses ?? {})
    .map(([name, loss]) => ({ name, value: loss, mark: votes.has(name) ? "voted for the alarm" : null }))
    .sort((a, b) => (value(b) === value(a) ? 0 : value(b) - value(a)));
  const shapley = Object.entries(found.shapley ?? {})
    .map(([name, { value: phi, error }]) => ({ name, value: phi, error, mark: bad.has(name) ? "harmful" : null }))
    .sort((a, b) => a.value - b.value);
  const judged = found.judged_round === undefined || found.judged_round === null ? "" : ` in round ${found.judged_round}`;
  return [
    h("p", {}, badge(found.fires ? "alarm" : "approved").firstChild.cloneNode(true), h("strong", {}, found.fires ? "Alarm. " : "No alarm. "),
      found.sentence ?? ""),
    bad.size > 0 && h("p", {}, "Named harmful: ", [...bad].map((name, i) => [i ? ", " : "", deviceLink(name)]), "."),
    h("div", { class: "pair" },
      dots({
        title: "Loss of the received model", unit: lossUnit(row), write: (loss) => fixed(loss), rows: losses,
        line: { at: found.reference, name: "reference" },
      }),
      dots({
        title: `Shapley value${judged}`, unit: "validation accuracy", write: (phi) => signed(phi), rows: shapley,
        line: { at: 0, name: "no effect" },
        columns: [{ head: "Standard error", number: true, cell: ({ error }) => (error === null ? "–" : error ? fixed(error, 4) : "exact") }],
      })),
  ];
}

/** What `why` says about one device, for this page and the device's own. */
export async function whyOf(number, device, signal) {
  const { devices: [why], rule } = await get(["rounds", number, "why"], { device }, signal);
  const pruned = why.layers.filter(({ verdict }) => verdict.startsWith("pruned")).length;
  return [
    h("p", {}, badge(why.outcome), why.harmful && [" ", badge("harmful")], rule && ` by the method ${rule}`,
      pruned > 0 && `, pruned in ${pruned} of ${plural(why.layers.length, "layer")}`),
    sentences(why.sentences), why.layers.length > 0 && map(number, [why]),
  ];
}

export function whyPage(text, device) {
  const number = Number(text);
  return {
    title: `${device} in round ${number}`,
    content: [
      panel("Why", (_, signal) => whyOf(number, device, signal),
        { on: ["state"], when: ({ round }) => round === number, wide: true }),
      h("p", { class: "buttons" }, link(`Back to round ${number}`, ["rounds", number]), link(`History of ${device}`, ["devices", device])),
    ],
  };
}
