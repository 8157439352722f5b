// The run page: one player for live and replay. The events stand in the document; a step shows those up to a
// number and gives each candidate the state their marks add up to. A live run is a replay that keeps growing.

const pace = { least: 450, most: 3000, spoken: 30_000 };
const STATES = ["requested", "read", "chosen", "instead", "dropped", "initial", "threshold", "gap", "top_k"];

class Player {
  constructor() {
    this.following = this.live && !new URL(location.href).searchParams.has("step");
    // A run in a file is drawn at its end, whatever step its address names.
    const named = Number(new URL(location.href).searchParams.get("step"));
    this.step = this.following ? this.last : named || Number(this.section.dataset.step);
    this.timer = 0;
    this.waited = 0;
    this.states = new Map();
    this.show(this.step, { remember: false });
    if (this.step < this.last) this.openLane();
  }

  get section() { return document.querySelector("[data-run]"); }
  get summary() { return document.getElementById("run-summary"); }
  get live() { return "live" in this.summary.dataset; }
  get last() { return Number(this.summary.dataset.last); }
  get events() { return [...this.section.querySelectorAll("[data-event]")].sort((a, b) => Number(a.dataset.seq) - Number(b.dataset.seq)); }
  get playing() { return this.timer !== 0; }
  get current() { return this.section.querySelector(`[data-event][data-seq="${this.step}"]`); }

  show(step, { remember = true } = {}) {
    this.waited = 0;
    this.step = Math.min(Math.max(step, 1), Math.max(this.last, 1));
    this.states = new Map();
    for (const event of this.events) {
      const seq = Number(event.dataset.seq);
      event.classList.toggle("is-ahead", seq > this.step);
      event.classList.toggle("is-current", seq === this.step && seq < this.last);
      if (seq <= this.step) for (const [id, state] of Object.entries(JSON.parse(event.dataset.marks))) this.states.set(id, state);
    }
    // The words as they come belong to the end of the run.
    this.section.classList.toggle("is-back", this.step < this.last);
    this.colour();
    this.showKind();
    this.drawTransport();
    this.peekAgain();
    if (remember) {
      this.remember();
      this.openLane();
    }
    document.dispatchEvent(new CustomEvent("run:shown", { detail: { event: this.current, live: this.live, following: this.following } }));
  }

  // Each candidate as the events so far leave it, in colour and in a word, and how many there are of each.
  colour() {
    const words = JSON.parse(this.section.dataset.words);
    for (const row of this.section.querySelectorAll(".candidate")) {
      const now = this.states.get(row.dataset.topic) ?? "";
      for (const state of STATES) row.classList.toggle(`is-${state}`, state === now);
      if (!row.closest(".below")) row.querySelector(".candidate-state").textContent = words[now];
    }
    for (const found of this.section.querySelectorAll(".found")) {
      for (const chip of found.querySelectorAll("[data-filter]")) {
        const count = found.querySelectorAll(`.candidates:not(.below *) > ${selector(chip.dataset.filter)}`).length;
        chip.querySelector("b").textContent = String(count);
        chip.hidden = count === 0;
        if (chip.hidden) press(chip, false);
      }
      filter(found);
    }
  }

  // An open preview shows its candidate as it was at this step.
  peekAgain() {
    const peeked = document.querySelector("#peek [data-peeked]");
    if (!peeked || peeked.dataset.state === (this.states.get(peeked.dataset.peeked) ?? "")) return;
    htmx.ajax("GET", peeked.dataset.address, { target: "#peek", swap: "innerHTML" });
  }

