// Panels by kind of data: a heat map, a table, atoms that turn, a battle that is played. No domain is known here.

import { token } from "./chart.js";
import { decimals, h, number } from "./dom.js";

export function panel(data) {
  const made = { heatmap, table, trajectory, replay }[data.kind](data);
  return h("figure", { class: `card panel ${data.kind}` }, h("figcaption", {}, h("b", { text: data.title })), made);
}

// ---- rows against columns: a real table, its cells tinted ----

function heatmap(data) {
  const all = data.mean.flat();
  const low = Math.min(...all), high = Math.max(...all), digits = Math.min(2, decimals(low, high));
  const cell = (value, ends) => {
    const share = high > low ? (value - low) / (high - low) : 0.5;
    const made = h("td", {}, number(value, digits), ends[0] === undefined ? null : h("small", { text: ` [${number(ends[0], digits)}, ${number(ends[1], digits)}]` }));
    made.style.background = `color-mix(in oklab, var(--c0) ${Math.round(8 + 72 * share)}%, var(--card))`;
    if (share > 0.55) made.classList.add("strong");
    return made;
  };
  const rows = data.rows.map((name, i) => h("tr", {}, h("th", { scope: "row", text: name }), data.mean[i].map((v, j) => cell(v, [data.low[i]?.[j], data.high[i]?.[j]]))));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": data.title }, h("table", { class: "heat" },
    h("thead", {}, h("tr", {}, h("td"), data.columns.map((c) => h("th", { scope: "col", text: c })))), h("tbody", {}, rows)));
}

// ---- a table, some of its rows marked ----

function table(data) {
  const marked = new Set(data.marked);
  const show = (v) => (typeof v === "number" ? (Number.isInteger(v) ? String(v) : number(v)) : v ?? "–");
  const head = [...data.columns, ...(data.mark ? [data.mark] : [])];
  const rows = data.rows.map((row, i) => h("tr", { class: marked.has(i) ? "marked" : "" }, row.map((v, j) => h(j ? "td" : "th", { ...(j ? {} : { scope: "row" }), text: show(v) })),
    data.mark ? h("td", { text: marked.has(i) ? `✓ ${data.mark}` : "" }) : null));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": data.title }, h("table", { class: "texts" },
    h("thead", {}, h("tr", {}, head.map((t) => h("th", { scope: "col", text: t })))), h("tbody", {}, rows)));
}

// ---- what moves: one slider, one button, arrow keys ----

function player(frames, draw, note, fps) {
  let timer = null, at = 0;
  const canvas = h("canvas", { tabindex: 0, role: "img" });
  const slider = h("input", { type: "range", min: 0, max: Math.max(0, frames - 1), value: 0, "aria-label": "frame", oninput: () => show(Number(slider.value)) });
  const button = h("button", { type: "button", text: "Play", onclick: () => (timer ? stop() : play()) });
  const said = h("span", { class: "quiet" });
  const stop = () => { clearInterval(timer); timer = null; button.textContent = "Play"; };
  const play = () => {
    if (at >= frames - 1) at = -1;
    button.textContent = "Pause";
    timer = setInterval(() => (at >= frames - 1 || !canvas.isConnected ? stop() : show(at + 1)), 1000 / fps);
  };
  const show = (frame) => {
    at = frame;
    slider.value = frame;
    const shade = devicePixelRatio || 1, width = canvas.clientWidth || 480, height = canvas.clientHeight || 320;
    if (canvas.width !== Math.round(width * shade)) { canvas.width = Math.round(width * shade); canvas.height = Math.round(height * shade); }
    const brush = canvas.getContext("2d");
    brush.setTransform(shade, 0, 0, shade, 0, 0);
    brush.clearRect(0, 0, width, height);
    draw(brush, frame, width, height);
    said.textContent = note(frame);
    canvas.setAttribute("aria-label", note(frame));
  };
  new ResizeObserver(() => show(at)).observe(canvas);
  return { canvas, again: () => show(at), element: h("div", { class: "player" }, canvas, h("div", { class: "bar" }, frames > 1 ? [button, slider] : [], said)) };
}

function trajectory(data) {
  const turn = { a: 0.5, b: -0.4 };
  const middle = centre(data.frames[0] ?? []);
  const size = Math.max(1, ...far(data.frames, middle), ...(data.cell.length ? corners(data.cell).map((c) => distance(c, middle)) : []));
  const look = ([x, y, z]) => {
    const [dx, dy, dz] = [x - middle[0], y - middle[1], z - middle[2]];
    const u = dx * Math.cos(turn.a) + dz * Math.sin(turn.a), w = -dx * Math.sin(turn.a) + dz * Math.cos(turn.a);
    return [u, dy * Math.cos(turn.b) - w * Math.sin(turn.b), dy * Math.sin(turn.b) + w * Math.cos(turn.b)];
  };
  const draw = (brush, frame, width, height) => {
    const scale = (Math.min(width, height) / 2 - 16) / size;
    const at = (point) => { const [x, y, z] = look(point); return [width / 2 + x * scale, height / 2 - y * scale, z]; };
    brush.strokeStyle = token("--line");
    for (const [one, other] of edges(data.cell)) { const [a, b] = [at(one), at(other)]; brush.beginPath(); brush.moveTo(a[0], a[1]); brush.lineTo(b[0], b[1]); brush.stroke(); }
    const flat = data.frames[frame] ?? [];
    const atoms = data.colours.map((colour, i) => ({ colour, r: data.radii[i], p: at(flat.slice(3 * i, 3 * i + 3)) })).sort((a, b) => a.p[2] - b.p[2]);
    for (const atom of atoms) ball(brush, atom.p[0], atom.p[1], Math.max(3, atom.r * scale * 0.55), atom.colour);
  };
  const note = (frame) => [`frame ${frame + 1} of ${data.frames.length}`, ...Object.entries(data.values).map(([k, v]) => `${k} ${number(v[frame])}`)].join(", ");
  const made = player(data.frames.length, draw, note, 8);
  let held = null;
  made.canvas.addEventListener("pointerdown", (e) => { held = [e.clientX, e.clientY]; made.canvas.setPointerCapture(e.pointerId); });
  made.canvas.addEventListener("pointerup", () => { held = null; });
  made.canvas.addEventListener("pointermove", (e) => {
    if (!held) return;
    turn.a += (e.clientX - held[0]) / 120; turn.b += (e.clientY - held[1]) / 120;
    held = [e.clientX, e.clientY];
    made.again();
  });
  made.canvas.addEventListener("keydown", (e) => {
    const by = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[e.key];
    if (by) { turn.a += by[0]; turn.b += by[1]; made.again(); e.preventDefault(); }
  });
  return made.element;
}

