/** The newest rollouts of releases; the command line starts and steers them. */

import { get } from "./api.js";
import { badge, count, h, table, time } from "./dom.js";
import { panel } from "./panel.js";

const COLUMNS = [
  { head: "Rollout", cell: ({ rollout }) => h("code", {}, rollout) },
  { head: "State", cell: ({ state }) => badge(state) },
  { head: "Stage", cell: ({ stage, stages }) => `${stage} of ${stages.length}, ${stages[stage - 1]} %` },
  { head: "Updated", number: true, cell: ({ updated }) => count(updated) },
  { head: "Under way", number: true, cell: ({ asked }) => count(asked) },
  { head: "Failed", number: true, cell: ({ failed, refused, silent }) => count(failed + refused + silent) },
  { head: "Started", minor: true, cell: ({ started }) => time(started) },
  { head: "Why", cell: ({ reason }) => reason || "–" },
];

export const rolloutsPanel = () => panel("Rollouts", async (_, signal) =>
  table("Rollouts", COLUMNS, (await get(["rollouts"], { limit: 5 }, signal)).rollouts, "No release was rolled out yet."), {
  on: ["rollout", "plan"], wide: true,
  about: "A device counts as updated once it has said itself that it runs the release and is healthy.",
});
