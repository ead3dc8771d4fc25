// The table of groups, and the curves of those that are ticked.

import { ask, askFile } from "./ask.js";
import { Chart, swatch } from "./chart.js";
import { ago, decimals, download, fill, h, interval, number, steps } from "./dom.js";

const SHOWN_FIRST = 6;
// What was chosen stays chosen while the page is open.
const kept = { world: "", filter: "", metrics: ["return"], hours: false, smoothing: 0, ticked: null, open: new Set() };

export class RunsView {
  constructor() {
    this.charts = new Map();
    this.curves = new Map(); // metric -> run id -> {x, y}
    this.rows = new Map();
    this.plots = h("div", { class: "plots" });
    this.body = h("tbody");
    this.empty = h("p", { class: "quiet" });
    this.problems = h("ul", { class: "notes" });
    this.element = h("div", {}, this.controls(), this.plots, this.table(), this.empty, this.problems);
  }

  controls() {
    this.world = h("select", { id: "world", onchange: () => { kept.world = this.world.value; kept.ticked = null; this.refresh(); } });
    this.filter = h("input", { id: "filter", type: "search", value: kept.filter, placeholder: "hopper gamma>0.98", spellcheck: "false",
      oninput: () => { kept.filter = this.filter.value; this.refresh(); } });
    this.metric = h("select", { id: "metric", onchange: () => { if (this.metric.value) this.toggle(this.metric.value); this.metric.value = ""; } });
    const axis = h("select", { id: "axis", onchange: () => { kept.hours = axis.value === "hours"; this.curves.clear(); this.refresh(); } },
      h("option", { value: "steps", text: "steps" }), h("option", { value: "hours", text: "hours at work", selected: kept.hours }));
    const smoothing = h("input", { id: "smoothing", type: "range", min: 0, max: 0.95, step: 0.05, value: kept.smoothing,
      oninput: () => { kept.smoothing = Number(smoothing.value); this.draw(); } });
    const field = (id, text, input) => h("div", { class: "field" }, h("label", { for: id, text }), input);
    return h("form", { class: "controls", onsubmit: (e) => e.preventDefault() },
      field("world", "World", this.world), field("filter", "Filter", this.filter), field("metric", "Add a curve", this.metric),
      field("axis", "Against", axis), field("smoothing", "Smoothing, shown only", smoothing),
      h("div", { class: "field end" }, h("button", { type: "button", onclick: () => this.svg(), text: "SVG" }),
        h("button", { type: "button", onclick: () => this.csv(), text: "CSV" })));
  }

