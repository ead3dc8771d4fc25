// The page: asks once a second what changed, and shows one of its views.

import { ask, takeToken } from "./ask.js";
import { h, fill } from "./dom.js";
import { CompareView } from "./compare.js";
import { RunView } from "./run.js";
import { RunsView } from "./runs.js";
import { SweepView, SweepsView } from "./sweep.js";

const place = document.getElementById("main");
const live = document.getElementById("live");
const state = { version: null, data: null, view: null };

function show() {
  const [, name = "runs", ...rest] = location.hash.split("/");
  state.view?.leave?.();
  const made = { runs: RunsView, compare: CompareView, run: RunView, sweeps: SweepsView, sweep: SweepView }[name] ?? RunsView;
  state.view = new made(rest.map(decodeURIComponent));
  fill(place, state.view.element);
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.dataset.view === name || (name === "sweep" && link.dataset.view === "sweeps");
    link.toggleAttribute("aria-current", here);
    if (here) link.setAttribute("aria-current", "page");
  }
  if (state.data) state.view.update(state.data);
}

function tell(text, kind) {
  if (live.dataset.said === text) return;
  live.dataset.said = text;
  fill(live, h("span", { class: `beat ${kind}`, "aria-hidden": "true" }), text);
}

async function look() {
  try {
    const found = await ask("runs", { version: state.version });
    if (!found.same) {
      state.version = found.version;
      state.data = found;
      document.getElementById("place").textContent = found.place;
      state.view.update(found);
    } else state.view.tick?.();
    const running = state.data.groups.flatMap((g) => g.runs).filter((r) => r.state === "running").length;
    tell(state.data.waiting ? `reading, ${state.data.waiting} to go` : running ? `${running} running` : "nothing running", running ? "on" : "off");
  } catch (error) {
    tell(error.message, "bad");
  }
  setTimeout(look, state.data?.waiting ? 50 : document.hidden ? 5000 : 1000);
}

takeToken();
addEventListener("hashchange", () => { takeToken(); show(); place.focus({ preventScroll: true }); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
show();
look();
