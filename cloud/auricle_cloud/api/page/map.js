/** The cohort's map: who counted in which layer, with what weight, and who was pruned. */

import { badge, h, link, scroll, unseen } from "./dom.js";

const VERDICTS = {
  kept: { sign: "", words: "kept" },
  pruned_near: { sign: "≈", words: "pruned, too near the mean" },
  pruned_far: { sign: "✕", words: "pruned, too far from the mean" },
  left_out: { sign: "–", words: "left out by the rule" },
};
const SHADES = 5;

const weightOf = (weight) => `${Number((100 * weight).toPrecision(2))} %`;

function cell({ verdict, weight, deviation, rank, of }, largest) {
  const { sign, words } = VERDICTS[verdict] ?? { sign: "?", words: verdict };
  const kept = verdict === "kept";
  const far = deviation === null ? "" : `, deviation ${deviation.toPrecision(4)}, ${rank} of ${of} from the farthest`;
  const said = kept ? `kept with weight ${weightOf(weight ?? 0)}${far}` : `${words}${far}`;
  // The middle shade is an equal share of all, on every page of the map; where nothing was compared, the largest counts.
  const share = of ? ((weight ?? 0) * of) / 2 : (weight ?? 0) / (largest || 1);
  const shade = kept ? Math.min(SHADES, Math.max(1, Math.ceil(SHADES * share))) : 0;
  return h("td", { class: `map ${verdict}`, "data-shade": shade, title: said },
    h("span", { "aria-hidden": "true" }, kept ? weightOf(weight ?? 0) : sign), unseen(said));
}

/** A grid of devices by layers, from `why`. */
export function map(number, devices) {
  const layers = devices.find((device) => device.layers.length)?.layers.map(({ layer }) => layer) ?? [];
  const largest = Math.max(...devices.flatMap((device) => device.layers.map(({ weight }) => weight ?? 0)), 0);
  const row = (device) => h("tr", {},
    h("th", { scope: "row" }, link(device.device, ["rounds", number, device.device])),
    device.layers.length
      ? device.layers.map((part) => cell(part, largest))
      : h("td", { colspan: Math.max(1, layers.length), class: "outcome" }, badge(device.outcome)));
  const head = layers.length ? layers.map((layer) => h("th", { scope: "col", class: "layer" }, layer)) : h("th", { scope: "col" }, "What became of it");
  return [legend(), scroll("Map of the cohort by layer", h("table", { class: "map" },
    h("caption", { class: "unseen" }, "Devices by layer: weight of those kept, or why pruned"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Device"), head)),
    h("tbody", {}, devices.map(row))))];
}

function legend() {
  const entry = (verdict, text, words, shade = 0) =>
    h("li", {}, h("span", { class: `map ${verdict}`, "data-shade": shade, "aria-hidden": "true" }, text), words);
  return h("ul", { class: "legend" }, entry("kept", "12 %", "kept, with its weight: stronger is more", 3),
    entry("pruned_near", "≈", "pruned, too near the mean"), entry("pruned_far", "✕", "pruned, too far from the mean"),
    entry("left_out", "–", "left out by the rule"));
}
