// SPDX-License-Identifier: GPL-2.0-only
//
// The live view: bars, map, matrix, distribution and sharing of one or more runs, drawn as SVG.
//
// A machine is {name, cpus, nodes, clusters, cores, online, map?}: its CPUs node by node, and for
// each its cluster and core (named by their lowest CPU; -1: none is known).  A run is {when,
// revision, irqchip, best, mostUsed, devices, cpu, mask, masks, submitters?, lost?}: for each interrupt the
// position of its CPU in machine.cpus (-1: shut down) and the number of its mask.  Both are made by
// groupcpus/panels/documents.py.  Nothing here computes a mask or picks a CPU.

const CSS = `
.gc-live { color-scheme: light dark; --ink: light-dark(#1c1c1c, #e6e6e6); --paper: light-dark(#fff, #16181a);
  --soft: light-dark(#6a6a6a, #a2a2a2); --rule: light-dark(#c9c9c9, #4a4d50); --node: light-dark(#f4f4f1, #212427);
  --cluster: light-dark(#e2e2da, #32373b); --few: light-dark(#eaf2f8, #20303c); --many: light-dark(#0b559f, #7cc1f7);
  --bar: light-dark(#3f82bd, #5aa5de); --hot: light-dark(#c84e00, #ff8c4a); --mark: light-dark(#000, #fff);
  --follow: light-dark(#ffd84d, #8a6d00); --changed: light-dark(#7a2a8c, #dd9bef);
  color: var(--ink); background: var(--paper); font: 13px/1.4 system-ui, sans-serif; max-width: 1180px; padding: 4px; }
body[data-jp-theme-light="true"] .gc-live, body[data-voila] .gc-live { color-scheme: light; }
body[data-jp-theme-light="false"] .gc-live { color-scheme: dark; }
.gc-live .panes { display: grid; gap: 4px; }
.gc-live .panes.beside { grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); }
.gc-live svg { display: block; width: 100%; height: auto; touch-action: manipulation; user-select: none; }
.gc-live svg:focus-visible, .gc-live button:focus-visible { outline: 2px solid var(--hot); outline-offset: 1px; }
.gc-live text { fill: var(--ink); font: 11px system-ui, sans-serif; }
.gc-live .title { font-size: 13px; font-weight: 600; }
.gc-live .soft, .gc-live .soft text { fill: var(--soft); }
.gc-live .rule { stroke: var(--rule); fill: none; } .gc-live .bar { fill: var(--bar); }
.gc-live .most { fill: var(--bar); opacity: .45; } .gc-live .hot { fill: var(--hot); }
.gc-live .best { stroke: var(--mark); stroke-dasharray: 5 3; fill: none; }
.gc-live .was { stroke: var(--changed); stroke-width: 2; fill: none; } .gc-live .changed { fill: var(--changed); }
.gc-live .cursor { fill: var(--follow); opacity: .5; } .gc-live .inmask { fill: var(--follow); stroke: var(--mark); stroke-width: .6; }
.gc-live .node { fill: var(--node); stroke: var(--rule); } .gc-live .cluster { fill: var(--cluster); }
.gc-live .joint { stroke: var(--soft); stroke-width: 4; opacity: .6; } .gc-live .leaf { stroke: var(--soft); }
.gc-live .leaf.single { stroke: var(--hot); stroke-width: 2.5; } .gc-live .leaf.down { stroke-dasharray: 3 2; }
.gc-live .leaf.focus { stroke: var(--mark); stroke-width: 3; } .gc-live .halo { fill: none; stroke: none; }
.gc-live .halo.on { stroke: light-dark(#f2b800, #ffd84d); stroke-width: 5; } .gc-live .inside { text-anchor: middle; }
.gc-live .inside.hi { fill: var(--paper); } .gc-live .below { text-anchor: middle; fill: var(--soft); font-size: 7.5px; }
.gc-live .effective { fill: var(--mark); } .gc-live .row { fill: var(--follow); opacity: .55; }
.gc-live .d0 { fill: light-dark(#d99000, #e8aa2e); } .gc-live .d1 { fill: light-dark(#009E73, #2cc79a); }
.gc-live .d2 { fill: light-dark(#c76d9f, #d98bb5); } .gc-live .d3 { fill: light-dark(#8a6a4a, #b8987a); }
.gc-live .d4 { fill: light-dark(#55b3e6, #8fd0f5); } .gc-live .d5 { fill: light-dark(#c9b800, #f0e442); }
.gc-live .d6 { fill: light-dark(#8f7fc9, #a99be0); } .gc-live .d7 { fill: light-dark(#9a9a9a, #b5b5b5); }
.gc-live .faint { opacity: .65; } .gc-live .r0 { fill: var(--soft); } .gc-live .r1 { fill: var(--bar); }
.gc-live .r2 { fill: light-dark(#8a6a4a, #b8987a); } .gc-live .r3 { fill: light-dark(#009E73, #2cc79a); }
.gc-live .r4 { fill: light-dark(#8f7fc9, #a99be0); } .gc-live .r5 { fill: light-dark(#c9b800, #f0e442); }
.gc-live .stale { opacity: .3; } .gc-live .error { color: var(--hot); font-weight: 600; min-height: 1.4em; white-space: pre-wrap; }
.gc-live .about { height: 7.5em; overflow: auto; border: 1px solid var(--rule); padding: 4px 8px; margin: 4px 0; }
.gc-live .about p { margin: 2px 0; } .gc-live .about button, .gc-live .tools button { font: inherit; color: inherit;
  background: var(--node); border: 1px solid var(--rule); border-radius: 3px; padding: 0 4px; margin: 1px; cursor: pointer; }
.gc-live button[aria-pressed="true"] { background: var(--follow); }
.gc-live pre { font: 12px/1.3 ui-monospace, monospace; overflow-x: auto; margin: 6px 0; white-space: pre; color: var(--ink); background: none; }
.gc-live .controls { display: flex; flex-wrap: wrap; gap: 4px 18px; align-items: center; margin: 4px 0 8px; }
.gc-live .controls label { display: inline-flex; gap: 6px; align-items: center; } .gc-live .controls output { min-width: 2.5em; }
.gc-live .note { color: var(--soft); margin: 2px 0; }
`;
// Counts: from few to many in twenty steps.
const STEPS = Array.from({ length: 21 }, (_, at) => `.gc-live .c${at} { fill: color-mix(in oklab, var(--many) ${5 * at}%, var(--few)); }`).join("\n");
const DEVICE_COLOURS = 8, MAX_BARS = 128, MAX_SHARED = 48;
const PICTURES = ["bars", "map", "matrix", "distribution", "sharing"];
const SVG = "http://www.w3.org/2000/svg";

