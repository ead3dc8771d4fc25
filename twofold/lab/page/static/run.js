// One run in all its parts.

import { ask, askFile } from "./ask.js";
import { Chart } from "./chart.js";
import { ago, fill, h, number, steps } from "./dom.js";
import { panel } from "./panels.js";

export class RunView {
  constructor([id]) {
    this.id = id;
    this.head = h("div", { class: "runhead" });
    this.parts = h("div");
    this.charts = h("div", { class: "plots" });
    this.extra = h("div");
    this.element = h("div", {}, this.head, this.charts, this.extra, this.parts);
    this.chart = new Chart("return on validation seeds");
    this.charts.append(this.chart.element);
    this.said = "";
  }

  async update() {
    try {
      const run = await ask("one", { run: this.id });
      this.top(run);
      await this.curve(run);
      if (JSON.stringify(run.films.concat(run.panels)) !== this.shown) await this.media(run);
      this.rest(run);
    } catch (error) {
      fill(this.head, h("p", { class: "quiet", text: error.message }));
    }
  }

  top(run) {
    const act = (name, text) => h("button", { type: "button", text, onclick: () => this.act(name) });
    this.note ??= h("p", { class: "quiet", role: "status" });
    fill(this.head,
      h("h1", {}, run.folder.split("/").slice(-3).join(" / ")),
      h("p", {}, h("span", { class: `state ${run.state}`, text: run.state }), ` ${run.reason} `, h("span", { class: "quiet", text: `${steps(run.step)} of ${steps(run.steps)} steps, written ${ago(Date.now() / 1000 - run.changed)}` })),
      h("p", { class: "actions" }, run.state === "running" ? act("stop", "Stop and save") : null, ["stopped", "failed"].includes(run.state) ? act("resume", "Resume") : null),
      this.note,
      run.state === "finished" ? null : h("p", { class: "quiet" }, "or: ", h("code", { text: run.resume.join(" ") })));
  }

  async act(name) {
    try {
      const { process } = await ask(name, { run: this.id });
      this.note.textContent = name === "stop" ? `process ${process} was asked to save and stop` : `process ${process} resumes it`;
    } catch (error) {
      this.note.textContent = error.message;
    }
  }

  async curve(run) {
    // The metric that the world is about, such as battles won; the return where it names none.
    const wanted = run.settings.find((s) => s.name === "trainer.headline")?.value;
    const metric = wanted in run.metrics ? wanted : "return";
    this.chart.element.querySelector("b").textContent = `${metric} on validation seeds`;
    const { curves } = await ask("curves", { metric, runs: { [run.id]: 0 } });
    const { x, y } = curves[run.id];
    this.chart.draw([{ name: `seed ${run.seed}`, index: 0, seeds: [], mean: x.length ? { x, y, low: null, seeds: 1 } : null }]);
    this.chart.said.textContent = "";
  }

  async media(run) {
    this.shown = JSON.stringify(run.films.concat(run.panels));
    const pieces = [];
    for (const name of run.films) {
      const source = URL.createObjectURL(await askFile("film", { run: run.id, name }));
      const film = /\.(mp4|webm)$/i.test(name) ? h("video", { controls: true, loop: true, src: source }) : h("img", { alt: name, src: source });
      if (film.tagName === "VIDEO") film.muted = true;
      pieces.push(h("figure", { class: "card film" }, film, h("figcaption", { text: name })));
    }
    for (const name of run.panels) {
      try {
        pieces.push(panel(await ask("panel", { run: run.id, name })));
      } catch (error) {
        pieces.push(h("p", { class: "quiet", text: `${name}: ${error.message}` }));
      }
    }
    fill(this.extra, h("div", { class: "media" }, pieces));
  }

  rest(run) {
    const now = JSON.stringify([run.step, run.state, run.log, run.checkpoints, run.tests]);
    if (now === this.said) return;
    this.said = now;
    const open = new Set([...this.parts.querySelectorAll("details[open] > summary")].map((s) => s.textContent));
    fill(this.parts, tests(run), this.settings(run), this.evaluations(), facts("Where it comes from", provenance(run)),
      run.starts.length ? facts("Every start", run.starts.map((s, i) => [`start ${i + 1}`, JSON.stringify(s)])) : null,
      facts("Checkpoints", run.checkpoints.map((c) => [c, ""])), run.log ? h("details", {}, h("summary", { text: "Log" }), h("pre", { tabindex: 0, text: run.log })) : null);
    for (const part of this.parts.querySelectorAll("details > summary")) if (open.has(part.textContent)) part.parentElement.open = true;
  }

  settings(run) {
    const rows = h("tbody");
    const only = h("input", { type: "checkbox", id: "only", onchange: () => list() });
    const list = () => fill(rows, run.settings.filter((s) => !only.checked || s.layer === "command line").map((s) => h("tr", {},
      h("th", { scope: "row" }, h("code", { text: s.name })), h("td", { text: JSON.stringify(s.value) }), h("td", { class: "quiet", text: s.layer }))));
    list();
    return h("details", {}, h("summary", { text: `Settings (${run.settings.length})` }), h("p", {}, only, h("label", { for: "only", text: " only those of the command line" })),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Settings" }, h("table", { class: "texts" }, h("thead", {}, h("tr", {}, ["setting", "value", "set by"].map((t) => h("th", { scope: "col", text: t })))), rows)));
  }

  evaluations() {
    const place = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Evaluations" });
    return h("details", { ontoggle: async (e) => {
      if (!e.target.open) return;
      const { evaluations } = await ask("evaluations", { run: this.id });
      const metrics = [...new Set(evaluations.flatMap((e) => Object.keys(e)))].filter((k) => k !== "step" && k !== "world");
      fill(place, h("table", {}, h("thead", {}, h("tr", {}, ["step", "world", ...metrics, "episodes"].map((t) => h("th", { scope: "col", text: t })))),
        h("tbody", {}, evaluations.reverse().map((e) => h("tr", {}, h("th", { scope: "row", text: e.step.toLocaleString("en") }), h("td", { text: e.world }),
          metrics.map((m) => h("td", {}, number(e[m]?.mean ?? null), h("small", { text: e[m] ? ` sd ${number(e[m].std)}` : "" }))), h("td", { text: e[metrics[0]]?.episodes ?? "" }))))));
    } }, h("summary", { text: "Every evaluation" }), place);
  }

  leave() { this.chart.forget(); }
}

function tests(run) {
  const rows = Object.entries(run.tests).flatMap(([world, metrics]) => Object.entries(metrics).map(([metric, s]) => [`${world}: ${metric}`, `${number(s.mean)}, sd ${number(s.std)} over ${s.episodes} episodes, worst ${number(s.min)}`]));
  return rows.length ? facts("On test seeds", rows, true) : null;
}

function provenance(run) {
  const p = run.provenance;
  return [["command", p.command], ["started", p.started], ["commit", p.commit], ["twofold", p.twofold], ["python", p.python],
    ["packages", Object.entries(p.packages).map(([k, v]) => `${k} ${v}`).join(", ")], ["processor", p.cpu], ["folder", run.folder]];
}

function facts(title, rows, open = false) {
  return h("details", { open }, h("summary", { text: title }), h("dl", { class: "list" }, rows.flatMap(([k, v]) => [h("dt", { text: k }), h("dd", { text: v })])));
}
