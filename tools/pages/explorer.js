// SPDX-License-Identifier: GPL-2.0-only
//
// Explorers in a page without a kernel: their states are packed into it (tools/packing.py), and
// what is shown stands in the address behind the #.  The site's build puts this behind live.js.

/** Guess the CPU of each mask, as tools/packing.py does: it says where the guess is wrong. */
export function guess(masks, online, last) {
  const counts = new Array(online.length).fill(0);
  return masks.map((mask) => {
    let best = -1;
    for (const at of mask) {
      if (!online[at]) continue;
      if (best < 0 || (last !== null && (counts[at] < counts[best] || (last && counts[at] === counts[best])))) best = at;
    }
    if (best >= 0) counts[best]++;
    return best;
  });
}

/** The packed states of one machine. */
export class Packed {
  static async open(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Packed(await new Response(stream).arrayBuffer());
  }
  constructor(buffer) {
    const view = new DataView(buffer), size = view.getUint32(0, true);
    const header = this.header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
    this.machine = header.machine;
    this.byCpu = [...this.machine.cpus.keys()].sort((a, b) => this.machine.cpus[a] - this.machine.cpus[b]);
    const width = this.machine.cpus.length + 2;
    let at = 4 + size;
    this.lists = new Uint8Array(buffer, at, width * header.lists);
    for (let i = width; i < this.lists.length; i++) this.lists[i] += this.lists[i - width];
    this.width = width;
    at += this.lists.length;
    const short = (count) => { const found = new Uint16Array(count); for (let i = 0; i < count; i++, at += 2) found[i] = view.getUint16(at, true); return found; };
    const states = header.revisions.length * header.queues * header.devices;
    this.bounds = short(2 * states);
    this.ids = short((buffer.byteLength - at - 4 * header.wrong) / 2);
    this.wrong = new Uint32Array(header.wrong);
    for (let i = 0; i < header.wrong; i++, at += 4) this.wrong[i] = view.getUint32(at, true);
    // Where each state begins, and its share of the wrong guesses.
    this.starts = new Uint32Array(states + 1);
    this.errors = new Uint32Array(states + 1);
    for (let state = 0, i = 0, wrong = 0; state < states; state++) {
      this.starts[state] = i;
      this.errors[state] = wrong;
      i += 1 + 2 * this.ids[i];
      wrong += 2 * this.ids[i++];
    }
  }
  /** Unpack a list of masks: the positions of each one's CPUs, ascending by CPU, and as text. */
  list(id) {
    const raw = this.header.raw[id];
    if (raw) return raw.map((text) => [cpus(text).map((cpu) => this.machine.cpus.indexOf(cpu)), text]);
    const start = id * this.width, size = this.lists[start] + 256 * this.lists[start + 1];
    const masks = Array.from({ length: size }, () => []);
    for (const at of this.byCpu) masks[this.lists[start + 2 + at]]?.push(at);
    return masks.map((mask) => [mask, cpulist(mask.map((at) => this.machine.cpus[at]))]);
  }
  state(revision, devices, queues) {
    return (this.header.revisions.indexOf(revision) * this.header.queues + queues - 1) * this.header.devices + devices - 1;
  }
  /** Say which part of the machine an interrupt's group was made of. */
  place(state, number, mask) {
    const split = this.header.split[this.ids[this.starts[state] + 2 + 2 * number]], { machine } = this;
    if (!(split >= 0)) return null;
    const parts = new Map();
    let start = 0;
    machine.nodes.forEach(([node, size], bit) => {
      for (let at = start; at < start + size; at++) {
        if (!mask.includes(machine.cpus[at])) continue;
        const whole = machine.cpus.slice(start, start + size).filter((_, i) => machine.clusters[start + i] === machine.clusters[at]);
        const [name, cpu] = Math.floor(split / 2 ** bit) % 2 ? [`cluster ${cpulist(whole.sort((a, b) => a - b))}`, machine.cpus[at]] : [`node ${node}`, machine.cpus[at]];
        parts.set(name, [...(parts.get(name) ?? []), cpu]);
      }
      start += size;
    });
    return [...parts].map(([name, found]) => `CPU ${cpulist(found.sort((a, b) => a - b))} of ${name}`).join(", ");
  }
  run(revision, devices, queues, when) {
    const { header } = this, state = this.state(revision, devices, queues);
    const found = [], masks = [], mask = [], texts = new Map(), unpacked = new Map();
    let at = this.starts[state];
    for (let left = this.ids[at++]; left; left--) {
      const name = header.names[this.ids[at++]], id = this.ids[at++];
      if (!unpacked.has(id)) unpacked.set(id, this.list(id));
      const list = unpacked.get(id);
      found.push([name, list.length]);
      for (const [where, text] of list) {
        if (!texts.has(text)) texts.set(text, texts.size);
        masks.push(where);
        mask.push(texts.get(text));
      }
    }
    const cpu = guess(masks, this.machine.online, header.last);
    for (let i = this.errors[state], end = i + 2 * this.ids[at]; i < end; i += 2) cpu[this.wrong[i]] = this.wrong[i + 1] - 1;
    const submitters = new Array(this.machine.cpus.length).fill(0);
    cpu.forEach((one, irq) => { if (one >= 0) submitters[one] += masks[irq].length; });
    return { when, revision, irqchip: header.irqchip, best: this.bounds[2 * state], mostUsed: this.bounds[2 * state + 1], devices: found, cpu, mask, masks: [...texts.keys()], ...(header.mapped ? { submitters } : {}), ...(header.lost[state] ? { lost: header.lost[state] } : {}) };
  }
}