// --- small helpers

function svg(tag, attributes, parent, text) {
  const element = document.createElementNS(SVG, tag);
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
}
function html(tag, attributes, parent, text) {
  const element = document.createElement(tag);
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
}
// Assigning what is there already would lay the text out again.
function put(element, text) { if (element.textContent !== text) element.textContent = text; }
function set(element, name, value) { if (element.getAttribute(name) !== value) element.setAttribute(name, value); }
const fixed = (number) => Math.round(number * 100) / 100;
const box = (x, y, width, height) => `M${fixed(x)} ${fixed(y)}h${fixed(width)}v${fixed(height)}h${fixed(-width)}z`;
export const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

/** Write ascending numbers as the kernel writes a cpulist. */
export function cpulist(numbers) {
  const parts = [];
  for (let at = 0; at < numbers.length;) {
    let end = at;
    while (end + 1 < numbers.length && numbers[end + 1] === numbers[end] + 1) end++;
    parts.push(end > at ? `${numbers[at]}-${numbers[end]}` : `${numbers[at]}`);
    at = end + 1;
  }
  return parts.join(",");
}
/** Read a cpulist. */
export function cpus(list) {
  const found = [];
  for (const part of list ? list.split(",") : []) {
    const [first, last] = part.split("-").map(Number);
    for (let cpu = first; cpu <= (last ?? first); cpu++) found.push(cpu);
  }
  return found;
}

// --- what a run says

/** Count a run's interrupts: on each CPU, those with a mask of one CPU, and where devices begin. */
export function figures(machine, run, show) {
  const n = machine.cpus.length, counts = new Array(n).fill(0), single = new Array(n).fill(0);
  const alone = run.masks.map((mask) => mask !== "" && !/[-,]/.test(mask));
  let empty = 0, first = -1;
  for (let at = 0; at < run.cpu.length; at++) {
    const cpu = run.cpu[at];
    if (run.masks[run.mask[at]] === "") { if (!empty++) first = at; }
    if (cpu < 0) continue;
    counts[cpu]++;
    if (alone[run.mask[at]]) single[cpu]++;
  }
  const starts = [];
  let start = 0;
  for (const [, size] of run.devices) { starts.push(start); start += size; }
  const online = counts.filter((_, at) => machine.online[at]);
  const shown = show === "submitters" && run.submitters ? run.submitters : counts;
  return {
    counts: shown, irqs: counts, single: shown === counts ? single : new Array(n).fill(0), starts, empty, first,
    greatest: Math.max(0, ...online), top: Math.max(0, ...shown), used: online.filter(Boolean).length, online,
    submitters: shown !== counts,
  };
}
/** Name an interrupt, such as nvme0q5. */
export function label(run, starts, at) {
  let device = starts.length - 1;
  while (starts[device] > at) device--;
  return `${run.devices[device][0]}q${at - starts[device] + 1}`;
}
/** Say what is worth knowing about a run; groupcpus/pictures/stories.py has the same in Python. */
export function story(run, found) {
  const { greatest, used, online, empty } = found;
  if (found.submitters) return `no CPU completes the I/O of more than ${counted(found.top, "submitter")}`;
  if (empty) {
    const name = label(run, found.starts, found.first);
    return empty === 1 ? `${name} has no CPU: its mask is empty` : `${name} and ${empty - 1} more have no CPU: empty masks`;
  }
  const lost = Object.entries(run.lost ?? {}).filter(([, queues]) => queues);
  if (lost.length) return `${lost[0][0]} does without ${counted(lost[0][1], "queue")}: a mask is empty`;
  if (!greatest) return "no interrupts";
  const most = online.filter((count) => count === greatest).length;
  const below = Math.max(0, ...online.filter((count) => count < greatest));
  const irqs = counted(greatest, "IRQ");
  if (greatest > run.best) {
    const who = below * 2 === greatest && most > 1
      ? `${most} CPUs do double duty, ${irqs} each`
      : most > 1 ? `${most} CPUs have ${irqs} each` : `one CPU has ${irqs}`;
    return `${who}; nobody needs more than ${run.best}`;
  }
  if (used < run.mostUsed) return `${irqs} at most, on ${counted(used, "CPU")} where ${run.mostUsed} could serve`;
  return `no CPU has more than ${irqs}, the best possible`;
}
const heading = (run, found) => `${run.when ? `${run.when}, ` : ""}${run.revision}: ${story(run, found)}`;

/** Say in words how many interrupts CPUs have. */
export function inWords(machine, run, found) {
  const by = new Map();
  machine.cpus.forEach((cpu, at) => {
    if (!machine.online[at]) return;
    const count = found.counts[at];
    by.set(count, [...(by.get(count) ?? []), cpu]);
  });
  const noun = found.submitters ? "submitter" : "IRQ";
  const lines = [...by].sort((a, b) => a[0] - b[0]).map(([count, who]) =>
    `  ${counted(who.length, "CPU")} with ${count ? counted(count, noun) : "none"}: ${cpulist(who.sort((a, b) => a - b))}`);
  return [heading(run, found), ...lines].join("\n");
}

// --- panes: one picture of one run (the distribution: of all)

/** Choose what to number on an axis: ends of what stands out, ends of nodes, then steps. */
export function ticks(machine, marked, room) {
  const wanted = [], n = machine.cpus.length;
  const runs = [];
  for (let at = 0; at < n; at++) {
    if (!marked[at]) continue;
    if (at && marked[at - 1]) runs[runs.length - 1][1] = at; else runs.push([at, at]);
  }
  if (runs.length <= 8) for (const run of runs) wanted.push(...run);
  let start = 0;
  for (const [, count] of machine.nodes) { wanted.push(start, start + count - 1); start += count; }
  for (let step = 8; step < n; step *= 2) if (n / step <= room) { for (let at = 0; at < n; at += step) wanted.push(at); break; }
  if (n <= room) for (let at = 0; at < n; at++) wanted.push(at);
  const taken = [], gap = n / room;
  for (const at of wanted) if (taken.every((other) => other === at || Math.abs(other - at) >= gap)) if (!taken.includes(at)) taken.push(at);
  return taken.sort((a, b) => a - b);
}

