// A run that goes on: the clock and the bar that grows, the view that follows the model’s words, and a look each second
// where the socket is blocked.

const section = () => document.querySelector("[data-run]");
const summary = () => document.getElementById("run-summary");
const isLive = () => "live" in (summary()?.dataset ?? {});
const turns = () => section().querySelector(".lane-turns");

// the clock: by the server's time at the last event, and by this machine's since then
const TICK = 150;
let began = 0;
let lastSummary = null;
function keepTime() {
  if (!isLive() || summary() === lastSummary) return;
  lastSummary = summary();
  began = performance.now() - Number(lastSummary.dataset.elapsed);
}
const seconds = new Intl.NumberFormat(document.documentElement.lang, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
function tick() {
  const figure = document.getElementById("run-waterfall");
  const going = figure?.querySelector(".stage-going");
  if (!isLive() || !going) return;
  const elapsed = Math.max(Math.round(performance.now() - began), 1);
  const clock = summary().querySelector("[data-clock]");
  write(clock, clock.dataset.form.replace("0", seconds.format(elapsed / 1000)));
  figure.dataset.whole = String(elapsed);
  figure.querySelector("svg").setAttribute("viewBox", `0 0 ${elapsed} 28`);
  for (const label of figure.querySelectorAll(".stage-label")) place(label, elapsed);
  going.setAttribute("width", String(Math.max(elapsed - Number(going.getAttribute("x")), 1)));
  const scrub = section().querySelector("[data-scrub]");
  scrub.max = String(elapsed);
  if (!section().classList.contains("is-back")) scrub.value = String(elapsed);
}
function place(label, elapsed) {
  const share = (name) => `${(100 * Number(label.dataset[name])) / elapsed}%`;
  label.setAttribute("x", share("start"));
  label.setAttribute("width", share("width"));
}
// Words and clock move together: each move lays the page out once.
setInterval(() => { draw(); tick(); }, TICK);

// following: the newest words are at the end of their column, on a phone at the end of the page, until the reader
// scrolls away from it
const NEAR = 48;
const isPhone = matchMedia("(max-width: 760px)");
let follows = true;
const scrollsItself = (lane) => getComputedStyle(lane).overflowY !== "visible";
const box = () => {
  if (!turns().checkVisibility()) return null;
  if (scrollsItself(turns())) return turns();
  return isPhone.matches ? document.scrollingElement : null;
};
const isAtEnd = (at) => at.scrollHeight - at.scrollTop - at.clientHeight < NEAR;
function drawPill() {
  turns().querySelector("[data-follow]").hidden = follows || !isLive() || section().classList.contains("is-back");
}
function toEnd() {
  const at = box();
  if (at && follows && isLive() && !section().classList.contains("is-back")) at.scrollTop = at.scrollHeight;
}
document.addEventListener("scroll", (event) => {
  const at = event.target === document ? document.scrollingElement : event.target;
  if (at !== box()) return;
  follows = isAtEnd(at);
  drawPill();
}, { capture: true, passive: true });
document.addEventListener("click", (event) => {
  const asked = event.target.closest("[data-follow], [data-do=end]");
  if (!asked) return;
  follows = true;
  toEnd();
  drawPill();
});

// the step that is shown stands in its column where it can be seen
document.addEventListener("run:shown", ({ detail }) => {
  drawPill();
  if (detail.following) return toEnd();
  const event = detail.event;
  const lane = event?.closest(".lane");
  if (!lane || !event.classList.contains("is-current") || !event.checkVisibility()) return;
  if (!scrollsItself(lane)) return scrollPage(event);
  const inside = event.getBoundingClientRect(), around = lane.getBoundingClientRect();
  if (inside.top < around.top + NEAR || inside.height > around.height) lane.scrollTop += inside.top - around.top - NEAR;
  else if (inside.bottom > around.bottom) lane.scrollTop += inside.bottom - around.bottom + NEAR;
});

// The page scrolls only as far as the keys of the player stay on it.
function scrollPage(event) {
  event.scrollIntoView({ block: "nearest" });
  const edge = document.querySelector(".topbar").getBoundingClientRect().bottom;
  const over = edge - section().querySelector("[data-transport]").getBoundingClientRect().top;
  if (over > 0) scrollBy(0, -over);
}

// what is typed in a replay stays in view while it grows
document.addEventListener("run:typed", ({ detail }) => {
  const lane = detail.event.closest(".lane");
  if (!scrollsItself(lane)) return;
  const over = detail.event.getBoundingClientRect().bottom - lane.getBoundingClientRect().bottom + NEAR;
  if (over > 0) lane.scrollTop += over;
});

// The words of a model come in pieces; between two of them they grow evenly. What grows is one text: no element comes or
// goes, so the styles of the page stay as they are.
const PIECE = 400;
const spoken = new Map();
const still = matchMedia("(prefers-reduced-motion: reduce)");
document.addEventListener("htmx:oobBeforeSwap", (event) => {
  const { detail } = /** @type {CustomEvent} */ (event);
  const { target, fragment } = detail;
  if (target.id !== "run-speaking") return;
  const came = [...fragment.querySelectorAll("[data-spoken]")], here = [...target.querySelectorAll("[data-spoken]")];
  if (!came.length || came.length !== here.length || came.some((part, at) => part.dataset.spoken !== here[at].dataset.spoken)) return;
  detail.shouldSwap = false;
  came.forEach((part, at) => { grow(here[at], part.textContent); });
});
// A part that was drawn anew has all its words; those that were not seen yet grow too.
function speak() {
  const parts = [...document.querySelectorAll("[data-spoken]")];
  if (!parts.length) spoken.clear();
  for (const part of parts) if (spoken.get(part.dataset.spoken)?.part !== part) grow(part, part.textContent);
}
function grow(part, whole) {
  const said = spoken.get(part.dataset.spoken)?.said ?? "";
  const from = !still.matches && whole.startsWith(said) ? said.length : whole.length;
  const now = { part, said: whole.slice(0, from), whole, from, start: performance.now() };
  spoken.set(part.dataset.spoken, now);
  write(part, now.said);
}
function draw() {
  for (const now of spoken.values()) {
    if (now.said === now.whole || !now.part.isConnected) continue;
    const share = Math.min((performance.now() - now.start) / PIECE, 1);
    now.said = now.whole.slice(0, now.from + Math.round((now.whole.length - now.from) * share));
    write(now.part, now.said);
    toEnd();
  }
}
function write(part, words) {
  const text = part.firstChild ?? part.appendChild(new Text());
  if (text.data !== words) text.data = words;
}

// the socket, or a look each second
const PATIENCE = 3000;
const EVERY = 1000;
const trouble = document.getElementById("trouble");
let polling = 0;
let heard = false;
function arrived() {
  keepTime();
  speak();
  toEnd();
  if (!trouble.hidden) trouble.hidden = true;
}
function poll(after = EVERY) {
  if (!isLive()) return;
  clearTimeout(polling);
  polling = setTimeout(look, after);
}
let looking = false;
async function look() {
  if (looking) return;
  looking = true;
  const focused = document.activeElement?.id;
  const last = summary().dataset.last;
  const html = await fetched(last).catch(() => null);
  looking = false;
  if (html === null) offline();
  else arrived();
  // unless the socket was faster
  if (html && summary().dataset.last === last) {
    htmx.swap(document.body, html, { swapStyle: "none" });
    document.dispatchEvent(new Event("run:fetched"));
    arrived();
    refocus(focused);
  }
  if (polling) poll();
}
async function fetched(last) {
  const answer = await fetch(`${section().dataset.frame}?last=${last}`, { redirect: "manual", headers: { "HX-Request": "true" } });
  // signed out, or no longer allowed to see it: the page itself says so
  if (answer.type === "opaqueredirect" || (answer.status >= 400 && answer.status < 500)) location.reload();
  if (answer.status >= 500) return null;
  return answer.status === 200 ? answer.text() : "";
}
function offline() {
  trouble.textContent = trouble.dataset.offline;
  trouble.hidden = false;
}
function listens() {
  heard = true;
  clearTimeout(polling);
  polling = 0;
}
document.addEventListener("htmx:wsClose", () => poll());
document.addEventListener("htmx:wsError", () => poll());
document.addEventListener("htmx:wsAfterMessage", () => { listens(); arrived(); });
addEventListener("offline", offline);
addEventListener("online", () => poll(0));
setTimeout(() => { if (!heard) poll(0); }, PATIENCE);

// what is swapped keeps the focus
let focusedBefore = "";
const refocus = (id) => { if (id && document.activeElement === document.body) document.getElementById(id)?.focus(); };
document.addEventListener("htmx:wsBeforeMessage", () => { focusedBefore = document.activeElement?.id; });
document.addEventListener("htmx:wsAfterMessage", () => refocus(focusedBefore));

// Stop is pressed once
document.addEventListener("submit", (event) => {
  if (event.target.id === "stop-run") document.getElementById("run-stop").disabled = true;
});

keepTime();
toEnd();