/** Read the settings of an explorer from the part of an address behind the #. */
export function parseAddress(hash, id) {
  const [name, query] = hash.replace(/^#/, "").split("?");
  return name === id && query ? Object.fromEntries(new URLSearchParams(query)) : null;
}

const SHOWN = ["bars", "map", "matrix", "distribution", "sharing", "all"];

/** Put a live explorer into a page, in place of its stored picture. */
export async function mount(place) {
  const data = JSON.parse(place.querySelector("script").textContent);
  const packed = await Packed.open(data.packed), { header } = packed, id = place.id;
  const row = html("div", { class: "controls" });
  const set = { ...data.set }, fields = {};
  const field = (name, tag, attributes, options) => {
    const label = html("label", {}, row, attributes["aria-label"] ?? name), input = html(tag, { "aria-label": name, ...attributes }, label);
    for (const [value, text, title] of options ?? []) html("option", { value, ...(title ? { title } : {}) }, input, text);
    const chosen = () => [...input.selectedOptions].map((option) => option.value).slice(0, data.when.length - 2).join();
    input.addEventListener(tag === "input" ? "input" : "change", () => { set[name] = tag === "input" ? Number(input.value) : chosen(); show(); remember(); });
    fields[name] = [input, tag === "input" ? html("output", {}, label) : null];
  };
  const revisions = header.revisions.map((name, at) => [name, data.labels[at], data.whys[at]]);
  field("devices", "input", { type: "range", min: 1, max: header.devices });
  field("queues", "input", { type: "range", min: 1, max: header.queues });
  field("before", "select", {}, revisions);
  field("after", "select", {}, revisions);
  field("more", "select", { multiple: "", size: 3, "aria-label": "and also", title: "more revisions on the same scale, with Ctrl or Shift" }, revisions);
  field("picture", "select", {}, SHOWN.map((name) => [name, name]));
  field("show", "select", {}, ["IRQs", "submitters"].map((name) => [name, name]));
  const reset = html("button", { type: "button" }, row, "reset");
  place.replaceChildren(row);
  const rest = Object.entries(data.fixed).map(([name, value]) => `${name.replace("spread_start", "counter")} ${value}`).join(", ");
  const note = html("p", { class: "note" }, null, `${header.machine.name}: ${rest}. Other irqchips, probe orders, counters, machines and more devices need a kernel: ${data.how}. The address of this page keeps what is shown.`);
  const view = new View(place, { why: (number, irq) => whyOf(packed, set, view.state.runs[number], irq) });
  view.root.prepend(row, note);
  view.setMachine(packed.machine);
  const valid = () => {
    for (const name of ["devices", "queues"]) { const whole = Number(set[name]); set[name] = Number.isInteger(whole) && whole >= 1 && whole <= header[name] ? whole : data.set[name]; }
    for (const name of ["before", "after"]) if (!header.revisions.includes(set[name])) set[name] = data.set[name];
    set.more = (set.more ?? "").split(",").filter((name) => header.revisions.includes(name)).slice(0, data.when.length - 2).join();
    if (!SHOWN.includes(set.picture)) set.picture = "bars";
    if (set.show !== "submitters") set.show = "IRQs";
  };
  function show() {
    valid();
    for (const [name, [input, output]] of Object.entries(fields)) {
      if (input.multiple) for (const option of input.options) option.selected = set[name].split(",").includes(option.value);
      else input.value = set[name];
      if (output) output.textContent = set[name];
    }
    const shown = [set.before, set.after, ...set.more.split(",").filter(Boolean)];
    const runs = shown.map((revision, at) => packed.run(revision, set.devices, set.queues, data.when[at]));
    view.setState({ runs, picture: set.picture, show: set.show });
    view.root.dataset.shown = JSON.stringify(set);
  }
  function remember() {
    const chosen = Object.fromEntries(Object.keys(fields).filter((name) => set[name] !== "").map((name) => [name, set[name]]));
    const followed = view.followed;
    if (followed) chosen.follow = followed.device ? `${followed.device}q${followed.queue}` : `cpu${packed.machine.cpus[followed.cpu]}`;
    history.replaceState(null, "", `#${id}?${new URLSearchParams(chosen)}`);
  }
  function recall() {
    const asked = parseAddress(location.hash, id);
    if (!asked) return false;
    for (const name of Object.keys(fields)) if (asked[name] !== undefined || name === "more") set[name] = asked[name] ?? "";
    const queue = /^(.+)q(\d+)$/.exec(asked.follow ?? ""), cpu = /^cpu(\d+)$/.exec(asked.follow ?? "");
    const at = cpu ? packed.machine.cpus.indexOf(Number(cpu[1])) : -1;
    view.followed = queue ? { device: queue[1], queue: Number(queue[2]) } : at >= 0 ? { cpu: at } : null;
    return true;
  }
  view.onfollow = (followed) => { view.followed = followed; remember(); };
  reset.addEventListener("click", () => { Object.assign(set, data.set); view.followed = null; show(); remember(); });
  addEventListener("hashchange", () => { if (recall()) show(); });
  const linked = recall();
  show();
  if (linked) place.scrollIntoView();
}

const RULES = {
  x86: "x86 takes the online CPU of the mask with the fewest managed interrupts, the last one on a tie",
  its: "the ITS takes the CPU of the mask with the fewest managed interrupts, the first one on a tie",
  gicv3: "GICv3 without ITS takes the first online CPU of the mask",
};
/** Say why, as far as a page can without a kernel. */
export function whyOf(packed, set, run, irq) {
  const mask = run.masks[run.mask[irq]];
  if (mask === "") return ["the mask is empty"];
  let number = 0, first = 0;
  while (irq >= first + run.devices[number][1]) first += run.devices[number++][1];
  const [device, size] = run.devices[number];
  const where = packed.place(packed.state(run.revision, set.devices, set.queues), number, cpus(mask));
  return [
    `${device} asked for ${counted(size, "group")}`, ...(where ? [`group ${irq - first}: ${where}`] : []),
    /[-,]/.test(mask) ? RULES[run.irqchip] ?? `${run.irqchip} chose` : "there is no other choice",
  ];
}

if (typeof document !== "undefined") for (const place of document.querySelectorAll(".explorer")) mount(place);
