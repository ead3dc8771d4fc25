// Curves with uPlot: every seed thin, the mean of a group bold with its band, one cursor over all charts.

import { fill, h, number, steps, svg } from "./dom.js";

export const COLOURS = 8;
const sync = globalThis.uPlot.sync("steps");

export function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
export const colour = (index) => token(`--c${index % COLOURS}`);
const dash = (index) => [[], [8, 4], [2, 3], [10, 3, 2, 3]][Math.floor(index / COLOURS) % 4];

function faint(hex, share) {
  const n = parseInt(hex.slice(1), 16);
  return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${share})`;
}

// Exponential smoothing, for the eye only.
export function smooth(values, amount) {
  if (!amount) return values;
  let last = null;
  return values.map((v) => (v === null ? null : (last = last === null ? v : amount * last + (1 - amount) * v)));
}

// groups: [{name, index, seeds: [{x, y, seed}], mean: {x, y, low?, high?} | null}] -> the columns that uPlot wants.
function columns(groups, smoothing, hours) {
  const all = new Set();
  const lines = groups.flatMap((g) => [...g.seeds, ...(g.mean ? [g.mean] : [])]);
  if (hours) {
    const end = Math.max(0, ...lines.map((l) => l.x.at(-1) ?? 0));
    for (let i = 0; i <= 300; i++) all.add((end * i) / 300);
  } else for (const line of lines) for (const x of line.x) all.add(x);
  const xs = [...all].sort((a, b) => a - b);
  const place = new Map(xs.map((x, i) => [x, i]));
  const spread = (x, y) => {
    const column = new Array(xs.length).fill(null);
    if (hours) interpolate(xs, x, y, column);
    else for (let i = 0; i < x.length; i++) column[place.get(x[i])] = y[i];
    return column;
  };
  const data = [xs], series = [{}], bands = [];
  for (const group of groups) addGroup(group, data, series, bands, spread, smoothing);
  return { data, series, bands };
}

function addGroup(group, data, series, bands, spread, smoothing) {
  const tint = colour(group.index);
  const line = (label, values, more) => {
    data.push(smooth(values, smoothing));
    series.push({ label, spanGaps: true, points: { show: false }, stroke: tint, ...more });
  };
  for (const seed of group.seeds)
    line(`${group.name} seed ${seed.seed}`, spread(seed.x, seed.y), { width: 1, stroke: faint(tint, 0.32), dash: dash(group.index) });
  if (!group.mean) return;
  if (group.mean.low && !smoothing) {
    const from = data.length;
    line("", spread(group.mean.x, group.mean.high), { width: 0, stroke: "transparent" });
    line("", spread(group.mean.x, group.mean.low), { width: 0, stroke: "transparent" });
    bands.push({ series: [from, from + 1], fill: faint(tint, 0.15) });
  }
  line(group.name, spread(group.mean.x, group.mean.y), { width: 2.5, dash: dash(group.index) });
}

function interpolate(xs, x, y, column) {
  let i = 0;
  for (let k = 0; k < xs.length; k++) {
    while (i < x.length - 1 && x[i + 1] <= xs[k]) i++;
    if (!x.length || xs[k] < x[0] || xs[k] > x.at(-1)) continue;
    const share = i + 1 < x.length && x[i + 1] > x[i] ? (xs[k] - x[i]) / (x[i + 1] - x[i]) : 0;
    column[k] = y[i] + (i + 1 < x.length ? share * (y[i + 1] - y[i]) : 0);
  }
}

export class Chart {
  constructor(title) {
    this.box = h("div", { class: "plot" });
    this.said = h("p", { class: "under quiet" });
    this.names = h("p", { class: "names" });
    this.element = h("figure", { class: "card chart" }, h("figcaption", {}, h("b", { text: title })), this.names, this.box, this.said);
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(this.box);
    this.drawn = null;
  }

  draw(groups, { smoothing = 0, hours = false } = {}) {
    this.groups = groups;
    const { data, series, bands } = columns(groups, smoothing, hours);
    // The same lines with more points keep zoom and cursor; other lines are another chart.
    const shape = JSON.stringify([series.map((s) => [s.label, s.stroke, s.width]), bands.length, hours]);
    if (this.plot && this.shape === shape) this.plot.setData(data, !this.zoomed);
    else this.make(data, series, bands, hours, shape);
    fill(this.names, groups.length > 1 ? groups.slice(0, 12).map((g) => h("span", {}, swatch(g.index), g.mean ? `${g.name}, ${g.mean.seeds} seed${g.mean.seeds > 1 ? "s" : ""}` : g.name)) : []);
    const few = groups.filter((g) => g.mean && !g.mean.low).length;
    this.said.textContent = [
      smoothing ? "smoothed for the eye: every number counts the raw values" : "",
      few && !smoothing ? "no band below three seeds" : "",
    ].filter(Boolean).join("; ");
    const means = groups.map((g) => (g.mean ? `${g.name}: ${number(g.mean.y.at(-1))} at ${steps(g.mean.x.at(-1))} steps` : g.name));
    this.box.setAttribute("role", "img");
    this.box.setAttribute("aria-label", `${this.element.querySelector("b").textContent}. ${means.join("; ")}`);
  }

  make(data, series, bands, hours, shape) {
    this.plot?.destroy();
    this.shape = shape;
    this.zoomed = false;
    const axis = { stroke: token("--muted"), grid: { stroke: token("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const options = {
      width: Math.max(200, this.box.clientWidth), height: this.height(),
      scales: { x: { time: false } }, legend: { show: false },
      cursor: { sync: { key: sync.key, setSeries: false }, points: { show: false }, drag: { x: true, y: false } },
      series, bands,
      axes: [
        { ...axis, size: 34, values: (_, marks) => marks.map((m) => (hours ? `${Number(m.toFixed(3))} h` : steps(m))) },
        { ...axis, size: 62, values: (_, marks) => marks.map((m) => number(m, marks.some((v) => v % 1) ? 2 : 0)) },
      ],
      hooks: {
        setCursor: [(plot) => this.point(plot, hours)],
        setScale: [(plot, key) => { if (key === "x") this.zoomed = plot.scales.x.min > plot.data[0][0] || plot.scales.x.max < plot.data[0].at(-1); }],
      },
    };
    this.plot = new globalThis.uPlot(options, data, this.box);
  }

  // What lies under the cursor: the means of the groups there.
  point(plot, hours) {
    const at = plot.cursor.idx;
    if (at === null || at === undefined) { this.tip?.remove(); this.tip = null; return; }
    this.tip ??= this.box.appendChild(h("div", { class: "tip" }));
    const x = plot.data[0][at];
    const lines = this.groups.map((g) => {
      const i = g.mean?.x.indexOf(x) ?? -1;
      if (i < 0) return null;
      const ends = g.mean.low ? ` [${number(g.mean.low[i])}, ${number(g.mean.high[i])}]` : "";
      return h("div", {}, swatch(g.index), `${g.name} `, h("b", { text: number(g.mean.y[i]) }), h("small", { text: ends }));
    });
    this.tip.replaceChildren(h("div", { class: "quiet", text: hours ? `${number(x, 2)} h` : `${x.toLocaleString("en")} steps` }), ...lines.filter(Boolean));
    const left = plot.cursor.left + plot.bbox.left / devicePixelRatio;
    const turn = left > this.box.clientWidth / 2;
    this.tip.style.left = turn ? "auto" : `${left + 14}px`;
    this.tip.style.right = turn ? `${this.box.clientWidth - left + 14}px` : "auto";
  }

  height() { return innerWidth < 640 ? 240 : 320; }
  resize() { if (this.plot && this.box.clientWidth) this.plot.setSize({ width: this.box.clientWidth, height: this.height() }); }
  forget() { this.watch.disconnect(); this.plot?.destroy(); this.element.remove(); }
}

export const swatch = (index) => h("span", { class: "swatch", "aria-hidden": "true", style: { background: `var(--c${index % COLOURS})` } });

// ---- small pictures of scores: rows [{name, scores, mean: {value, low, high}}] ----

export function niceMarks(low, high) {
  const rough = (high - low || 1) / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const marks = [];
  for (let m = Math.ceil(low / step) * step; m <= high; m += step) marks.push(Number(m.toPrecision(12)));
  return marks;
}

function frame(values, height) {
  const width = 560, low = Math.min(...values), high = Math.max(...values), margin = (high - low || 1) * 0.06;
  const x = (v) => 44 + ((v - low + margin) / (high - low + 2 * margin)) * (width - 60);
  const marks = niceMarks(low - margin, high + margin);
  const digits = marks.some((m) => m % 1) ? 2 : 0;
  const grid = marks.map((m) => [svg("line", { x1: x(m), x2: x(m), y1: 6, y2: height - 26, stroke: "var(--grid)" }),
    svg("text", { x: x(m), y: height - 8, "text-anchor": "middle", class: "mark", text: number(m, digits) })]);
  return { width, x, grid, low: low - margin, high: high + margin };
}

const spoken = (rows) => rows.map((r) => `${r.name}: mean ${number(r.mean.value)} of ${r.scores.length} seeds`).join("; ");

// Every seed a dot, the mean with its interval above.
export function dots(rows) {
  const height = rows.length * 46 + 34;
  const { width, x, grid } = frame(rows.flatMap((r) => [...r.scores, r.mean.low, r.mean.high]).filter((v) => v !== null), height);
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spoken(rows), class: "dots" }, grid, rows.map((row, i) => {
    const tint = `var(--c${i % COLOURS})`, top = 10 + i * 46;
    return [
      row.mean.low === null ? null : svg("line", { x1: x(row.mean.low), x2: x(row.mean.high), y1: top + 8, y2: top + 8, stroke: tint, "stroke-width": 2.5, "stroke-linecap": "round" }),
      svg("circle", { cx: x(row.mean.value), cy: top + 8, r: 5, fill: tint }),
      row.scores.map((s) => svg("circle", { cx: x(s), cy: top + 25, r: 4.5, fill: tint, "fill-opacity": 0.5 })),
    ];
  }));
}

// The share of seeds above each score.
export function profile(rows) {
  const height = 230, y = (share) => 12 + (1 - share) * (height - 46);
  const { width, x, grid, low, high } = frame(rows.flatMap((r) => r.scores), height);
  const levels = [0, 0.5, 1].map((v) => [svg("line", { x1: 44, x2: width - 16, y1: y(v), y2: y(v), stroke: "var(--grid)" }),
    svg("text", { x: 36, y: y(v) + 4, "text-anchor": "end", class: "mark", text: String(v) })]);
  const path = (scores) => {
    const sorted = [...scores].sort((a, b) => a - b);
    const steps_ = sorted.map((s, i) => `H${x(s)}V${y(1 - (i + 1) / sorted.length)}`);
    return `M${x(low)},${y(1)}${steps_.join("")}H${x(high)}`;
  };
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `share of seeds above each score. ${spoken(rows)}`, class: "dots" }, grid, levels,
    rows.map((row, i) => svg("path", { d: path(row.scores), fill: "none", stroke: `var(--c${i % COLOURS})`, "stroke-width": 2.2, "stroke-linejoin": "round" })));
}