class Pane {
  constructor(view, width, height) {
    Object.assign(this, { view, width, height, machine: view.machine });
    this.svg = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", tabindex: 0, "aria-roledescription": "picture" });
    this.title = svg("text", { class: "title", x: 4, y: 14 }, this.svg);
    this.svg.addEventListener("pointermove", (event) => view.point(this, this.at(...this.place(event))));
    this.svg.addEventListener("pointerleave", () => view.point(this, null));
    this.svg.addEventListener("click", (event) => view.follow(this.at(...this.place(event)), this.run));
    this.svg.addEventListener("keydown", (event) => view.key(this, event));
  }
  place(event) {
    const frame = this.svg.getBoundingClientRect();
    return [(event.clientX - frame.left) * this.width / frame.width, (event.clientY - frame.top) * this.height / frame.height];
  }
  at() { return null; }
  /** Show a run: `number` is its place among the runs, `found` its figures. */
  draw(run, found, number) {
    Object.assign(this, { run, found, number });
    const words = heading(run, found);
    put(this.title, words);
    // Letters are almost eight wide: a long title is pressed into the picture's width.
    const long = words.length * 7.7 > this.width;
    for (const [name, value] of [["textLength", String(this.width - 8)], ["lengthAdjust", "spacingAndGlyphs"]]) {
      if (long) set(this.title, name, value); else this.title.removeAttribute(name);
    }
    set(this.svg, "aria-label", `${words}. Arrow keys move over CPUs, Enter follows one.`);
  }
  mark() {}
  /** Draw an axis of CPUs below `floor`. */
  axis(marked, left, step, floor) {
    const group = this.numbers ??= svg("g", { class: "soft", "text-anchor": "middle" }, this.svg);
    const chosen = ticks(this.machine, marked, (this.width - left) / 27);
    const key = chosen.join();
    if (this.ticked === key) return;
    this.ticked = key;
    group.replaceChildren();
    let path = "";
    for (const at of chosen) {
      const x = fixed(left + (at + 0.5) * step);
      svg("text", { x, y: floor + 14 }, group, String(this.machine.cpus[at]));
      path += `M${x} ${floor}v3`;
    }
    svg("path", { class: "rule", d: path }, group);
  }
  /** Part and name the nodes between `top` and `floor`. */
  parts(left, step, top, floor) {
    let at = 0, path = "";
    const few = this.machine.nodes.length <= 16;
    for (const [node, count] of this.machine.nodes) {
      if (at) path += `M${fixed(left + at * step)} ${top - 12}V${floor}`;
      if (few) svg("text", { class: "soft", x: fixed(left + (at + count / 2) * step), y: top - 3, "text-anchor": "middle" }, this.svg, `node ${node}`);
      at += count;
    }
    svg("path", { class: "rule", d: path }, this.svg);
  }
}

class Bars extends Pane {
  constructor(view) {
    super(view, 1000, 214);
    const n = this.machine.cpus.length;
    this.fold = 1;
    while (n / this.fold > MAX_BARS) this.fold *= 2;
    Object.assign(this, { left: 40, top: 40, floor: 184 });
    this.step = (1000 - this.left - 62) / n;
    this.cursor = svg("path", { class: "cursor" }, this.svg);
    this.parts(this.left, this.step, this.top, this.floor);
    this.lines = svg("g", { class: "soft", "text-anchor": "end" }, this.svg);
    for (const name of ["most", "bar", "hot", "was", "inmask"]) this[name] = svg("path", { class: name }, this.svg);
    this.down = svg("path", { class: "rule" }, this.svg);
    this.best = svg("path", { class: "best" }, this.svg);
    this.word = svg("text", { x: 1000 - 58 }, this.svg);
    svg("path", { class: "rule", d: `M${this.left} ${this.floor}H${1000 - 62}` }, this.svg);
    svg("text", { class: "soft", x: 4, y: this.floor + 14 }, this.svg, "CPU");
    const key = svg("g", { class: "soft" }, this.svg);
    svg("path", { class: "hot", d: box(752, 5, 10, 9) }, key);
    svg("text", { x: 766, y: 13 }, key, "the mask is this CPU alone");
    this.wasKey = svg("g", { visibility: "hidden" }, this.svg);
    svg("path", { class: "was", d: "M948 10h12" }, this.wasKey);
    svg("text", { class: "soft", x: 963, y: 13 }, this.wasKey, "was");
    if (this.fold > 1) svg("text", { class: "soft", x: 40, y: 212 }, this.svg, `a bar stands for ${this.fold} CPUs: pale up to the most one of them has, dark up to the least`);
    this.down.setAttribute("d", machineDown(this));
  }
  at(x, y) {
    const cpu = Math.floor((x - this.left) / this.step);
    return cpu >= 0 && cpu < this.machine.cpus.length && y > 16 ? { cpu } : null;
  }
  draw(run, found, number) {
    super.draw(run, found, number);
    const { top, first } = this.view.scale, unit = (this.floor - this.top) / (top * 1.02), fold = this.fold, width = this.step * fold;
    let bar = "", most = "", hot = "", was = "";
    const n = found.counts.length, base = number && first.counts;
    for (let at = 0; at < n; at += fold) {
      let low = Infinity, high = 0, alone = 0, before = 0;
      for (let i = at; i < Math.min(n, at + fold); i++) {
        const count = found.counts[i];
        if (count < low) low = count;
        if (count > high) high = count;
        if (found.single[i] > alone) alone = found.single[i];
        if (base && base[i] > before) before = base[i];
      }
      const x = this.left + at * this.step + width * 0.08, wide = width * 0.84;
      if (low) bar += box(x, this.floor - low * unit, wide, low * unit);
      if (high > low) most += box(x, this.floor - high * unit, wide, (high - low) * unit);
      if (alone) hot += box(x + wide * 0.25, this.floor - alone * unit, wide * 0.5, alone * unit);
      if (base && before !== high) was += `M${fixed(x)} ${fixed(this.floor - before * unit)}h${fixed(wide)}`;
    }
    set(this.bar, "d", bar); set(this.most, "d", most); set(this.hot, "d", hot); set(this.was, "d", was);
    set(this.wasKey, "visibility", was ? "visible" : "hidden");
    const y = fixed(this.floor - run.best * unit);
    set(this.best, "d", found.submitters ? "" : `M${this.left} ${y}H${1000 - 62}`);
    put(this.word, found.submitters ? "" : `best ${run.best}`);
    set(this.word, "y", String(y + 4));
    if (this.scaled !== top) {
      this.scaled = top;
      this.lines.replaceChildren();
      const every = Math.ceil(top / 6);
      for (let count = 0; count <= top; count += every) svg("text", { x: this.left - 5, y: fixed(this.floor - count * unit + 4) }, this.lines, String(count));
    }
    this.axis(found.counts.map((count) => count === found.top && count > run.best), this.left, this.step, this.floor);
  }
  mark() {
    const spot = this.view.spot(this), n = (at) => Math.floor(at / this.fold) * this.fold;
    const column = (at) => box(this.left + n(at) * this.step, this.top - 12, this.step * this.fold, this.floor - this.top + 12);
    set(this.cursor, "d", spot.cpus.map(column).join(""));
    set(this.inmask, "d", spot.mask.map((at) => box(this.left + at * this.step, this.floor - 4, this.step, 4)).join(""));
  }
}
/** Cross out CPUs that are offline or absent. */
function machineDown(pane) {
  return pane.machine.online.map((up, at) => up ? "" : `M${fixed(pane.left + (at + 0.2) * pane.step)} ${pane.floor - 8}l${fixed(pane.step * 0.6)} 8m0 -8l${fixed(-pane.step * 0.6)} 8`).join("");
}