  table() {
    const head = ["", "variant", "seeds", "state", "steps", "test [95 %, t]", "IQM [95 %]", "worst", "last written"];
    return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Groups of runs" },
      h("table", { class: "groups" }, h("caption", { text: "Grouped by every setting but the seed; tick to draw, open to see the seeds" }),
        h("thead", {}, h("tr", {}, head.map((t) => h("th", { scope: "col", text: t })))), this.body));
  }

  update(data) {
    this.data = data;
    const worlds = [...new Set(data.groups.map((g) => g.world))];
    if (!worlds.includes(kept.world)) {
      const newest = [...data.groups].sort((a, b) => Math.max(...b.runs.map((r) => r.changed)) - Math.max(...a.runs.map((r) => r.changed)))[0];
      kept.world = newest?.world ?? "";
    }
    fill(this.world, worlds.map((w) => h("option", { value: w, text: w, selected: w === kept.world })));
    fill(this.metric, h("option", { value: "", text: "choose" }), data.metrics.filter((m) => !kept.metrics.includes(m)).map((m) => h("option", { value: m, text: m })));
    this.empty.textContent = data.groups.length ? "" : data.waiting ? "Reading the runs." : "No runs here yet. `twofold train` makes one; it appears by itself.";
    fill(this.problems, data.problems.map((p) => h("li", { text: `left out: ${p}` })));
    this.refresh();
  }

  refresh() {
    if (!this.data) return;
    this.groups = this.data.groups.filter((g) => g.world === kept.world && matches(g, kept.filter));
    if (kept.ticked === null && this.groups.length) kept.ticked = new Set(this.groups.slice(0, SHOWN_FIRST).map((g) => g.id));
    this.list();
    this.fetch();
  }

  tick() {
    for (const [id, row] of this.rows) {
      const group = this.groups?.find((g) => g.id === id);
      if (group) row.age.textContent = ago(Date.now() / 1000 - Math.max(...group.runs.map((r) => r.changed)));
    }
  }

  chosen() { return (this.groups ?? []).filter((g) => kept.ticked?.has(g.id)); }

  // ---- the table ----

  list() {
    const digits = decimals(...this.groups.flatMap((g) => g.mean ?? []));
    const rows = [];
    for (const group of this.groups) {
      const row = this.rows.get(group.id) ?? this.newRow(group);
      this.rows.set(group.id, row);
      this.fillRow(row, group, digits);
      rows.push(row.element);
      if (kept.open.has(group.id)) rows.push(...group.runs.map((run) => seedRow(run)));
    }
    const now = [...this.body.children];
    if (rows.length !== now.length || rows.some((row, i) => row !== now[i])) fill(this.body, rows);
  }

  newRow(group) {
    const tick = h("input", { type: "checkbox", "aria-label": `draw ${group.name}`, onchange: () => {
      tick.checked ? kept.ticked.add(group.id) : kept.ticked.delete(group.id);
      this.list(); this.fetch();
    } });
    const open = h("button", { class: "open", type: "button", onclick: () => {
      kept.open.has(group.id) ? kept.open.delete(group.id) : kept.open.add(group.id);
      this.list();
    } });
    const cells = Array.from({ length: 6 }, () => h("td"));
    const age = h("td", { class: "quiet" });
    const name = h("th", { scope: "row" }, open);
    return { element: h("tr", {}, h("td", {}, tick), name, ...cells, age), tick, open, cells, age };
  }

  fillRow(row, group, digits) {
    const index = this.chosen().indexOf(group);
    row.tick.checked = index >= 0;
    const opened = kept.open.has(group.id);
    row.open.setAttribute("aria-expanded", String(opened));
    fill(row.open, h("span", { class: "turn", "aria-hidden": "true", text: opened ? "▾" : "▸" }), index >= 0 ? swatch(index) : h("span", { class: "swatch none" }), group.name);
    const count = {};
    for (const run of group.runs) if (!run.copy) count[run.state] = (count[run.state] ?? 0) + 1;
    const reached = Math.max(...group.runs.map((r) => r.step));
    const few = group.seeds < 5 ? h("small", { text: " too few" }) : null;
    fill(row.cells[0], String(group.seeds), few);
    fill(row.cells[1], Object.entries(count).map(([state, n]) => h("span", { class: `state ${state}`, text: `${n} ${state}` })));
    fill(row.cells[2], reached < group.steps ? `${steps(reached)} / ${steps(group.steps)}` : steps(group.steps));
    fill(row.cells[3], interval(group.mean, digits));
    fill(row.cells[4], interval(group.iqm, digits));
    fill(row.cells[5], number(group.worst, digits));
    row.age.textContent = ago(Date.now() / 1000 - Math.max(...group.runs.map((r) => r.changed)));
  }

  // ---- the curves ----

  toggle(metric) {
    kept.metrics = kept.metrics.includes(metric) ? kept.metrics.filter((m) => m !== metric) : [...kept.metrics, metric];
    this.update(this.data);
  }

  async fetch() {
    const asked = (this.asked = (this.asked ?? 0) + 1);
    const groups = this.chosen();
    const runs = groups.flatMap((g) => g.runs.filter((r) => !r.copy));
    await Promise.all(kept.metrics.map((metric) => this.fetchMetric(metric, groups, runs)));
    if (asked === this.asked) this.draw();
  }

  async fetchMetric(metric, groups, runs) {
    const known = this.curves.get(metric) ?? new Map();
    this.curves.set(metric, known);
    if (!runs.length) return;
    const have = Object.fromEntries(runs.map((r) => [r.id, known.get(r.id)?.x.length ?? 0]));
    const x = kept.hours ? "hours" : "steps";
    const [found, means] = await Promise.all([ask("curves", { metric, runs: have, x }),
      kept.hours || metric.startsWith("learning: ") ? { means: {} } : ask("means", { metric, groups: groups.map((g) => g.id) })]);
    for (const [id, piece] of Object.entries(found.curves)) {
      const old = known.get(id) ?? { x: [], y: [] };
      known.set(id, { x: [...old.x.slice(0, piece.from), ...piece.x], y: [...old.y.slice(0, piece.from), ...piece.y] });
    }
    known.means = means.means;
  }

  draw() {
    for (const [metric, chart] of this.charts) if (!kept.metrics.includes(metric)) { chart.forget(); this.charts.delete(metric); }
    for (const metric of kept.metrics) {
      if (!this.charts.has(metric)) this.charts.set(metric, this.newChart(metric));
      const known = this.curves.get(metric) ?? new Map();
      const groups = this.chosen().map((g, index) => ({ name: g.name, index,
        seeds: g.runs.filter((r) => !r.copy && known.get(r.id)?.x.length).map((r) => ({ seed: r.seed, ...known.get(r.id) })), mean: known.means?.[g.id] ?? null }));
      this.charts.get(metric).draw(groups, { smoothing: kept.smoothing, hours: kept.hours });
    }
  }

  newChart(metric) {
    const chart = new Chart(`${metric}, ${kept.world}`);
    if (kept.metrics.length > 1 || metric !== "return")
      chart.element.querySelector("figcaption").append(h("button", { class: "close", type: "button", "aria-label": `remove ${metric}`, text: "×", onclick: () => this.toggle(metric) }));
    this.plots.append(chart.element);
    return chart;
  }

  // ---- taking away ----

  async svg() {
    download("curves.svg", await askFile("figure", { groups: this.chosen().map((g) => g.id), metric: kept.metrics[0] }));
  }

  csv() {
    const lines = [["metric", "world", "group", "seed", "x", "value"]];
    for (const metric of kept.metrics)
      for (const group of this.chosen())
        for (const run of group.runs) {
          const curve = this.curves.get(metric)?.get(run.id);
          curve?.x.forEach((x, i) => lines.push([metric, group.world, group.name, run.seed, x, curve.y[i]]));
        }
    download("curves.csv", lines.map((l) => l.map(cell).join(",")).join("\n") + "\n", "text/csv");
  }

  leave() { for (const chart of this.charts.values()) chart.forget(); }
}

