/** Small charts as SVG, each with axes, units and the same numbers as a table. */

import { h, svg, table } from "./dom.js";

const drawing = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const width = Math.floor(contentRect.width);
    if (width > 0 && target.drawn !== width) {
      target.drawn = width;
      target.replaceChildren(target.draw(width));
    }
  }
});

const finite = (value) => typeof value === "number" && Number.isFinite(value);

/** Round numbers from low to high, about so many. */
function ticks(low, high, about) {
  const rough = (high - low) / about || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) found.push(i * step);
  return { step, found };
}

const digits = (step) => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);

/** A figure: the chart, its legend, and its numbers as a table that is made when it is opened. */
function figure({ title, summary, name, height, draw, legend = null, numbers }) {
  const chart = h("div", { class: "chart", role: "img", "aria-label": `${title}. ${summary}`, "data-height": height,
    "data-of": name });
  chart.draw = draw;
  chart.style.height = `${height}px`;
  drawing.observe(chart);
  const details = h("details", {}, h("summary", {}, `${title} as a table`));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(numbers());
  });
  return h("figure", {}, h("figcaption", {}, title), legend, chart, details);
}

// -- curves

const MARKS = [
  (x, y) => svg("circle", { cx: x, cy: y, r: 3.5 }),
  (x, y) => svg("rect", { x: x - 3.2, y: y - 3.2, width: 6.4, height: 6.4 }),
  (x, y) => svg("path", { d: `M${x} ${y - 4.5}l4.2 7.5h-8.4z` }),
];
const MOST_MARKS = 40;

/**
 * Curves over rounds.
 *
 * @param {{ title: string, unit: string, low?: number, high?: number, write: (value: number) => string,
 *   tick?: (value: number, digits: number) => string, series: { name: string, points: [number, number][] }[] }} told
 *   series without points are left out; each has its own colour, dashes and mark
 */
export function curves({ title, unit, low, high, write, tick = (value, places) => value.toFixed(places), series }) {
  const shown = series.map(({ name, points }, i) => ({
    name, i, points: points.filter((point) => point.every(finite)).sort((a, b) => a[0] - b[0]),
  })).filter(({ points }) => points.length);
  if (!shown.length) return h("figure", {}, h("figcaption", {}, title), h("p", { class: "muted" }, "No figures yet."));
  const all = shown.flatMap(({ points }) => points);
  const [least, most] = [Math.min(...all.map(([, y]) => y)), Math.max(...all.map(([, y]) => y))];
  const margin = (most - least || Math.abs(most) || 1) * 0.08;
  const range = [low ?? least - margin, high ?? most + margin];
  const rounds = [Math.min(...all.map(([x]) => x)), Math.max(...all.map(([x]) => x))];
  const height = 230;

  function draw(width) {
    const [left, right, top, bottom] = [52, width - 14, 12, height - 38];
    const x = scale(rounds[0], rounds[1], left + 8, right - 8);
    const y = scale(range[0], range[1], bottom, top);
    const ys = ticks(range[0], range[1], 4);
    const xs = ticks(rounds[0], rounds[1], Math.max(2, Math.min(8, width / 70))).found.filter(Number.isInteger);
    return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
      ys.found.map((value) => [
        svg("line", { class: "rule", x1: left, x2: right, y1: y(value), y2: y(value) }),
        svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, tick(value, digits(ys.step))),
      ]),
      xs.map((value) => svg("text", { x: x(value), y: bottom + 17, "text-anchor": "middle" }, String(value))),
      svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
      svg("text", { class: "unit", x: (left + right) / 2, y: height - 4, "text-anchor": "middle" }, "round"),
      shown.map(({ points, i, name }) => svg("g", { class: `series s${i}` },
        svg("path", { class: "curve", d: points.map(([a, b], n) => `${n ? "L" : "M"}${x(a)} ${y(b)}`).join("") }),
        (points.length > MOST_MARKS ? points.slice(-1) : points).map(([a, b]) => {
          const mark = MARKS[i % 3](x(a), y(b));
          mark.append(svg("title", {}, `${name}, round ${a}: ${write(b)}`));
          return mark;
        }))));
  }

  const legend = h("ul", { class: "legend" }, shown.map(({ name, i }) => h("li", {},
    svg("svg", { class: `series s${i}`, width: 34, height: 12, "aria-hidden": "true" },
      svg("path", { class: "curve", d: "M1 6H33" }), MARKS[i % 3](17, 6)), name)));
  const lasts = shown.map(({ name, points }) => `${name}: ${write(points.at(-1)[1])} in round ${points.at(-1)[0]}`);
  const numbers = () => {
    const maps = shown.map(({ points }) => new Map(points));
    const column = ({ name }, n) => ({ head: name, number: true, cell: (row) => maps[n].has(row) ? write(maps[n].get(row)) : "–" });
    const rows = [...new Set(all.map(([a]) => a))].sort((a, b) => b - a);
    return table(title, [{ head: "Round", cell: (row) => String(row) }, ...shown.map(column)], rows);
  };
  return figure({ title: `${title} (${unit})`, summary: `Latest. ${lasts.join("; ")}.`, name: title, height, draw, legend, numbers });
}