class Map_ extends Pane {
  constructor(view) {
    const plan = view.machine.map, unit = Math.min(Math.max(552 / plan.width, 26), 36);
    super(view, Math.max(plan.width * unit + 8, 560), plan.height * unit + 62);
    this.unit = unit;
    const x = (value) => fixed(4 + value * unit), y = (value) => fixed(24 - value * unit);
    this.boxes = plan.boxes.map(([kind, left, bottom, right, top, node]) => {
      svg("rect", { class: kind, x: x(left), y: y(top), width: fixed((right - left) * unit), height: fixed((top - bottom) * unit), rx: 4 }, this.svg);
      const roomy = (right - left) * unit > 190;
      return kind === "node" && node !== null ? [node, svg("text", { x: x(left) + 7, y: y(top) + 15, "font-weight": 600 }, this.svg), roomy] : null;
    }).filter(Boolean);
    const joints = plan.joints.map(([a, b]) => `M${x(plan.leaves[a][0])} ${y(plan.leaves[a][1])}L${x(plan.leaves[b][0])} ${y(plan.leaves[b][1])}`);
    svg("path", { class: "joint", d: joints.join("") }, this.svg);
    this.folded = plan.leaves.some((leaf) => leaf[2].length > 1);
    this.leaves = plan.leaves.map(([left, up, members]) => {
      const at = [x(left), y(up)], r = 0.4 * unit;
      const shape = (name) => this.folded
        ? svg("rect", { class: name, x: at[0] - r, y: at[1] - r, width: 2 * r, height: 2 * r }, this.svg)
        : svg("circle", { class: name, cx: at[0], cy: at[1], r }, this.svg);
      const down = members.every((cpu) => !this.machine.online[cpu]);
      const leaf = { at, members, down, halo: shape("halo"), mark: shape("leaf"), text: svg("text", { class: "inside", x: at[0], y: at[1] + 4 }, this.svg) };
      svg("text", { class: "below", x: at[0], y: at[1] + r + 8 }, this.svg, this.folded ? cpulist([this.machine.cpus[members[0]]]) : String(this.machine.cpus[members[0]]));
      leaf.change = svg("text", { class: "changed", x: at[0] + r - 1, y: at[1] - r + 4, "font-size": "8" }, this.svg);
      return leaf;
    });
    this.leafOf = [];
    this.leaves.forEach((leaf, number) => { for (const cpu of leaf.members) this.leafOf[cpu] = number; });
    this.legend = [20, 6].map((up) => svg("text", { class: "soft", x: 4, y: this.height - up }, this.svg));
  }
  at(x, y) {
    let best = null, near = 15;
    for (const leaf of this.leaves) {
      const away = Math.hypot(leaf.at[0] - x, leaf.at[1] - y);
      if (away < near) { near = away; best = leaf; }
    }
    return best ? { cpu: best.members[0] } : null;
  }
  draw(run, found, number) {
    super.draw(run, found, number);
    const { top, first } = this.view.scale;
    const sums = new Map(this.machine.nodes.map(([node]) => [node, [0, 0]]));
    let start = 0;
    for (const [node, count] of this.machine.nodes) {
      for (let at = start; at < start + count; at++) { sums.get(node)[0] += found.counts[at]; sums.get(node)[1] += found.irqs[at] > 0; }
      start += count;
    }
    for (const [node, word, roomy] of this.boxes) {
      const [sum, used] = sums.get(node) ?? [0, 0];
      put(word, found.submitters ? `node ${node}: ${sum}` : `node ${node}: ${counted(sum, "IRQ")}${roomy ? ` on ${counted(used, "CPU")}` : ""}`);
    }
    for (const leaf of this.leaves) {
      let low = Infinity, high = 0, sum = 0, alone = 0, change = 0;
      for (const cpu of leaf.members) {
        const count = found.counts[cpu];
        low = Math.min(low, count); high = Math.max(high, count); sum += count; alone += found.single[cpu];
        if (number) change += count - first.counts[cpu];
      }
      const share = Math.round(100 * sum / leaf.members.length / top);
      put(leaf.text, low === high ? String(high) : `${low}-${high}`);
      set(leaf.text, "class", share > 50 ? "inside hi" : "inside");
      set(leaf.mark, "class", `leaf c${Math.round(share / 5)}${alone ? " single" : ""}${leaf.down ? " down" : ""}`);
      put(leaf.change, change ? (change > 0 ? "▲" : "▼") : "");
    }
    const noun = found.submitters ? "its submitters" : "its IRQs";
    put(this.legend[0], this.folded
      ? `A square stands for ${this.leaves[0].members.length} CPUs, below it the first of them; inside the fewest-most of one.`
      : `Inside a circle: ${noun}; below: the CPU. Shaded: cluster; joined: core.`);
    put(this.legend[1], `Orange rim: a mask of this CPU alone.${number ? " ▲▼: more or fewer than before." : ""}`);
  }
  mark() {
    const spot = this.view.spot(this), lit = new Set([...spot.cpus, ...spot.mask].map((cpu) => this.leafOf[cpu]));
    this.leaves.forEach((leaf, number) => set(leaf.halo, "class", lit.has(number) ? "halo on" : "halo"));
  }
}