function ball(brush, x, y, r, colour) {
  const light = brush.createRadialGradient(x - r / 3, y - r / 3, r / 6, x, y, r);
  light.addColorStop(0, "#ffffff"); light.addColorStop(0.35, colour); light.addColorStop(1, colour);
  brush.fillStyle = light;
  brush.beginPath(); brush.arc(x, y, r, 0, 2 * Math.PI); brush.fill();
  brush.strokeStyle = "rgba(0, 0, 0, 0.35)"; brush.lineWidth = 1; brush.stroke();
}

const centre = (flat) => [0, 1, 2].map((k) => { let sum = 0; for (let i = k; i < flat.length; i += 3) sum += flat[i]; return flat.length ? (3 * sum) / flat.length : 0; });
const distance = (p, q) => Math.hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]);
const far = (frames, middle) => frames.slice(0, 1).flatMap((f) => Array.from({ length: f.length / 3 }, (_, i) => distance(f.slice(3 * i, 3 * i + 3), middle) + 0.8));
const sum = (...vs) => [0, 1, 2].map((k) => vs.reduce((t, v) => t + v[k], 0));
const corners = (c) => [[0, 0, 0], c[0], c[1], c[2], sum(c[0], c[1]), sum(c[0], c[2]), sum(c[1], c[2]), sum(c[0], c[1], c[2])];
const edges = (c) => (c.length === 3 ? [[0, 1], [0, 2], [0, 3], [1, 4], [1, 5], [2, 4], [2, 6], [3, 5], [3, 6], [4, 7], [5, 7], [6, 7]].map(([i, j]) => [corners(c)[i], corners(c)[j]]) : []);

// ---- a battle ----

function replay(data) {
  const box = bounds(data);
  const draw = (brush, frame, width, height) => {
    const scale = Math.min((width - 24) / box.width, (height - 40) / box.height);
    const x = (v) => width / 2 + (v - box.x) * scale, y = (v) => height / 2 - (v - box.y) * scale;
    const places = data.positions[frame] ?? [], health = data.health[frame] ?? [];
    brush.lineWidth = 1.5; brush.globalAlpha = 0.45;
    (data.targets[frame] ?? []).forEach((to, i) => {
      if (to < 0) return;
      brush.strokeStyle = token(data.teams[i] === 0 ? "--c0" : "--c1");
      brush.beginPath(); brush.moveTo(x(places[2 * i]), y(places[2 * i + 1])); brush.lineTo(x(places[2 * to]), y(places[2 * to + 1])); brush.stroke();
    });
    brush.globalAlpha = 1;
    data.teams.forEach((team, i) => unit(brush, x(places[2 * i]), y(places[2 * i + 1]), Math.max(4, data.radii[i] * scale), team, health[i]));
    if (frame === data.positions.length - 1 && data.result) {
      brush.fillStyle = token("--ink"); brush.font = "600 16px system-ui, sans-serif"; brush.textAlign = "center";
      brush.fillText(data.result, width / 2, 20);
    }
  };
  const alive = (frame, team) => data.teams.filter((t, i) => t === team && (data.health[frame]?.[i] ?? 0) > 0).length;
  const note = (frame) => `step ${frame} of ${data.positions.length - 1}: ${alive(frame, 0)} against ${alive(frame, 1)}${frame === data.positions.length - 1 && data.result ? `, ${data.result}` : ""}`;
  return player(data.positions.length, draw, note, 6).element;
}

// The part of the field where anything happens.
function bounds(data) {
  const xs = data.positions.flatMap((f) => f.filter((_, i) => i % 2 === 0)), ys = data.positions.flatMap((f) => f.filter((_, i) => i % 2));
  const [l, r, b, t] = xs.length ? [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)] : [0, data.size[0], 0, data.size[1]];
  return { x: (l + r) / 2, y: (b + t) / 2, width: r - l + 4, height: t - b + 4 };
}

function unit(brush, x, y, r, team, health) {
  const alive = health > 0;
  brush.fillStyle = alive ? token(team === 0 ? "--c0" : "--c1") : token("--line");
  brush.beginPath();
  if (team === 0) brush.arc(x, y, r, 0, 2 * Math.PI);
  else { brush.moveTo(x, y - 1.2 * r); brush.lineTo(x + 1.2 * r, y); brush.lineTo(x, y + 1.2 * r); brush.lineTo(x - 1.2 * r, y); brush.closePath(); }
  brush.fill();
  if (!alive) return;
  brush.fillStyle = token("--grid"); brush.fillRect(x - r, y - r - 8, 2 * r, 3);
  brush.fillStyle = token("--c2"); brush.fillRect(x - r, y - r - 8, 2 * r * health, 3);
}
