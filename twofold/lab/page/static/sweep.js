// Sweeps: the history of a search, a slice for every setting and its importance, and what fresh seeds say of the best.

import { ask } from "./ask.js";
import { niceMarks } from "./chart.js";
import { decimals, fill, h, interval, number, svg } from "./dom.js";

const WIDTH = 460, HEIGHT = 240, LEFT = 58, RIGHT = 14, TOP = 12, BOTTOM = 34;
const PHASES = { search: "searching", confirm: "confirming the best on fresh seeds", final: "running the winner and the default settings", done: "with a verdict" };

export class SweepsView {
  constructor() {
    this.body = h("tbody");
    this.empty = h("p", { class: "quiet" });
    const head = ["sweep", "world", "trials", "phase", "winner, confirmed"];
    this.element = h("div", {}, h("h1", { text: "Sweeps" }), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Sweeps" },
      h("table", { class: "texts" }, h("thead", {}, h("tr", {}, head.map((t) => h("th", { scope: "col", text: t })))), this.body)), this.empty);
  }

  async update() {
    const { sweeps } = await ask("sweeps");
    this.empty.textContent = sweeps.length ? "" : "No sweeps here yet. `twofold sweep` makes one; open the page in a folder above it.";
    fill(this.body, sweeps.map((s) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: `#/sweep/${s.id}`, text: s.name })),
      s.problem ? h("td", { colspan: 4, text: s.problem }) : [h("td", { text: s.world }), h("td", { text: `${s.done} of ${s.wanted}` }), h("td", { text: s.phase }),
        h("td", {}, s.winner ? interval(s.winner.confirmed) : "–")])));
  }

  tick() { this.update(); }
}

export class SweepView {
  constructor([id]) {
    this.id = id;
    this.element = h("div", {}, h("p", { class: "quiet", text: "Reading the sweep." }));
  }

  async update() {
    try {
      const data = await ask("sweep", { sweep: this.id });
      const said = JSON.stringify(data);
      if (said !== this.said) { this.said = said; this.show(data); }
    } catch (error) {
      fill(this.element, h("p", { class: "quiet", text: error.message }));
    }
  }

  tick() { this.update(); }

  show(data) {
    const done = data.trials.filter((t) => t.score !== null);
    fill(this.element, h("div", { class: "runhead" }, h("p", {}, h("a", { href: "#/sweeps", text: "All sweeps" })), h("h1", { text: data.name }),
      h("p", {}, h("span", { class: `state ${data.phase === "done" ? "" : "running"}`, text: data.phase }), ` ${PHASES[data.phase] ?? data.phase} `,
        h("span", { class: "quiet", text: counts(data) }))),
      winner(data),
      done.length ? h("div", { class: "plots" }, card("search: every trial, and the best so far", history(done)),
        Object.keys(data.importance).length ? card("importance of each setting", bars(data.importance)) : note("importance of each setting", "from ten trials on"),
        data.axes.map((axis) => card(axis.name, slice(axis, done)))) : h("p", { class: "quiet", text: "No trial has ended yet." }),
      data.candidates.length ? candidates(data) : null, trials(data));
  }
}

const counts = (data) => [`${data.done} of ${data.wanted} trials in ${data.world}`, data.running ? `${data.running} running` : "", data.failed ? `${data.failed} failed` : ""].filter(Boolean).join(", ");
const settings = (values) => Object.entries(values).map(([k, v]) => `${k}=${shown(v)}`).join("  ");
const shown = (value) => {
  if (typeof value !== "number") return value;
  return value !== 0 && Math.abs(value) < 1e-3 ? Number(value.toPrecision(4)).toExponential() : String(Number(value.toPrecision(4)));
};
const card = (title, picture) => h("figure", { class: "card chart" }, h("figcaption", {}, h("b", { text: title })), picture);
const note = (title, text) => card(title, h("p", { class: "quiet", text }));

// The score of the search is the luck of the best of many: it is never called a result.
function winner(data) {
  if (!data.winner) return h("div", { class: "verdict few" }, h("b", { text: "no winner yet" }), h("span", { text: "a search score is the luck of the best of many; fresh seeds decide" }));
  return [h("div", { class: "verdict" }, h("b", { text: `winner: trial ${data.winner.trial}` }),
    h("span", {}, interval(data.winner.confirmed), ` on ${data.winner.seeds} fresh seeds; the search said ${number(data.winner.searched)}`),
    h("small", {}, h("code", { text: settings(data.winner.values) }))),
  data.verdicts.map((v) => h("div", { class: "verdict" }, h("b", { text: "verdict" }), h("span", { text: v })))];
}

// ---- pictures ----

function frame(scores, marks, title) {
  const low = Math.min(...scores), high = Math.max(...scores), margin = (high - low || 1) * 0.07;
  const y = (v) => TOP + (1 - (v - low + margin) / (high - low + 2 * margin)) * (HEIGHT - TOP - BOTTOM);
  const levels = niceMarks(low - margin, high + margin), digits = levels.some((m) => m % 1) ? 2 : 0;
  const made = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title, class: "dots" },
    levels.map((m) => [svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(m), y2: y(m), stroke: "var(--grid)" }),
      svg("text", { x: LEFT - 8, y: y(m) + 4, "text-anchor": "end", class: "mark", text: number(m, digits) })]),
    marks.map(([x, text]) => svg("text", { x, y: HEIGHT - 12, "text-anchor": "middle", class: "mark", text })));
  return { made, y };
}