class Matrix extends Pane {
  constructor(view) {
    super(view, 580, 420);
    Object.assign(this, { left: 52, top: 40, floor: 388 });
    this.step = (this.width - this.left - 8) / this.machine.cpus.length;
    this.column = svg("path", { class: "cursor" }, this.svg);
    this.row = svg("path", { class: "row" }, this.svg);
    this.bands = Array.from({ length: DEVICE_COLOURS }, (_, at) => svg("path", { class: `d${at} faint` }, this.svg));
    this.effective = svg("path", { class: "effective" }, this.svg);
    this.alone = svg("path", { class: "hot" }, this.svg);
    this.parts(this.left, this.step, this.top, this.floor);
    this.names = svg("g", { class: "soft", "text-anchor": "end" }, this.svg);
    this.borders = svg("path", { class: "rule" }, this.svg);
    this.positions = new Map(this.machine.cpus.map((cpu, at) => [cpu, at]));
    svg("text", { class: "soft", x: 4, y: this.floor + 28 }, this.svg, "A row: a queue's mask over the CPUs; dot: its effective CPU; orange: the only CPU of its mask.");
  }
  at(x, y) {
    if (!this.run || y < this.top || y > this.floor) return null;
    const irq = Math.floor((y - this.top) / this.tall), cpu = Math.floor((x - this.left) / this.step);
    return irq < this.run.cpu.length ? { irq, ...(cpu >= 0 && cpu < this.machine.cpus.length ? { cpu } : {}) } : null;
  }
  draw(run, found, number) {
    super.draw(run, found, number);
    const rows = Math.max(1, run.cpu.length), tall = this.tall = (this.floor - this.top) / rows;
    // Bands of a mask: where it starts, and how far it reaches.
    const spans = run.masks.map((mask) => {
      const found = [], here = cpus(mask).map((cpu) => this.positions.get(cpu)).filter((at) => at !== undefined).sort((a, b) => a - b);
      for (const at of here) {
        const last = found[found.length - 1];
        if (last && last[0] + last[1] === at) last[1]++; else found.push([at, 1]);
      }
      return [found, here.length];
    });
    const bands = Array.from({ length: DEVICE_COLOURS }, () => []), dots = [], alone = [];
    const size = Math.max(1.6, Math.min(7, tall * 0.9, this.step * 0.9));
    let device = 0;
    for (let at = 0; at < run.cpu.length; at++) {
      while (device + 1 < found.starts.length && found.starts[device + 1] <= at) device++;
      const y = this.top + at * tall, [spans_, many] = spans[run.mask[at]];
      for (const [start, length] of spans_) bands[device % DEVICE_COLOURS].push(box(this.left + start * this.step, y, length * this.step, Math.max(tall, 1.6)));
      if (run.cpu[at] < 0) continue;
      const dot = box(this.left + (run.cpu[at] + 0.5) * this.step - size / 2, y + tall / 2 - size / 2, size, size);
      (many === 1 ? alone : dots).push(dot);
    }
    this.bands.forEach((path, at) => set(path, "d", bands[at].join("")));
    set(this.effective, "d", dots.join("")); set(this.alone, "d", alone.join(""));
    const key = run.devices.join() + rows;
    if (this.named !== key) {
      this.named = key;
      this.names.replaceChildren();
      let path = "", last = -20;
      const one = run.devices.length === 1, every = one ? Math.ceil(rows / 22) : 1;
      const names = one ? Array.from({ length: Math.ceil(rows / every) }, (_, at) => [at * every + 0.5, `q${at * every + 1}`])
        : run.devices.map(([name, size], at) => [found.starts[at] + size / 2, name]);
      for (const [row, name] of names) {
        const y = this.top + row * tall;
        if (y - last >= 12) { svg("text", { x: this.left - 4, y: fixed(y + 4) }, this.names, name.slice(0, 8)); last = y; }
      }
      for (const start of found.starts.slice(1)) path += `M${this.left} ${fixed(this.top + start * tall)}H${this.width - 8}`;
      set(this.borders, "d", path);
    }
    this.axis(found.irqs.map((count) => count === found.greatest && count > run.best), this.left, this.step, this.floor);
  }
  mark() {
    const spot = this.view.spot(this);
    set(this.column, "d", spot.cpus.map((at) => box(this.left + at * this.step, this.top, Math.max(this.step, 1), this.floor - this.top)).join(""));
    set(this.row, "d", spot.irq === null ? "" : box(this.left - 48, this.top + spot.irq * this.tall, this.width - this.left + 40, Math.max(this.tall, 1.5)));
  }
}

class Sharing extends Pane {
  constructor(view) {
    super(view, 1000, 214);
    Object.assign(this, { left: 40, top: 40, floor: 184 });
    this.cursor = svg("path", { class: "cursor" }, this.svg);
    this.layers = Array.from({ length: DEVICE_COLOURS }, (_, at) => svg("path", { class: `d${at}` }, this.svg));
    this.best = svg("path", { class: "best" }, this.svg);
    this.labels = svg("g", { class: "soft" }, this.svg);
    this.key = svg("g", { class: "soft" }, this.svg);
    svg("path", { class: "rule", d: `M${this.left} ${this.floor}H880` }, this.svg);
    svg("text", { class: "soft", x: 4, y: this.floor + 14 }, this.svg, "CPU");
  }
  at(x, y) {
    const at = Math.floor((x - this.left) / this.step);
    return this.who && at >= 0 && at < this.who.length && y > 16 ? { cpu: this.who[at] } : null;
  }
  draw(run, found, number) {
    super.draw(run, found, number);
    const all = found.irqs.map((_, at) => at).filter((at) => found.greatest && found.irqs[at] === found.greatest);
    const who = this.who = all.slice(0, MAX_SHARED);
    const words = `${run.when ? `${run.when}, ` : ""}${run.revision}: ${all.length > MAX_SHARED ? `the first ${MAX_SHARED} of ` : "the "}${counted(all.length, "CPU")} with ${counted(found.greatest, "IRQ")}, by device`;
    put(this.title, words);
    this.step = Math.min(840 / Math.max(who.length, 1), 60);
    const top = this.view.scale.irqs, unit = (this.floor - this.top) / (top * 1.02), heights = new Map(who.map((at) => [at, 0])), place = new Map(who.map((at, i) => [at, i]));
    const paths = Array.from({ length: DEVICE_COLOURS }, () => []), met = new Set();
    let device = 0;
    for (let at = 0; at < run.cpu.length; at++) {
      while (device + 1 < found.starts.length && found.starts[device + 1] <= at) device++;
      const cpu = run.cpu[at];
      if (!place.has(cpu)) continue;
      const height = heights.get(cpu);
      heights.set(cpu, height + 1);
      met.add(device);
      paths[device % DEVICE_COLOURS].push(box(this.left + (place.get(cpu) + 0.08) * this.step, this.floor - (height + 1) * unit, this.step * 0.84, unit * 0.94));
    }
    this.layers.forEach((path, at) => set(path, "d", paths[at].join("")));
    const y = fixed(this.floor - run.best * unit);
    set(this.best, "d", `M${this.left} ${y}H880`);
    this.labels.replaceChildren();
    const every = Math.ceil(who.length * 24 / 840);
    who.forEach((at, i) => { if (i % every === 0) svg("text", { x: fixed(this.left + (i + 0.5) * this.step), y: this.floor + 14, "text-anchor": "middle" }, this.labels, String(this.machine.cpus[at])); });
    for (let count = 0; count <= top; count += Math.ceil(top / 6)) svg("text", { x: this.left - 5, y: fixed(this.floor - count * unit + 4), "text-anchor": "end" }, this.labels, String(count));
    svg("text", { x: 884, y: y + 4 }, this.labels, `best ${run.best}`);
    this.key.replaceChildren();
    [...met].slice(0, 9).forEach((device, at) => {
      svg("rect", { class: `d${device % DEVICE_COLOURS}`, x: 924, y: 42 + at * 16, width: 10, height: 10 }, this.key);
      svg("text", { x: 938, y: 51 + at * 16 }, this.key, at === 8 ? `and ${met.size - 8} more` : run.devices[device][0].slice(0, 9));
    });
  }
  mark() {
    const spot = this.view.spot(this);
    const here = spot.cpus.map((cpu) => this.who?.indexOf(cpu) ?? -1).filter((at) => at >= 0);
    set(this.cursor, "d", here.map((at) => box(this.left + at * this.step, this.top - 10, this.step, this.floor - this.top + 10)).join(""));
  }
}