// -- devices compared

const MOST_ROWS = 20;

/**
 * One value a device as dots on a line, with error bars.
 *
 * @param {{ title: string, unit: string, write: (value: number) => string, line: { at: number, name: string },
 *   zero?: boolean, columns?: object[],
 *   rows: { name: string, value: number|null, error?: number|null, mark?: string }[] }} told `line` is drawn for
 *   comparison; rows with a mark (a word) stand out; the first 20 are drawn, the table has all
 */
export function dots({ title, unit, write, line, rows, columns = [] }) {
  if (!rows.length) return null;
  const shown = rows.slice(0, MOST_ROWS);
  const values = shown.filter((row) => finite(row.value))
    .flatMap(({ value, error }) => [value - (error || 0), value + (error || 0)]).concat(finite(line.at) ? [line.at] : []);
  const [least, most] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
  const margin = (most - least || Math.abs(most) || 1) * 0.06;
  const range = [least - margin, most + margin];
  const height = shown.length * 24 + 62;

  function draw(width) {
    const letters = Math.min(22, Math.max(...shown.map(({ name }) => name.length)), Math.floor(width / 26));
    const [left, right, top, bottom] = [letters * 7.8 + 14, width - 16, 20, height - 38];
    const x = scale(range[0], range[1], left + 6, right);
    const xs = ticks(range[0], range[1], Math.max(2, Math.min(6, width / 110)));
    const short = (name) => (name.length > letters ? `${name.slice(0, letters - 1)}…` : name);
    return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
      xs.found.map((value) => [
        svg("line", { class: "rule", x1: x(value), x2: x(value), y1: top, y2: bottom }),
        svg("text", { x: x(value), y: bottom + 17, "text-anchor": "middle" }, value.toFixed(digits(xs.step))),
      ]),
      svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
      svg("text", { class: "unit", x: (left + right) / 2, y: height - 4, "text-anchor": "middle" }, unit),
      finite(line.at) && [
        svg("line", { class: "reference", x1: x(line.at), x2: x(line.at), y1: top - 4, y2: bottom }),
        svg("text", { x: Math.min(Math.max(x(line.at), left + 40), right - 40), y: top - 8, "text-anchor": "middle" }, line.name),
      ],
      shown.map(({ name, value, error, mark }, i) => {
        const y = top + 14 + 24 * i;
        return svg("g", { class: mark ? "dot marked" : "dot" },
          svg("title", {}, `${name}: ${finite(value) ? write(value) : "not finite"}${mark ? `, ${mark}` : ""}`),
          svg("text", { x: left - 4, y: y + 4, "text-anchor": "end" }, short(name)),
          !finite(value) && svg("text", { x: right, y: y + 4, "text-anchor": "end" }, "not finite"),
          finite(value) && error > 0 && svg("path", { class: "error-bar",
            d: `M${x(value - error)} ${y - 5}v10m0-5H${x(value + error)}m0-5v10` }),
          finite(value) && MARKS[mark ? 2 : 0](x(value), y));
      }));
  }

  const numbers = () => table(title, [
    { head: "Device", cell: ({ name }) => name },
    { head: `${title} (${unit})`, number: true, cell: ({ value }) => (finite(value) ? write(value) : "not finite") },
    ...columns, { head: "Noted", cell: ({ mark }) => mark ?? "–" },
  ], rows);
  const marked = rows.filter(({ mark }) => mark);
  const summary = `${rows.length} devices; ${line.name}: ${finite(line.at) ? write(line.at) : "none"}. ` +
    (marked.length ? `Noted: ${marked.slice(0, 10).map(({ name, mark }) => `${name} (${mark})`).join(", ")}.` : "Nobody is noted.");
  const more = rows.length > MOST_ROWS && h("p", { class: "muted" }, `The first ${MOST_ROWS} of ${rows.length} devices are drawn.`);
  const made = figure({ title, summary, name: title, height, draw, numbers });
  if (more) made.append(more);
  return made;
}
