/** What devices run: releases, and their rollouts stage by stage. */

import { ask, get } from "./api.js";
import { action, field, reason } from "./dialogs.js";
import { badge, count, deviceLink, facts, h, link, sentences, table, time } from "./dom.js";
import { panel } from "./panel.js";

const ROLLOUTS = [
  { head: "Rollout", cell: ({ rollout }) => link(rollout, ["updates", rollout]) },
  { head: "State", cell: ({ state }) => badge(state) },
  { head: "Stage", cell: ({ stage, stages }) => `${stage} of ${stages.length}, ${stages[stage - 1]} %` },
  { head: "Updated", number: true, cell: ({ updated }) => count(updated) },
  { head: "Under way", number: true, cell: ({ asked }) => count(asked) },
  { head: "Failed", number: true, cell: ({ failed, refused, silent }) => count(failed + refused + silent) },
  { head: "Started", minor: true, cell: ({ started }) => time(started) },
  { head: "Why", cell: ({ reason }) => reason || "–" },
];

const RELEASES = [
  { head: "Release", cell: ({ path }) => h("code", {}, path) },
  { head: "Kind", cell: ({ kind }) => kind },
  { head: "Version", cell: ({ version }) => version || "–" },
  { head: "For", cell: ({ board, os }) => [board, os].filter(Boolean).join(", ") || "any" },
  { head: "Added", minor: true, cell: ({ added }) => time(added) },
  { head: "Identity", minor: true, cell: ({ identity }) => h("code", { title: identity }, identity.slice(0, 12)) },
  { head: "Actions", cell: (row) => rollOut(row) ?? "–" },
];

const LIVE = { on: ["rollout", "plan"], wide: true, about: "A device counts as updated once it has said itself that it runs the release and is healthy." };

/** The newest of them, for the fleet's page. */
export const rolloutsPanel = () => panel("Rollouts", async (_, signal) =>
  table("Rollouts", ROLLOUTS, (await get(["rollouts"], { limit: 5 }, signal)).rollouts, "No release was rolled out yet."), LIVE);

export function updatesPage() {
  return {
    title: "Updates",
    content: [
      panel("Rollouts, the newest first", async (before, signal) => {
        const { rollouts, next } = await get(["rollouts"], { limit: 25, before }, signal);
        return { nodes: table("Rollouts", ROLLOUTS, rollouts, "No release was rolled out yet."), next };
      }, LIVE),
      panel("Releases", async (_, signal) => {
        const { releases } = await get(["updates", "releases"], {}, signal);
        return [h("p", { class: "buttons" }, releases.length > 0 && updateAll(releases)),
          table("Releases", RELEASES, releases, "There is no release yet.")];
      }, { on: ["rollout"], wide: true, about: "They are signed and added by auricle cloud releases add, where the keys are." }),
    ],
  };
}

/** Of the bundles the newest for each board and system; without any the newest pack. */
function newestOf(releases) {
  const bundles = releases.filter(({ kind }) => kind === "bundle");
  const byAge = [...(bundles.length ? bundles : releases)].sort((one, other) =>
    one.added - other.added || one.version.localeCompare(other.version, "en", { numeric: true }));
  return [...new Map(byAge.map(({ board, os, path }) => [`${board} ${os}`, path])).values()];
}

const start = async (values) => `The rollout ${(await ask("POST", ["rollouts"], values)).rollout} has begun.`;

const updateAll = (releases) => action("Update all devices", {
  title: "Update all devices now?", verb: "Update",
  says: [`They install ${newestOf(releases).join(", ")}.`, "A device that is not well with it goes back on its own. It pauses when too many fail."],
  act: () => start({ releases: newestOf(releases), stages: [100] }),
});

const rollOut = ({ path }) => action("Roll out", {
  name: `Roll out ${path}`, title: `Roll out ${path}?`, verb: "Start",
  says: "Devices install it stage by stage. The rollout pauses automatically when too many of a stage fail.",
  fields: [
    field("label", "Only devices with this label (optional)", { type: "text", maxlength: 200 }),
    field("stages", "Stages, in percent of these devices", { required: true, value: "5, 25, 100", pattern: "[0-9., ]+", title: "rising percentages, such as 5, 25, 100" }),
    field("errors", "Percent of a stage that may fail", { type: "number", min: 0, max: 100, value: 10, required: true }),
  ],
  act: ({ label, stages, errors }) => start({
    releases: [path], label: label || null, errors: Number(errors) / 100, stages: stages.split(",").map((part) => Number(part)),
  }),
});

const STATES = ["waiting", "asked", "updated", "failed", "refused", "silent"];

const MEMBERS = [
  { head: "Device", cell: ({ device }) => deviceLink(device) },
  { head: "State", cell: ({ state }) => (state === null ? "not in it" : badge(state)) },
  { head: "Stage", number: true, minor: true, cell: ({ stage }) => count(stage) },
  { head: "Agent", minor: true, cell: ({ version }) => version },
  { head: "Decided", minor: true, cell: ({ decided }) => time(decided) },
  { head: "Why", cell: ({ sentences: said }) => said.join(" ") || "–" },
];

export function rolloutPage(name) {
  const show = (values, signal) => get(["rollouts", name], values, signal);
  const live = { on: ["rollout", "device"], wide: true };
  return {
    title: `Rollout ${name}`,
    content: [
      panel("How far it is", async (_, signal) => {
        const { row, sentences: said } = await show({ limit: 1 }, signal);
        return [
          h("p", {}, badge(row.state), row.reason && ` ${row.reason}`), sentences(said),
          facts([
            ["Installs", row.targets.join(", ")], ["Label", row.label],
            ["Stage", `${row.stage} of ${row.stages.length}, ${row.stages[row.stage - 1]} %`],
            ["By", row.who], ["Started", time(row.started)], ["Ended", row.ended === null ? null : time(row.ended)],
          ]),
          h("ul", { class: "plain" }, STATES.filter((one) => row[one]).map((one) => h("li", {}, badge(one), ` ${count(row[one])}`))),
          h("p", { class: "buttons" }, rolloutActions(row)),
        ];
      }, live),
      panel("Devices", async (after, signal) => {
        const { devices, next } = await show({ limit: 50, after }, signal);
        return { nodes: table("Devices", MEMBERS, devices, "No device is in it yet."), next };
      }, live),
      h("p", {}, link("All updates", ["updates"])),
    ],
  };
}

function rolloutActions({ rollout, state }) {
  const act = (verb, done) => async (values) => {
    await ask("POST", ["rollouts", rollout, verb], values);
    return `The rollout ${rollout} ${done}.`;
  };
  return [
    state === "running" && action("Pause", {
      title: `Pause the rollout ${rollout}?`, says: "No more devices are asked until somebody resumes it.", fields: [reason()], act: act("pause", "is paused"),
    }),
    state === "paused" && action("Resume", {
      title: `Resume the rollout ${rollout}?`, says: "It goes on with its stage; the errors so far are forgiven.",
      act: async () => act("resume", "goes on")({}),
    }),
    state === "paused" && action("Try again", {
      title: `Ask the devices that failed again?`, says: "The rollout goes on, and asks those that failed or were silent again.",
      act: async () => act("resume", "goes on")({ retry: true }),
    }),
    ["running", "paused"].includes(state) && action("End", {
      title: `End the rollout ${rollout}?`, danger: true, fields: [reason()],
      says: "Nobody is asked any more. Devices that have begun continue on their own.", act: act("abort", "is ended"),
    }),
  ].filter(Boolean);
}
