// Two groups side by side: the numbers are those of `twofold compare --json`.

import { ask, askFile } from "./ask.js";
import { Chart, dots, profile, swatch } from "./chart.js";
import { decimals, download, fill, h, number, steps } from "./dom.js";

const TITLES = { better: "better", worse: "worse", undecided: "not decided", "too few": "too few seeds", unfinished: "unfinished" };
const kept = { a: "", b: "", score: "test" };

export class CompareView {
  constructor() {
    const choose = (id, key) => h("select", { id, onchange: (e) => { kept[key] = e.target.value; this.load(); } });
    this.a = choose("a", "a");
    this.b = choose("b", "b");
    this.score = h("select", { id: "score", onchange: () => { kept.score = this.score.value; this.load(); } },
      [["test", "on test seeds"], ["last", "last policy"], ["area", "whole curve"]].map(([value, text]) => h("option", { value, text, selected: value === kept.score })));
    const field = (id, text, input) => h("div", { class: "field" }, h("label", { for: id, text }), input);
    this.result = h("div", { "aria-live": "polite" });
    this.curves = h("div");
    this.element = h("div", {}, h("form", { class: "controls", onsubmit: (e) => e.preventDefault() },
      field("a", "Baseline", this.a), field("b", "Against", this.b), field("score", "Score", this.score),
      h("div", { class: "field end" }, h("button", { type: "button", text: "report.html", onclick: () => this.report() }))), this.result, this.curves);
  }

  update(data) {
    const groups = (this.groups = data.groups);
    if (!groups.some((g) => g.id === kept.a)) kept.a = groups[0]?.id ?? "";
    const here = groups.find((g) => g.id === kept.a);
    if (!groups.some((g) => g.id === kept.b)) kept.b = groups.find((g) => g !== here && g.world === here?.world && g.steps === here?.steps)?.id ?? "";
    for (const [select, key] of [[this.a, "a"], [this.b, "b"]])
      fill(select, groups.map((g) => h("option", { value: g.id, text: `${g.world}: ${g.name} (${g.seeds})`, selected: g.id === kept[key] })));
    this.load();
  }

  async load() {
    const groups = [...new Set([kept.a, kept.b])].filter(Boolean);
    if (!groups.length) return void fill(this.result, h("p", { class: "quiet", text: "No runs to compare yet." }));
    const asked = (this.asked = (this.asked ?? 0) + 1);
    try {
      const found = await ask("compare", { groups, score: kept.score });
      if (asked === this.asked) this.show(found);
      await this.draw(groups);
    } catch (error) {
      fill(this.result, h("p", { class: "quiet", text: error.message }));
    }
  }

  show(found) {
    const notes = [...found.notes, ...found.problems.map((p) => p.message)];
    fill(this.result, found.tables.length > 1 ? h("p", { class: "quiet", text: "These groups are not compared with each other:" }) : null,
      found.tables.length === 1 && found.tables[0].rows.length < 2 ? h("p", { class: "quiet", text: "Choose two different groups of one world." }) : null,
      notes.length ? h("ul", { class: "notes" }, notes.map((n) => h("li", { text: n }))) : null,
      found.tables.map((table) => tableOf(table, found)));
  }

  // The curves of both, as the table of runs draws them.
  async draw(ids) {
    const groups = ids.map((id) => this.groups.find((g) => g.id === id)).filter(Boolean);
    if (new Set(groups.map((g) => g.world)).size > 1) { this.chart?.forget(); this.chart = null; return; }
    const runs = groups.flatMap((g) => g.runs.filter((r) => !r.copy));
    const [found, means] = await Promise.all([ask("curves", { runs: Object.fromEntries(runs.map((r) => [r.id, 0])) }), ask("means", { groups: ids })]);
    if (!this.chart) this.curves.append((this.chart = new Chart("return on validation seeds")).element);
    this.chart.draw(groups.map((g, index) => ({ name: g.name, index, mean: means.means[g.id] ?? null,
      seeds: g.runs.filter((r) => !r.copy && found.curves[r.id]?.x.length).map((r) => ({ seed: r.seed, ...found.curves[r.id] })) })));
  }

  leave() { this.chart?.forget(); }

  async report() {
    download("report.html", await askFile("report", { groups: [kept.a, kept.b].filter(Boolean) }));
  }
}

function tableOf(table, found) {
  const digits = decimals(...table.rows.flatMap((r) => r.scores));
  const head = ["", "seeds", "mean [95 %, t]", "IQM [95 %]", "worst seed"];
  const range = (e) => (e ? [number(e.value, digits), h("small", { text: e.low === null ? "" : ` [${number(e.low, digits)}, ${number(e.high, digits)}]` })] : h("small", { text: "fewer than 5 seeds" }));
  const rows = table.rows.map((r, i) => h("tr", {}, h("th", { scope: "row" }, swatch(i), r.name), h("td", { text: r.seeds.length }),
    h("td", {}, range(r.mean)), h("td", {}, range(r.iqm)), h("td", {}, number(r.worst[1], digits), h("small", { text: ` seed ${r.worst[0]}` }))));
  const physics = Object.entries(table.physics).map(([k, v]) => `${k} ${v}`).join(", ");
  return h("section", {},
    h("h2", { text: `${table.world}, ${steps(table.steps)} steps` }),
    table.verdicts.map(verdict),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Numbers" }, h("table", {}, h("caption", { text: `${found.metric}: ${found.meaning}; one number a seed` }),
      h("thead", {}, h("tr", {}, head.map((t) => h("th", { scope: "col", text: t })))), h("tbody", {}, rows))),
    h("div", { class: "plots" }, h("figure", { class: "card chart" }, h("figcaption", {}, h("b", { text: "every seed, mean and 95 % interval" })), dots(table.rows)),
      Math.min(...table.rows.map((r) => r.scores.length)) < 5 ? null : h("figure", { class: "card chart" }, h("figcaption", {}, h("b", { text: "share of seeds that score more" })), profile(table.rows))),
    table.differences.length ? differences(table) : null,
    table.notes.length ? h("ul", { class: "notes" }, table.notes.map((n) => h("li", { text: n }))) : null,
    h("details", {}, h("summary", { text: "Commands" }), h("dl", { class: "list" }, table.rows.map((r) => [h("dt", {}, r.name), h("dd", {}, h("code", { text: r.command }))]))),
    physics ? h("p", { class: "quiet", text: `Versions equal: ${physics}` }) : null);
}

function verdict(v) {
  const kind = { better: "better", worse: "worse", "too few": "few", unfinished: "few" }[v.decision] ?? "undecided";
  return h("div", { class: `verdict ${kind}` }, h("b", { text: TITLES[v.decision] }), h("span", { text: v.words }),
    h("small", { class: "quiet", text: `P is the chance that a run of ${v.name} beats a run of ${v.baseline}` }));
}

function differences(table) {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "What differs" }, h("table", { class: "texts" },
    h("caption", { text: "What differs, and the layer that set it; everything else is equal" }),
    h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "setting" }), table.rows.map((r) => h("th", { scope: "col", text: r.name })))),
    h("tbody", {}, table.differences.map((d) => h("tr", {}, h("th", { scope: "row" }, h("code", { text: d.setting })),
      d.values.map(([, value, layer]) => h("td", {}, value, h("small", { text: ` ${layer}` }))))))));
}