class Distribution extends Pane {
  constructor(view) {
    super(view, 1000, 300);
    this.inner = svg("g", {}, this.svg);
  }
  draw(run, found, number, all) {
    const noun = found.submitters ? "submitters" : "IRQs", words = `how many CPUs have how many ${noun}: ${all.map(([one]) => one.revision).join(", ")}`;
    put(this.title, words);
    set(this.svg, "aria-label", words);
    this.run = run;
    const top = Math.max(this.view.scale.top, ...all.map(([one]) => one.best));
    const tables = all.map(([, one]) => {
      const table = new Array(top + 1).fill(0);
      one.counts.forEach((count, at) => { if (this.machine.online[at]) table[count]++; });
      return table;
    });
    const most = Math.max(1, ...tables.flat()), unit = 196 / most, step = 900 / (top + 1), floor = 260;
    const wide_ = Math.min(230, 930 / all.length);
    this.inner.replaceChildren();
    tables.forEach((table, at) => {
      const wide = step * 0.8 / tables.length;
      table.forEach((count, irqs) => {
        if (!count) return;
        const x = 50 + irqs * step + step * 0.1 + at * wide;
        svg("rect", { class: `r${at % 6}`, x: fixed(x), y: fixed(floor - count * unit), width: fixed(wide * 0.94), height: fixed(count * unit) }, this.inner);
        svg("text", { x: fixed(x + wide * 0.47), y: fixed(floor - count * unit - 3), "text-anchor": "middle" }, this.inner, String(count));
      });
      svg("rect", { class: `r${at % 6}`, x: 50 + at * wide_, y: 24, width: 10, height: 10 }, this.inner);
      svg("text", { x: 64 + at * wide_, y: 33 }, this.inner, `${all[at][0].when || ""} ${all[at][0].revision}`);
    });
    const every = Math.ceil((top + 1) / 40);
    for (let irqs = 0; irqs <= top; irqs += every) svg("text", { class: "soft", x: fixed(50 + (irqs + 0.5) * step), y: floor + 15, "text-anchor": "middle" }, this.inner, String(irqs));
    svg("text", { class: "soft", x: 4, y: floor + 32 }, this.inner, `${noun} of a CPU; above the bars, how many CPUs. Dashed: the best possible maximum.`);
    svg("path", { class: "rule", d: `M50 ${floor}H950` }, this.inner);
    if (!found.submitters) for (const best of new Set(all.map(([one]) => one.best))) svg("path", { class: "best", d: `M${fixed(50 + (best + 1) * step)} 44V${floor}` }, this.inner);
  }
}

/** The map of one call of the function: which group each CPU has so far. */
class Deal extends Map_ {
  show(deal, upto) {
    const groups = new Map(), step = deal.steps[upto - 1];
    for (const { given } of deal.steps.slice(0, upto)) for (const [group, list] of given) for (const cpu of cpus(list)) groups.set(cpu, group);
    const focus = new Set(step ? cpus(step.focus) : []);
    put(this.title, `${upto} of ${deal.steps.length}`);
    for (const leaf of this.leaves) {
      const inside = [...new Set(leaf.members.map((at) => groups.get(this.machine.cpus[at])).filter((group) => group !== undefined))];
      put(leaf.text, inside.length > 1 ? `${Math.min(...inside)}-${Math.max(...inside)}` : String(inside[0] ?? ""));
      set(leaf.text, "class", "inside");
      const lit = leaf.members.some((at) => focus.has(this.machine.cpus[at]));
      set(leaf.mark, "class", `leaf${lit ? " focus" : ""}${inside.length ? ` d${inside[0] % DEVICE_COLOURS}` : ""}${leaf.down ? " down" : ""}`);
      if (!inside.length) leaf.mark.setAttribute("style", "fill:var(--paper)"); else leaf.mark.removeAttribute("style");
    }
    for (const [node, word] of this.boxes) put(word, `node ${node}${step?.nodes[node] !== undefined ? `: ${counted(step.nodes[node], "group")}` : ""}`);
    put(this.legend[0], "Inside a circle: its group so far; below: the CPU. Shaded: cluster; joined: core.");
    put(this.legend[1], "Thick rim: what this decision was about.");
    set(this.svg, "aria-label", step ? step.sentence : "nothing is decided yet");
  }
}

// --- the view: panes of all runs, and what is said of a CPU

const PANES = { bars: Bars, map: Map_, matrix: Matrix, distribution: Distribution, sharing: Sharing };
const BESIDE = new Set(["map", "matrix"]);

