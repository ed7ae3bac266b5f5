/** The page's frame: sign-in, navigation, and the stream of events. */

import { listen, may, session, signIn, signOut } from "./api.js";
import { tell, warn } from "./dialogs.js";
import { h, link } from "./dom.js";
import { follow, leave } from "./panel.js";
import { devicePage, devicesPage } from "./devices.js";
import { enrolmentPage } from "./enrolment.js";
import { eventsPage } from "./events.js";
import { fleetPage } from "./fleet.js";
import { modelsPage } from "./models.js";
import { roundPage, roundsPage, whyPage } from "./rounds.js";
import { tokensPage } from "./tokens.js";
import { rolloutPage, updatesPage } from "./updates.js";

const ROUTES = [
  [/^$/, fleetPage],
  [/^rounds$/, roundsPage],
  [/^rounds\/(\d+)$/, roundPage],
  [/^rounds\/(\d+)\/([a-z0-9-]+)$/, whyPage],
  [/^devices$/, devicesPage],
  [/^devices\/([a-z0-9-]+)$/, devicePage],
  [/^models$/, modelsPage],
  [/^updates$/, updatesPage],
  [/^updates\/([A-Za-z0-9_-]+)$/, rolloutPage],
  [/^enrolment$/, enrolmentPage],
  [/^events$/, eventsPage],
  [/^tokens$/, tokensPage],
];
const PAGES = [["Fleet", ""], ["Rounds", "rounds"], ["Devices", "devices"], ["Models", "models"],
  ["Updates", "updates"], ["Enrolment", "enrolment"], ["Events", "events"]];
const ADMIN = [["Tokens", "tokens"]];

const at = (id) => document.getElementById(id);
const main = at("main");
let stream = null;

/** Show the page that the address names; its heading takes the focus, so that screen readers say it. */
function show() {
  if (session.name === "") return;
  leave();
  document.querySelectorAll("dialog").forEach((dialog) => dialog.close());
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const found = ROUTES.map(([pattern, page]) => [pattern.exec(path), page]).find(([match]) => match);
  const parts = found?.[0].slice(1) ?? [];
  const { title, content } = found
    ? found[1](...parts, new URLSearchParams(query))
    : { title: "Nothing here", content: [h("p", {}, "There is no page at this address. ", link("To the fleet", []))] };
  const heading = h("h1", { tabindex: -1 }, title);
  main.replaceChildren(heading, ...[content].flat(Infinity).filter(Boolean));
  document.title = `${title} · Auricle`;
  for (const entry of at("nav").children) {
    const own = entry.getAttribute("href").slice(2);
    const here = own === path.split("/")[0];
    if (here) entry.setAttribute("aria-current", own === path ? "page" : "true");
    else entry.removeAttribute("aria-current");
  }
  window.scrollTo(0, 0);
  heading.focus({ preventScroll: true });
}

// -- signing in and out

function signInPage(sentence) {
  const failed = h("p", { class: "error", role: "alert" }, sentence);
  const token = h("input", {
    id: "token", name: "token", type: "password", required: true, autocomplete: "off", spellcheck: "false",
    "aria-describedby": "token-says",
  });
  const form = h("form", { class: "panel sign-in" },
    h("h1", {}, "Sign in"), failed,
    h("p", { class: "field" }, h("label", { for: "token" }, "Token"), token),
    h("p", { id: "token-says", class: "muted" }, "An admin makes one with ", h("code", {}, "auricle cloud tokens create"),
      ". It is kept in this tab until you close it or sign out."),
    h("button", { type: "submit", class: "primary" }, "Sign in"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    failed.textContent = "";
    try {
      await signIn(token.value.trim());
      begin();
    } catch (error) {
      failed.textContent = error.message;
      token.select();
    }
  });
  document.title = "Sign in · Auricle";
  main.replaceChildren(form);
  token.focus();
}

session.ended = (sentence) => {
  stream?.abort();
  leave();
  session.name = "";
  document.querySelectorAll("dialog").forEach((dialog) => dialog.close());
  at("nav").hidden = at("who").hidden = true;
  at("notices").replaceChildren();
  signInPage(sentence);
};

function begin() {
  at("nav").replaceChildren(...[...PAGES, ...may("admin") ? ADMIN : []].map(([text, path]) => link(text, path ? [path] : [])));
  at("nav").hidden = at("who").hidden = false;
  at("holder").replaceChildren(h("span", {}, `${session.name}, `), session.role);
  stream?.abort();
  stream = new AbortController();
  let wasLost = false;
  listen(heard, (live, sentence) => {
    at("live").replaceChildren(h("span", { class: `badge ${live ? "good" : "wait"}`, title: sentence },
      live ? "● live" : "○ not live"));
    if (!live && !wasLost) tell(sentence);
    if (live && wasLost) follow();
    wasLost = !live;
  }, stream.signal);
  show();
}

function heard(kind, content) {
  if (kind === "alarm") warn(String(content.sentence ?? ""), link(`Round ${content.round}`, ["rounds", content.round]));
  if (kind === "state" && ["published", "aborted"].includes(content.state)) tell(`Round ${content.round} is ${content.state}.`);
  follow(kind, content);
}

at("sign-out").addEventListener("click", () => signOut());
at("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", show);

if (session.token === null) {
  signInPage("");
} else {
  signIn(session.token).then(begin, (error) => { if (session.token !== null) signInPage(error.message); });
}
