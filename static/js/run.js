// The run page: one player for live and replay. The events stand in the document; a step shows those up to a
// number and gives each candidate the state their marks add up to. A live run is a replay that keeps growing.

const pace = { least: 450, most: 3000 };
const STATES = ["requested", "read", "chosen", "instead", "dropped"];

class Player {
  constructor() {
    this.following = this.live && !new URL(location.href).searchParams.has("step");
    this.step = this.following ? this.last : Number(this.section.dataset.step);
    this.timer = 0;
    this.show(this.step, { remember: false });
  }

  get section() { return document.querySelector("[data-run]"); }
  get summary() { return document.getElementById("run-summary"); }
  get live() { return "live" in this.summary.dataset; }
  get last() { return Number(this.summary.dataset.last); }
  get events() { return [...this.section.querySelectorAll("[data-event]")].sort((a, b) => a.dataset.seq - b.dataset.seq); }
  get playing() { return this.timer !== 0; }

  show(step, { remember = true } = {}) {
    this.step = Math.min(Math.max(step, 1), Math.max(this.last, 1));
    const states = new Map();
    for (const event of this.events) {
      const ahead = Number(event.dataset.seq) > this.step;
      event.classList.toggle("is-ahead", ahead);
      if (!ahead) for (const [id, state] of Object.entries(JSON.parse(event.dataset.marks))) states.set(id, state);
    }
    for (const row of this.section.querySelectorAll(".candidate")) {
      const now = states.get(row.dataset.topic);
      for (const state of STATES) row.classList.toggle(`is-${state}`, state === now);
    }
    for (const stage of this.section.querySelectorAll(".stage")) {
      stage.classList.toggle("is-past", Number(stage.dataset.seq) <= this.step);
    }
    // What is being said belongs to the end of the run.
    this.section.classList.toggle("is-back", this.step < this.last);
    this.showKind();
    this.drawTransport();
    if (remember) this.remember();
  }

  // One kind of candidates at a time, where there are several; without scripts they stand one after the other.
  showKind(kind) {
    const lane = this.section.querySelector(".lane-candidates");
    const links = lane.querySelectorAll("[data-show]");
    if (links.length) lane.dataset.shown = kind ?? lane.dataset.shown ?? "topics";
    for (const link of links) {
      if (link.dataset.show === lane.dataset.shown) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  drawTransport() {
    const scrub = this.section.querySelector("[data-scrub]");
    scrub.max = Math.max(this.last, 1);
    scrub.value = this.step;
    this.section.querySelector("[data-step-label]").value = `${Math.min(this.step, this.last)} / ${this.last}`;
    this.section.querySelector("[data-transport]").classList.toggle("is-playing", this.playing);
  }

  remember() {
    const url = new URL(location.href);
    if (this.step === this.last) url.searchParams.delete("step");
    else url.searchParams.set("step", this.step);
    history.replaceState(history.state, "", url);
  }

  move(step) {
    this.pause();
    this.following = this.live && step >= this.last;
    this.show(step);
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

  pause() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.drawTransport();
  }

  // An event waits as long as it did in the run, but never so short that nobody sees it.
  schedule() {
    const at = (step) => Number(this.section.querySelector(`[data-event][data-seq="${step}"]`)?.dataset.offset ?? 0);
    const gap = Math.min(Math.max(at(this.step + 1) - at(this.step), pace.least), pace.most);
    this.timer = setTimeout(() => {
      this.show(this.step + 1);
      if (this.step < this.last) return this.schedule();
      this.following = this.live;
      this.pause();
    }, gap / Number(this.section.querySelector("[data-speed]").value));
    this.drawTransport();
  }

  // After the socket brought something: stay at the end if that is where the viewer is.
  grown() {
    const atEnd = this.following;
    if (!this.live) this.following = false;
    if (this.playing) this.show(this.step, { remember: false });
    else this.show(atEnd ? this.last : this.step, { remember: false });
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
  const key = event.target.closest("[data-do]");
  if (key && does[key.dataset.do]) {
    event.preventDefault();
    does[key.dataset.do]();
  }
  const stage = event.target.closest(".stage, .stage-key");
  if (stage) player.move(Number(stage.dataset.seq));
  const kind = event.target.closest("[data-show]");
  if (kind) {
    event.preventDefault();
    player.showKind(kind.dataset.show);
  }
  const tab = event.target.closest("[data-tab]");
  if (tab) openTab(tab.dataset.tab);
});

document.addEventListener("input", (event) => {
  if (event.target.matches("[data-scrub]")) player.move(Number(event.target.value));
});

function openTab(name) {
  for (const part of document.querySelectorAll("[data-tab], [data-lane]")) {
    part.classList.toggle("is-open", (part.dataset.tab ?? part.dataset.lane) === name);
  }
}

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
  KeyJ: () => walk(1),
  KeyK: () => walk(-1),
};
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=range]), textarea, select, [contenteditable]");
  const pressing = event.code === "Space" && event.target.matches("button, summary");
  if (typing || pressing || event.ctrlKey || event.metaKey || event.altKey || !keys[event.code]) return;
  event.preventDefault();
  keys[event.code](event);
});

document.addEventListener("htmx:afterSwap", (event) => {
  const panel = event.target;
  const mark = panel.id === "peek" && panel.querySelector("mark");
  if (mark) panel.scrollTop += mark.getBoundingClientRect().top - panel.clientHeight / 2;
});

// The newest words of a turn are at its end.
function keepToEnd() {
  for (const words of document.querySelectorAll(".speaking-words")) words.scrollTop = words.scrollHeight;
}

let known = player.last;
document.addEventListener("htmx:wsAfterMessage", () => {
  for (const event of player.events) {
    if (Number(event.dataset.seq) > Math.max(player.step, known)) arrive(event);
  }
  known = player.last;
  player.grown();
  keepToEnd();
});
keepToEnd();

function arrive(event) {
  event.classList.add("is-arriving");
  setTimeout(() => event.classList.remove("is-arriving"), 400);
}