  // One kind of candidates at a time, where there are several; without scripts they stand one after the other.
  showKind(kind) {
    const lane = this.section.querySelector(".lane-candidates");
    // an agent's conversation has none
    if (!lane) return;
    const links = lane.querySelectorAll("[data-show]");
    if (links.length) lane.dataset.shown = kind ?? lane.dataset.shown ?? "topics";
    for (const link of links) {
      if (link.dataset.show === lane.dataset.shown) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  drawTransport() {
    const scrub = this.section.querySelector("[data-scrub]");
    scrub.max = document.getElementById("run-waterfall").dataset.whole;
    // at the end of a run that goes on the handle is at now
    scrub.value = this.live && this.step >= this.last ? scrub.max : (this.current?.dataset.offset ?? "0");
    const label = `${Math.min(this.step, this.last)} / ${this.last}`;
    scrub.setAttribute("aria-valuetext", label);
    this.section.querySelector("[data-step-label]").value = label;
    this.section.querySelector("[data-transport]").classList.toggle("is-playing", this.playing);
    const going = this.current?.dataset.going;
    for (const words of this.section.querySelectorAll("[data-stage-label]")) if (going !== undefined) words.textContent = going;
    for (const stage of this.section.querySelectorAll(":is(.stage, .stage-label)[data-seq]")) {
      stage.classList.toggle("is-past", Number(stage.dataset.seq) <= this.step);
    }
  }

  // Where one column is shown at a time, that of the event.
  openLane() {
    const lane = this.current?.closest("[data-lane]");
    if (lane && !lane.checkVisibility()) openTab(lane.dataset.lane);
  }

  remember() {
    const url = new URL(location.href);
    if (this.step === this.last) url.searchParams.delete("step");
    else url.searchParams.set("step", String(this.step));
    history.replaceState(history.state, "", url);
  }

  move(step) {
    this.pause();
    this.following = this.live && step >= this.last;
    this.show(step);
  }

  // The event nearest to a moment of the time axis; of several at one moment the last.
  moveTo(moment) {
    const away = (event) => Math.abs(Number(event.dataset.offset) - moment);
    const nearest = this.events.reduce((best, event) => (best && away(best) < away(event) ? best : event), null);
    if (nearest) this.move(Number(nearest.dataset.seq));
  }

  turn(direction) {
    const turns = this.events.filter((event) => event.dataset.kind === "turn_started").map((event) => Number(event.dataset.seq));
    const stops = [1, ...turns, this.last];
    const next = direction > 0 ? stops.find((seq) => seq > this.step) : stops.findLast((seq) => seq < this.step);
    this.move(next ?? (direction > 0 ? this.last : 1));
  }

  toggle() {
    if (this.playing) return this.pause();
    if (this.step >= this.last && !this.live) this.show(1);
    this.following = false;
    this.schedule();
  }

  // What has been typed stays until the player goes on or elsewhere.
  pause() {
    cancelAnimationFrame(this.timer);
    this.timer = 0;
    this.drawTransport();
  }

  // An event waits as long as it did in the run, but never so short that nobody sees it; meanwhile the handle moves on,
  // and the model’s words are typed over the seconds that they took.
  schedule() {
    const event = (step) => this.section.querySelector(`[data-event][data-seq="${step}"]`);
    const at = (step) => Number(event(step)?.dataset.offset ?? 0);
    const from = at(this.step), took = at(this.step + 1) - from;
    const next = event(this.step + 1);
    const isSpoken = next?.dataset.kind === "model_replied";
    const gap = Math.min(Math.max(took, pace.least), isSpoken ? pace.spoken : pace.most);
    const scrub = this.section.querySelector("[data-scrub]");
    let before = performance.now();
    const draw = (now) => {
      this.waited += Math.max(now - before, 0) * Number(this.section.querySelector("[data-speed]").value);
      before = now;
      const share = this.waited / gap;
      if (share >= 1) return this.next();
      if (isSpoken) document.dispatchEvent(new CustomEvent("run:spoken", { detail: { event: next, share } }));
      scrub.value = String(from + took * share);
      this.timer = requestAnimationFrame(draw);
    };
    this.timer = requestAnimationFrame(draw);
    this.drawTransport();
  }

  next() {
    this.show(this.step + 1);
    if (this.step < this.last) return this.schedule();
    this.following = this.live;
    this.pause();
  }

  // After something new came: stay at the end if that is where the viewer is.
  grown() {
    const atEnd = this.following;
    if (!this.live) {
      this.following = false;
      if (atEnd) openTab("result");
    }
    this.show(atEnd && !this.playing ? this.last : this.step, { remember: false });
  }
}

// Candidates by what became of them
const selector = (state) => (state === "none" ? `.candidate${STATES.map((name) => `:not(.is-${name})`).join("")}` : `.candidate.is-${state}`);
const press = (chip, pressed) => chip.setAttribute("aria-pressed", String(pressed));
function filter(found) {
  const wanted = [...found.querySelectorAll('[data-filter][aria-pressed="true"]')].map((chip) => selector(chip.dataset.filter));
  for (const row of found.querySelectorAll(".candidates:not(.below *) > li")) {
    row.hidden = wanted.length > 0 && !wanted.some((each) => row.matches(each));
  }
}

function openTab(name) {
  for (const part of document.querySelectorAll("[data-tab], [data-lane]")) {
    const open = (part.dataset.tab ?? part.dataset.lane) === name;
    part.classList.toggle("is-open", open);
    if (part.dataset.tab) press(part, open);
  }
}

const player = new Player();
const does = {
  first: () => player.move(1),
  back: () => player.move(player.step - 1),
  play: () => player.toggle(),
  on: () => player.move(player.step + 1),
  end: () => player.move(player.last),
};

document.addEventListener("click", (event) => {
  const closest = (name) => event.target.closest(name);
  const key = closest("[data-do]");
  if (key && does[key.dataset.do]) {
    event.preventDefault();
    does[key.dataset.do]();
  }
  const stage = closest(".stage-key");
  if (stage) player.move(Number(stage.dataset.seq));
  const kind = closest("[data-show]");
  if (kind) {
    event.preventDefault();
    player.showKind(kind.dataset.show);
  }
  if (closest("[data-closes-why]")) {
    document.querySelector("#why-not-answer").replaceChildren();
    markLost();
  }
  const tab = closest("[data-tab]");
  if (tab) openTab(tab.dataset.tab);
  const chip = closest("[data-filter]");
  if (chip) {
    press(chip, chip.getAttribute("aria-pressed") !== "true");
    filter(chip.closest(".found"));
  }
  const below = closest("[data-opens-below]")?.closest(".found").querySelector(".below");
  if (below) {
    below.open = true;
    below.scrollIntoView({ block: "start" });
  }
});

document.addEventListener("input", (event) => {
  if (event.target.matches("[data-scrub]")) player.moveTo(Number(event.target.value));
});

// A topic lights up wherever it stands.
let lit = "";
function light(event) {
  const id = event.target.closest?.("[data-topic]")?.dataset.topic ?? "";
  if (id === lit) return;
  lit = id;
  for (const part of document.querySelectorAll("[data-topic]")) part.classList.toggle("is-lit", part.dataset.topic === id && id !== "");
}
document.addEventListener("pointerover", light);
document.addEventListener("focusin", light);

function walk(direction) {
  const rows = [...document.querySelectorAll(".candidate")].filter((row) => row.checkVisibility());
  const at = rows.findIndex((row) => row.classList.contains("is-current"));
  const next = rows[Math.min(Math.max(at + direction, 0), rows.length - 1)];
  if (!next) return;
  rows[at]?.classList.remove("is-current");
  next.classList.add("is-current");
  next.querySelector("a").focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

// By code: letters have the same place in a Russian layout.
const keys = {
  Space: () => player.toggle(),
  ArrowLeft: (event) => (event.shiftKey ? player.turn(-1) : player.move(player.step - 1)),
  ArrowRight: (event) => (event.shiftKey ? player.turn(1) : player.move(player.step + 1)),
  Home: () => player.move(1),
  End: () => player.move(player.last),
  KeyL: () => player.move(player.last),
  KeyJ: () => walk(1),
  KeyK: () => walk(-1),
  KeyW: () => askWhyNot(),
  KeyC: () => document.querySelector("[data-compares]")?.click(),
  KeyF: () => [...document.querySelectorAll(".event:not(.is-ahead) [data-forks]")].at(-1)?.click(),
};
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=range]), textarea, select, [contenteditable]");
  const pressing = event.code === "Space" && event.target.matches("button, summary");
  const away = document.querySelector("dialog[open]");
  if (typing || pressing || away || event.ctrlKey || event.metaKey || event.altKey || !keys[event.code]) return;
  event.preventDefault();
  keys[event.code](event);
});