const cell = (value) => {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

function seedRow(run) {
  const share = run.steps ? Math.min(1, run.step / run.steps) : 0;
  return h("tr", { class: "seed" }, h("td"), h("th", { scope: "row" }, h("a", { href: `#/run/${run.id}`, text: `seed ${run.seed}` }), run.copy ? h("small", { text: " again: counts once" }) : null),
    h("td"), h("td", {}, h("span", { class: `state ${run.state}`, text: run.state }), run.reason ? h("small", { text: ` ${run.reason}` }) : null),
    h("td", {}, h("progress", { max: 1, value: share, "aria-label": `${Math.round(share * 100)} %` }), ` ${steps(run.step)}`),
    h("td", { text: number(run.test) }), h("td", {}, h("small", { text: `best ${number(run.best)}` })), h("td"),
    h("td", { class: "quiet", text: ago(Date.now() / 1000 - run.changed) }));
}

// Words must occur in the name or a folder; `key>value` compares a setting that differs.
export function matches(group, filter) {
  const text = `${group.world} ${group.name} ${group.runs.map((r) => r.folder).join(" ")}`.toLowerCase();
  return filter.trim().split(/\s+/).filter(Boolean).every((word) => {
    const found = /^([\w.]+)(<=|>=|<|>|=)(.+)$/.exec(word);
    if (!found) return text.includes(word.toLowerCase());
    const [, key, sign, wanted] = found;
    const name = Object.keys(group.settings).find((k) => k === key || k.endsWith(`.${key}`));
    if (name === undefined) return text.includes(word.toLowerCase());
    const value = group.settings[name];
    if (sign === "=") return String(value) === wanted || (wanted !== "" && Number(value) === Number(wanted));
    return { "<": value < Number(wanted), ">": value > Number(wanted), "<=": value <= Number(wanted), ">=": value >= Number(wanted) }[sign];
  });
}