export class View {
  /** `why(run, irq)` may give a promise of sentences that say why an interrupt is where it is. */
  constructor(el, { why } = {}) {
    this.why = why;
    this.root = html("div", { class: "gc-live" }, el);
    html("style", {}, this.root, CSS + STEPS);
    this.alert = html("div", { class: "error", role: "alert" }, this.root);
    this.panes_ = html("div", { class: "panes" }, this.root);
    this.about = html("div", { class: "about", "aria-live": "polite" }, this.root);
    this.words = html("pre", {}, this.root);
    this.followed = null;
    this.pointed = null;
    this.panes = [];
    this.say();
  }
  setMachine(machine) {
    this.machine = machine;
    this.positions = new Map(machine.cpus.map((cpu, at) => [cpu, at]));
    this.followed = this.pointed = null;
    this.drawn = "";
  }
  /** Show a state: {runs, picture, show, text?, error?}. */
  setState(state) {
    this.alert.textContent = state.error ?? "";
    this.panes_.classList.toggle("stale", Boolean(state.error));
    if (state.error || !state.runs) return;
    this.state = state;
    const { runs, show } = state;
    const picture = state.picture ?? "bars";
    this.found = runs.map((run) => figures(this.machine, run, show));
    const best = Math.max(0, ...runs.map((run) => run.best));
    this.scale = {
      top: Math.max(1, ...this.found.map((one) => one.top), this.found[0].submitters ? 0 : best),
      irqs: Math.max(1, best, ...this.found.map((one) => one.greatest)), first: this.found[0],
    };
    const wanted = `${picture} ${runs.length}`;
    if (this.drawn !== wanted) {
      this.drawn = wanted;
      const kinds = picture === "all" ? PICTURES : [picture];
      this.panes = [];
      this.panes_.replaceChildren(...kinds.map((kind) => {
        const group = html("div", { class: BESIDE.has(kind) ? "panes beside" : "panes" });
        const count = kind === "distribution" ? 1 : runs.length;
        for (let number = 0; number < count; number++) {
          const pane = new PANES[kind](this);
          this.panes.push([pane, number]);
          group.append(pane.svg);
        }
        return group;
      }));
    }
    const all = runs.map((run, at) => [run, this.found[at]]);
    for (const [pane, number] of this.panes) { pane.draw(runs[number], this.found[number], number, all); pane.number = number; }
    put(this.words, state.text ?? all.map(([run, found]) => inWords(this.machine, run, found)).join("\n\n"));
    this.remark();
  }
  // What is marked: the CPUs (positions), and of a queue its mask; for the runs that have it.
  spot(pane) {
    const spot = { cpus: [], mask: [], irq: null };
    for (const sel of [this.followed, this.pointed]) {
      if (!sel) continue;
      const irq = this.find(sel, pane.run);
      if (irq >= 0) {
        spot.irq = irq;
        spot.mask = cpus(pane.run.masks[pane.run.mask[irq]]).map((cpu) => this.positions.get(cpu)).filter((at) => at !== undefined);
        if (pane.run.cpu[irq] >= 0) spot.cpus.push(pane.run.cpu[irq]);
      } else if (sel.cpu !== undefined && !sel.device) spot.cpus.push(sel.cpu);
    }
    return spot;
  }
  /** Find a followed queue in a run. */
  find(sel, run) {
    if (!sel.device || !run) return -1;
    let start = 0;
    for (const [name, size] of run.devices) {
      if (name === sel.device) return sel.queue <= size ? start + sel.queue - 1 : -1;
      start += size;
    }
    return -1;
  }
  named(sel, run) {
    if (!sel || sel.irq === undefined || !run) return sel;
    let start = 0;
    for (const [device, size] of run.devices) {
      if (sel.irq < start + size) return { device, queue: sel.irq - start + 1 };
      start += size;
    }
    return sel;
  }
  point(pane, sel) {
    const named = this.named(sel, pane.run);
    if (JSON.stringify(named) === JSON.stringify(this.pointed)) return;
    this.pointed = named;
    this.remark();
  }
  follow(sel, run) {
    const named = this.named(sel, run);
    this.followed = named && JSON.stringify(named) !== JSON.stringify(this.followed) ? named : null;
    this.onfollow?.(this.followed);
    this.remark();
  }
  key(pane, event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
    const move = steps[event.key], last = this.machine.cpus.length - 1;
    if (event.key === "Escape") { this.followed = this.pointed = null; this.onfollow?.(null); }
    else if (event.key === "Enter" || event.key === " ") { if (this.pointed) this.follow(this.pointed, pane.run); }
    else if (move === undefined) return;
    else if (pane instanceof Matrix && /Up|Down/.test(event.key)) {
      const irq = this.find(this.pointed ?? {}, pane.run);
      this.pointed = this.named({ irq: Math.min(Math.max(irq + move, 0), pane.run.cpu.length - 1) }, pane.run);
    } else {
      const from = this.pointed?.cpu ?? (move > 0 ? -1 : 1);
      this.pointed = { cpu: Math.min(Math.max(from + move, 0), last) };
    }
    event.preventDefault();
    event.stopPropagation();
    this.remark();
  }
  remark() {
    for (const [pane] of this.panes) pane.mark();
    this.say();
  }
  /** Say of the pointed or followed CPU or queue what is known. */
  say() {
    const sel = this.pointed ?? this.followed;
    const key = JSON.stringify([sel, this.followed]) + (this.state?.runs?.map((run) => run.revision + run.cpu.length).join() ?? "");
    const token = this.token = {};
    this.about.replaceChildren();
    if (!sel || !this.state) {
      html("p", { class: "note" }, this.about, "Point at a CPU, or move there with the arrow keys: its interrupts, their masks and why. A click follows a CPU or a queue through all pictures; Escape lets go.");
      return;
    }
    const line = (text) => html("p", {}, this.about, text), { machine } = this;
    if (!sel.device) {
      const at = sel.cpu, cpu = machine.cpus[at], up = machine.online[at];
      const cluster = machine.clusters[at], core = machine.cores[at];
      const mates = (list, id) => cpulist(machine.cpus.filter((_, i) => list[i] === id).sort((a, b) => a - b));
      line(`CPU ${cpu}: node ${this.nodeOf(at)}${cluster < 0 ? "" : `, cluster ${mates(machine.clusters, cluster)}`}, core ${mates(machine.cores, core)}${up ? "" : ", offline or absent"}`);
    }
    this.state.runs.forEach((run, number) => {
      const found = this.found[number], here = [];
      if (sel.device) { const irq = this.find(sel, run); if (irq >= 0) here.push(irq); }
      else run.cpu.forEach((cpu, irq) => { if (cpu === sel.cpu) here.push(irq); });
      const head = line(`${run.when || run.revision} (${run.revision}): `);
      if (sel.device && !here.length) { head.append(`no ${sel.device}q${sel.queue}`); return; }
      if (!sel.device) head.append(`${here.length ? counted(here.length, "IRQ") : "no IRQ"}${run.submitters ? `, ${counted(run.submitters[sel.cpu], "submitter")}` : ""}${here.length ? ": " : ""}`);
      for (const irq of here.slice(0, 24)) {
        const name = label(run, found.starts, irq), mask = run.masks[run.mask[irq]];
        const button = html("button", { type: "button", title: "follow this queue" }, head, `${name}: ${mask ? `CPU ${mask}` : "empty mask"}`);
        button.onclick = () => this.follow({ irq }, run);
        if (sel.device) head.append(run.cpu[irq] < 0 ? " shut down" : ` handled by CPU ${machine.cpus[run.cpu[irq]]}`);
      }
      if (here.length > 24) head.append(` and ${here.length - 24} more`);
      if (here.length && this.why) {
        const why = line("");
        Promise.resolve(this.why(number, here[0], this.state)).then((sentences) => { if (this.token === token && sentences) why.textContent = `Why: ${sentences.join("; ")}`; });
      }
    });
  }
  nodeOf(at) {
    let start = 0;
    for (const [node, count] of this.machine.nodes) { if (at < start + count) return node; start += count; }
    return "?";
  }
}

