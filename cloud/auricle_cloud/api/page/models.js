/** Versions of the model and where each comes from. */

import { get } from "./api.js";
import { downloadModel, promote, rollBack } from "./actions.js";
import { badge, fixed, h, percent, roundLink, table, time } from "./dom.js";
import { panel } from "./panel.js";

const columns = (line) => [
  { head: "Version", cell: ({ version, current }) => [`${version} `, current && badge("current")] },
  { head: "Line", cell: ({ version }) => (line.has(version) ? "● current line" : "○ set aside") },
  { head: "Made from", cell: ({ parent }) => (parent === null ? "–" : `version ${parent}`) },
  { head: "By", cell: ({ origin, round }) => (round === null ? origin : [origin === "repair" ? "repair in " : "", roundLink(round)]) },
  { head: "Accuracy", number: true, cell: ({ accuracy }) => percent(accuracy) },
  { head: "Loss (nats)", number: true, minor: true, cell: ({ loss }) => fixed(loss) },
  { head: "Made", minor: true, cell: ({ created }) => time(created) },
  { head: "SHA-256", minor: true, cell: ({ blob }) => h("code", { title: blob }, blob.slice(0, 12)) },
  { head: "Actions", cell: (row) => h("span", { class: "buttons" }, downloadModel(row), row.current ? rollBack(row) : promote(row)) },
];

export function modelsPage() {
  // By page: the version with which the current one's line goes on there. A parent is always older.
  const enters = new Map();
  return {
    title: "Models",
    content: [panel("Versions, the newest first", async (before, signal) => {
      if (before === null) enters.set(null, (await get(["overview"], {}, signal)).model?.version ?? null);
      const { models, next } = await get(["models"], { limit: 50, before }, signal);
      const parents = new Map(models.map(({ version, parent }) => [version, parent]));
      const line = new Set();
      let version = enters.get(before);
      for (; parents.has(version); version = parents.get(version)) line.add(version);
      enters.set(next, version);
      return { nodes: table("Models", columns(line), models), next };
    }, {
      on: ["model", "state"], wide: true,
      about: "Accuracy and loss are on the operator's validation set. A version set aside was left by a roll-back, a promotion or a repair.",
    })],
  };
}
