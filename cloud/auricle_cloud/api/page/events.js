/** Everything that happened, the alarms first. */

import { get } from "./api.js";
import { address, h, table } from "./dom.js";
import { EVENTS } from "./fleet.js";
import { panel } from "./panel.js";

const KINDS = [
  "alarm", "verdict", "repair", "conflict", "quarantined", "rolled back", "promoted", "abort", "resumed", "planned",
  "registered", "approved", "revoked", "bounded", "loss set aside", "left out", "too slow", "not in quorum", "in quorum again", "learning", "labelled", "sensitivity", "scheduled", "schedule removed", "token created", "token revoked",
];

export function eventsPage(query) {
  const kind = query.get("kind") ?? "";
  const select = h("select", { id: "filter-kind", onchange: () => { location.hash = address(["events"], { kind: select.value }); } },
    h("option", { value: "" }, "any"), KINDS.map((one) => h("option", { value: one, selected: one === kind }, one)));
  return {
    title: "Events",
    content: [
      kind ? null : panel("Alarms", async (_, signal) =>
        table("Alarms", EVENTS, (await get(["overview"], {}, signal)).alarms, "No alarm so far."), { on: ["alarm", "state", "device"], wide: true }),
      h("div", { class: "filters" }, h("p", { class: "field" }, h("label", { for: "filter-kind" }, "Kind"), select)),
      panel("What happened, the newest first", async (before, signal) => {
        const { events, next } = await get(["journal"], { limit: 50, before, kind }, signal);
        return { nodes: table("Events", EVENTS, events, "Nothing of this kind happened yet."), next };
      }, { on: ["alarm", "state", "device", "model"], wide: true }),
    ],
  };
}
