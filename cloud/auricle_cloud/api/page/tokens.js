/** Who may use the API; for admins. */

import { createToken, revokeToken } from "./actions.js";
import { get, session } from "./api.js";
import { h, table, time } from "./dom.js";
import { panel } from "./panel.js";

const COLUMNS = [
  { head: "Name", cell: ({ name }) => [name, name === session.name && h("span", { class: "muted" }, " (yours)")] },
  { head: "Role", cell: ({ role }) => role },
  { head: "Created", cell: ({ created }) => time(created) },
  { head: "Expires", cell: ({ expires }) => (expires === null ? "never" : time(expires)) },
  { head: "Actions", cell: (row) => revokeToken(row) },
];

export function tokensPage() {
  return {
    title: "Tokens",
    content: [
      h("p", { class: "buttons" }, createToken()),
      panel("Tokens by name", async (_, signal) => table("Tokens", COLUMNS, (await get(["tokens"], {}, signal)).tokens),
        { wide: true, about: "A viewer looks, an operator acts, an admin does all. A token is shown when it is made, and never again." }),
    ],
  };
}
