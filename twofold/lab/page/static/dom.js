// Elements are made of text, never of HTML: whatever a run calls itself is shown as it is.

export function h(tag, given = {}, ...children) {
  const made = tag === "svg" || given.svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name === "svg" || value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "text") made.textContent = value;
    else if (name === "style") for (const [key, one] of Object.entries(value)) made.style.setProperty(key, one);
    else if (["value", "checked", "selected", "disabled"].includes(name)) made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export const svg = (tag, given = {}, ...children) => h(tag, { ...given, svg: true }, ...children);

export function fill(place, ...children) {
  place.replaceChildren(...children.flat(Infinity).filter(Boolean));
  return place;
}

// ---- numbers as people read them ----

export function decimals(...values) {
  const largest = Math.max(0, ...values.filter((v) => Number.isFinite(v)).map(Math.abs));
  return largest === 0 ? 1 : Math.min(3, Math.max(0, 3 - Math.floor(Math.log10(largest))));
}

export function number(value, digits = decimals(value)) {
  if (value === null || value === undefined) return "–";
  const shown = value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return shown.replace("-", "−");
}

export function steps(value) {
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(value) >= size) return `${Number((value / size).toFixed(2))}${letter}`;
  return String(Number(value.toFixed(3)));
}

export function ago(seconds) {
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]])
    if (seconds >= size) return `${Math.round(seconds / size)} ${unit} ago`;
  return "now";
}

// `value [low, high]` with the interval quieter.
export function interval(estimate, digits) {
  if (!estimate) return [h("span", { class: "quiet", text: "–" })];
  const [value, low, high] = estimate;
  const shown = digits ?? decimals(value, low, high);
  const ends = low === null ? "" : ` [${number(low, shown)}, ${number(high, shown)}]`;
  return [number(value, shown), h("small", { text: ends })];
}

export function download(name, content, type = "text/plain") {
  const link = h("a", { href: URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