const dot = (x, y, trial, tint = "var(--c0)") => svg("circle", { cx: x, cy: y, r: 4.5, fill: tint, "fill-opacity": 0.6 }, svg("title", { text: `trial ${trial.number}: ${number(trial.score)}` }));

function history(done) {
  const last = Math.max(...done.map((t) => t.number), 1), x = (n) => LEFT + 10 + (n / last) * (WIDTH - LEFT - RIGHT - 20);
  const marks = niceMarks(0, last).filter((m) => m % 1 === 0).map((m) => [x(m), String(m)]);
  const best = done.reduce((a, t) => (t.score > a.score ? t : a));
  const { made, y } = frame(done.map((t) => t.score), marks, `${done.length} trials, the best search score ${number(best.score)} in trial ${best.number}`);
  let top = -Infinity;
  const path = [...done].sort((a, b) => a.number - b.number).map((t, i) => { top = Math.max(top, t.score); return `${i ? `H${x(t.number)}V` : `M${x(t.number)},`}${y(top)}`; }).join("");
  made.append(svg("path", { d: path, fill: "none", stroke: "var(--c1)", "stroke-width": 2 }), ...done.map((t) => dot(x(t.number), y(t.score), t)));
  return made;
}

// Scores against one setting; the others vary unseen.
function slice(axis, done) {
  const inside = WIDTH - LEFT - RIGHT - 24;
  let x, marks;
  if (axis.choices.length) {
    const place = (i) => LEFT + 12 + ((i + 0.5) / axis.choices.length) * inside;
    x = (v) => place(axis.choices.findIndex((c) => c === v || Number(c) === v));
    marks = axis.choices.map((c, i) => [place(i), c.length > 18 ? `${c.slice(0, 17)}…` : c]);
  } else {
    const scale = axis.log ? Math.log10 : (v) => v, [low, high] = [scale(axis.low), scale(axis.high)];
    x = (v) => LEFT + 12 + ((scale(v) - low) / (high - low)) * inside;
    const powers = axis.log ? Array.from({ length: Math.floor(high) - Math.ceil(low) + 1 }, (_, i) => 10 ** (Math.ceil(low) + i)) : niceMarks(axis.low, axis.high);
    marks = (powers.length > 1 ? powers : [axis.low, axis.high]).map((m) => [x(m), axis.log ? m.toExponential(0) : shown(m)]);
  }
  const known = done.filter((t) => axis.name in t.values && x(t.values[axis.name]) >= LEFT);
  if (!known.length) return h("p", { class: "quiet", text: "no trial has a value of it" });
  const { made, y } = frame(known.map((t) => t.score), marks, `${axis.name} of ${known.length} trials against their scores`);
  made.append(...known.map((t) => dot(x(t.values[axis.name]), y(t.score), t)));
  return made;
}

function bars(importance) {
  const rows = Object.entries(importance).sort((a, b) => b[1] - a[1]);
  return h("dl", { class: "bars" }, rows.map(([name, share]) => [h("dt", {}, h("code", { text: name })), h("dd", {},
    h("meter", { min: 0, max: 1, value: share, "aria-label": `importance of ${name}` }), ` ${Math.round(100 * share)} %`)]));
}

// ---- tables ----

function candidates(data) {
  const head = ["trial", "fresh seeds", "confirmed [95 %, t]", "search said", "settings"];
  return grid("Candidates on fresh seeds", head, [...data.candidates].sort((a, b) => (b.confirmed?.[0] ?? -Infinity) - (a.confirmed?.[0] ?? -Infinity)).map((c) => [c.trial, c.seeds || "–",
    c.confirmed ? interval(c.confirmed) : "not yet", number(c.searched), h("code", { text: settings(c.values) })]));
}

function trials(data) {
  const rows = [...data.trials].sort((a, b) => (b.score ?? -Infinity) - (a.score ?? -Infinity) || a.number - b.number);
  const digits = decimals(...rows.map((t) => t.score ?? 0));
  return grid(`Trials by search score${data.score ? ` (${data.score})` : ""}`, ["trial", "score", "state", ...data.axes.map((a) => a.name)], rows.map((t) => [
    t.run ? h("a", { href: `#/run/${t.run}`, text: `trial ${t.number}` }) : `trial ${t.number}`, number(t.score, digits), h("span", { class: `state ${t.state === "done" ? "" : t.state}`, text: t.state }),
    ...data.axes.map((a) => shown(t.values[a.name] ?? "–"))]));
}

function grid(title, head, rows) {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, h("table", { class: "texts" }, h("caption", { text: title }),
    h("thead", {}, h("tr", {}, head.map((t) => h("th", { scope: "col", text: t })))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, i) => h(i ? "td" : "th", i ? {} : { scope: "row" }, cell)))))));
}