function askWhyNot() {
  const field = document.querySelector("#why-not-text");
  if (field && !field.checkVisibility()) openTab("candidates");
  field?.focus();
  field?.select();
}

// The stage that lost what was asked about, and its moment on the time axis.
function markLost() {
  const lost = document.querySelector("#why-not-answer .why")?.dataset.lostSeq ?? "0";
  for (const part of document.querySelectorAll(".stage[data-seq], .stage-label, .stage-key, .tick")) {
    part.classList.toggle("is-lost", lost !== "0" && part.dataset.seq === lost);
  }
}

function showLost(answer) {
  if (!answer.checkVisibility()) openTab("candidates");
  markLost();
  answer.scrollIntoView({ block: "nearest" });
}

function showEditor() {
  document.querySelector("[data-tab=result]")?.click();
  const editor = document.querySelector(".fork");
  editor?.scrollIntoView({ block: "nearest" });
  editor?.querySelector("[aria-current], textarea, select, input:not([type=hidden])")?.focus();
}

// A part of the run is shown as it was at the step.
document.addEventListener("htmx:configRequest", (event) => {
  const asked = new URL(event.detail.path, location.href);
  if (event.detail.verb !== "get" || !asked.pathname.startsWith(player.section.dataset.url)) return;
  if (player.step < player.last) asked.searchParams.set("step", String(player.step));
  else asked.searchParams.delete("step");
  event.detail.path = asked.pathname + asked.search;
});

document.addEventListener("htmx:afterSwap", (event) => {
  if (event.target.closest?.(".below")) player.colour();
  if (event.target.querySelector?.(".fork")) showEditor();
  const panel = /** @type {PageElement} */ (event.target);
  if (panel.id === "why-not-answer") showLost(panel);
  const mark = panel.id === "peek" && panel.querySelector("mark");
  if (mark) panel.scrollTop += mark.getBoundingClientRect().top - panel.clientHeight / 2;
});

// Socket and look may both bring an event; the first stays.
function dropDoubles() {
  const seen = new Set();
  for (const event of player.section.querySelectorAll("[data-event]")) {
    if (seen.has(event.dataset.seq)) event.remove();
    seen.add(event.dataset.seq);
  }
}

let known = player.last;
const keepLive = () => player.section.classList.add("was-live");
if (player.live) keepLive();
let drawn = player.summary;
function grown() {
  // Words alone came: no event, so no candidate and no stage is drawn again.
  if (player.summary === drawn) return;
  drawn = player.summary;
  keepLive();
  dropDoubles();
  for (const event of player.events) {
    if (Number(event.dataset.seq) > Math.max(player.step, known)) arrive(event);
  }
  known = player.last;
  player.grown();
}
document.addEventListener("htmx:wsAfterMessage", grown);
document.addEventListener("run:fetched", grown);

// What the reader saw being spoken is there already.
function arrive(event) {
  if (event.dataset.kind === "model_replied") return;
  event.classList.add("is-arriving");
  setTimeout(() => event.classList.remove("is-arriving"), 400);
}
