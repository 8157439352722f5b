// The queue by keys: one letter, one decision. Everything is a button or a link of the page; this only presses them.
(() => {
  const $ = (selector) => document.querySelector(selector);
  const isFree = () => !$("dialog[open]") && !$("#queue.htmx-request, #queue .htmx-request");
  const press = (selector) => (event) => {
    if (!isFree()) return;
    const found = $(`#queue ${selector}`);
    if (!found || found.disabled) return;
    event.preventDefault();
    found.click();
  };
  const zoom = () => {
    const button = $("#queue [data-zoom]"), shown = $("#queue [data-zoomed]");
    shown.hidden = !shown.hidden;
    button.setAttribute("aria-pressed", String(!shown.hidden));
    if (shown.hidden) return;
    for (const part of shown.querySelectorAll("[data-zoom-from]")) {
      htmx.ajax("GET", part.dataset.zoomFrom, { target: part, swap: "innerHTML" });
      part.removeAttribute("data-zoom-from");
    }
    shown.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-zoom]")) zoom();
    if (event.target.closest("[data-swap]")) nextSurvivor();
  });
  // a toast's own button takes back the same decision, and app.js presses it
  const undo = (event) => { if (!$("[data-toast] [data-undo]")) press("[data-undo-last]")(event); };
  const edit = (event) => { if (isFree()) { event.preventDefault(); $("#queue [data-merged-summary], #queue .finding-fields :is(textarea, input)")?.select(); } };
  const ignore = (event) => event.repeat || event.target.matches?.("textarea, select, [contenteditable], input:not([type=checkbox], [type=radio])");
  tinykeys.tinykeys(window, {
    KeyJ: press("[data-next]"),
    KeyK: press("[data-previous]"),
    KeyM: press("[data-merge], [data-merge-into]"),
    KeyY: press("[data-confirm]"),
    KeyB: press("[data-both]"),
    KeyX: press("[data-swap]"),
    KeyN: press("[data-never]"),
    KeyA: press("[data-whole-answer]"),
    KeyS: press("[data-opens-proposal]"),
    KeyZ: press("[data-zoom]"),
    KeyR: press("[data-effect]"),
    KeyU: undo,
    KeyE: edit,
    ...Object.fromEntries([1, 2, 3, 4, 5].map((n) => [`Digit${n}`, press(`[data-choose="${n}"]`)])),
  }, { ignore });
  addEventListener("keydown", (event) => {
    if (!event.target.matches?.("#queue :is(textarea, select, input:not([type=checkbox], [type=radio]))")) return;
    if (event.key === "Escape") event.target.blur();
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    // or the same field of the next one is written into by the next key
    event.target.blur();
    press("[data-merge], [data-confirm]")(event);
  });
  // what came is read from its question on, wherever one had got to in the last one; the list keeps to itself
  const tell = () => {
    const line = $("#queue [aria-current]"), list = line?.closest(".queue-list");
    if (list) list.scrollTop = line.offsetTop - list.offsetTop - list.clientHeight / 3;
    scrollTo({ top: 0 });
  };
  document.addEventListener("htmx:afterSettle", (event) => { if (event.target.id === "queue") tell(); });
})();