// --- in JupyterLab, Voilà and the lab in a browser: fed by a kernel

const CHUNK = 4, MAX_FETCHED = 160;
/** Nearest values first, as the next moves of a slider go. */
export function nearest(value, min, max) {
  const found = [];
  for (let away = 1; away <= max - min && found.length < MAX_FETCHED; away++) {
    if (value + away <= max) found.push(value + away);
    if (value - away >= min) found.push(value - away);
  }
  return found;
}

async function render({ model, el }) {
  const inputs = {}, states = new Map(), pending = new Map();
  let tokens = 0, fetching = "", drawn = "", alive = true;
  const ask = (message) => new Promise((resolve) => { pending.set(++tokens, resolve); model.send({ ...message, token: tokens }); });
  model.on("msg:custom", (message) => { pending.get(message.token)?.(message.answer); pending.delete(message.token); });
  for (const [name, id] of Object.entries(model.get("inputs"))) inputs[name] = await model.widget_manager.get_model(id);
  const value = (input) => input.get("index") ?? input.get("value");
  const chosen = (name) => inputs[name] && inputs[name].get("_options_labels")[inputs[name].get("index")];

  const deal = model.get("deal");
  if (deal.steps) return stepping({ model, el, inputs });
  const view = new View(el, { why: (number, irq) => ask({ kind: "why", run: number, irq }) });
  const key = () => [model.get("machine").epoch, ...model.get("keyed").map((name) => value(inputs[name]))].join("|");
  const take = () => { view.setMachine(model.get("machine")); states.clear(); };
  // A moved slider is answered from what was fetched; else the kernel's state comes soon.
  const show = (state) => {
    if (!state) return;
    const words = model.get("words");
    // The text of a state follows it; until then the old one would be wrong.
    const text = words.key === state.key ? words.text : undefined;
    view.setState({ ...state, text, picture: chosen("picture"), show: chosen("show") });
    view.root.dataset.shown = drawn = state.key;
  };
  const local = () => { if (model.get("machine").epoch !== undefined) show(states.get(key())); };
  const keep = () => {
    const state = model.get("state");
    if (state.key === undefined) return;
    states.set(state.key, state);
    if (state.key === key() || !states.has(key())) show(state);
  };
  async function fetch(name) {
    if (fetching || !inputs[name] || inputs[name].get("min") === undefined) return;
    fetching = name;
    try {
      for (let round = 0; alive && fetching === name && round < MAX_FETCHED / CHUNK; round++) {
        const at = model.get("keyed").indexOf(name) + 1, input = inputs[name], parts = key().split("|");
        const missing = nearest(value(input), input.get("min"), input.get("max")).filter((one) => {
          parts[at] = one;
          return !states.has(parts.join("|"));
        }).slice(0, CHUNK);
        if (!missing.length) break;
        const answer = await ask({ kind: "states", name, values: missing });
        if (!answer) break;
        for (const state of answer) states.set(state.key, state);
      }
    } finally { fetching = ""; }
  }
  take();
  keep();
  const heard = [];
  const hear = (target, event, call) => { target.on(event, call); heard.push([target, event, call]); };
  hear(model, "change:machine", take);
  hear(model, "change:state", keep);
  hear(model, "change:words", () => { if (model.get("words").key === drawn) put(view.words, model.get("words").text); });
  for (const name of model.get("keyed")) hear(inputs[name], inputs[name].get("index") === undefined ? "change:value" : "change:index", () => { local(); fetch(name); });
  for (const name of ["picture", "show"]) if (inputs[name]) hear(inputs[name], "change:index", () => show(states.get(drawn)));
  // Whoever comes near is about to move something.
  const home = el.closest(".jp-OutputArea-output, .widget-vbox, body") ?? el;
  const near = () => fetch("devices").then(() => fetch("queues"));
  home.addEventListener("pointerenter", near);
  home.addEventListener("focusin", near);
  return () => {
    alive = false;
    for (const [target, event, call] of heard) target.off(event, call);
    home.removeEventListener("pointerenter", near);
    home.removeEventListener("focusin", near);
  };
}

/** The stepper: one call of the function, played decision by decision. */
function stepping({ model, el, inputs }) {
  const view = new View(el), sentence = view.alert;
  view.about.remove();
  view.words.remove();
  sentence.className = "note";
  sentence.setAttribute("role", "status");
  const tools = html("div", { class: "tools" }, view.root);
  const play = html("button", { type: "button", "aria-pressed": "false" }, tools, "play");
  let pane, timer;
  const draw = () => {
    const deal = model.get("deal"), upto = Math.min(inputs.step.get("value"), deal.steps.length);
    pane.show(deal, upto);
    view.root.dataset.shown = upto;
    sentence.textContent = upto ? `${upto} of ${deal.steps.length}: ${deal.steps[upto - 1].sentence}` : "nothing is decided yet";
  };
  const take = () => {
    view.setMachine(model.get("machine"));
    pane = new Deal(view);
    view.panes_.replaceChildren(pane.svg);
    draw();
  };
  const stop = () => { clearInterval(timer); timer = 0; put(play, "play"); set(play, "aria-pressed", "false"); };
  play.onclick = () => {
    if (timer) return stop();
    const last = model.get("deal").steps.length, step = (to) => { inputs.step.set("value", to); inputs.step.save_changes(); };
    if (inputs.step.get("value") >= last) step(0);
    put(play, "stop");
    set(play, "aria-pressed", "true");
    timer = setInterval(() => { const at = inputs.step.get("value"); if (at >= last) stop(); else step(at + 1); }, 700);
  };
  take();
  const heard = [[model, "change:machine", take], [model, "change:deal", draw], [inputs.step, "change:value", draw]];
  for (const [target, event, call] of heard) target.on(event, call);
  return () => { stop(); for (const [target, event, call] of heard) target.off(event, call); };
}

export default { render };
