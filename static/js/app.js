// What HTML cannot do: keys in lists, the preview, sheets, and a word when the server does not answer.
// Everything here is a short cut to a plain link or form; nothing needs it.
(() => {
  const $ = (selector, /** @type {ParentNode} */ root = document) => root.querySelector(selector);
  const $$ = (selector, /** @type {ParentNode} */ root = document) => [...root.querySelectorAll(selector)];
  const peek = () => $("#peek");
  const isWide = () => matchMedia("(min-width: 761px)").matches;

  // sheets: the palette and the keys
  const openSheet = (name) => {
    const sheet = document.getElementById(name);
    if (!sheet || sheet.open) return;
    sheet.showModal();
    const field = $("input", sheet);
    if (field) { field.select(); htmx.trigger(field, "open-sheet"); }
  };
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-opens]");
    if (opener) openSheet(opener.dataset.opens);
    if (event.target.closest("[data-closes]") || event.target.matches("dialog.sheet")) event.target.closest("dialog").close();
    for (const menu of $$("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });

  // a menu that would open beyond the page, or under the rail, opens beside it
  document.addEventListener("toggle", ({ target }) => {
    const sheet = target.matches("details.menu[open]") && target.querySelector(":scope > .menu-sheet");
    if (!sheet) return;
    sheet.style.translate = "";
    const { left, right } = sheet.getBoundingClientRect();
    const from = (target.closest(".main")?.getBoundingClientRect().left ?? 0) + 8, to = document.documentElement.clientWidth - 8;
    const shift = left < from ? from - left : Math.min(to - right, 0);
    if (shift) sheet.style.translate = `${shift}px`;
  }, true);

  // the palette's list: arrows choose, Enter goes
  const palette = $("#palette");
  palette?.addEventListener("keydown", (event) => {
    const links = $$(".palette-found :is(a, button)", palette);
    const at = links.findIndex((link) => link.classList.contains("is-current"));
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    // a search field would take the key to empty itself
    if (event.key === "Escape") { event.preventDefault(); palette.close(); }
    if (event.key === "Enter") { event.preventDefault(); (links[at] ?? links[0])?.click(); }
    if (!step || !links.length) return;
    event.preventDefault();
    links[at]?.classList.remove("is-current");
    const next = links.at(at < 0 && step < 0 ? -1 : (at + step) % links.length);
    next.classList.add("is-current");
    next.scrollIntoView({ block: "nearest" });
  });

  // the preview
  let peekedBy = null;
  const showPeek = (link) => {
    peekedBy = link;
    return htmx.ajax("GET", link.dataset.peek, { target: "#peek", swap: "innerHTML" });
  };
  const closePeek = () => { peek()?.replaceChildren(); peekedBy?.focus({ preventScroll: true }); peekedBy = null; };
  const isPeeked = (link) => peekedBy?.dataset.peek === link?.dataset.peek && peek()?.childElementCount > 0;
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-close-peek]")) return closePeek();
    const link = event.target.closest("a[data-peek]");
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !isPlain || !isWide() || link.closest("#peek .peek-head") || isPeeked(link)) return;
    event.preventDefault();
    const row = link.closest(ROW);
    if (row) choose(row);
    showPeek(link);
  });

  // rows: j and k move, the preview follows when it is open
  const ROW = "[data-row], [data-rows] tbody tr";
  const rows = () => $$(ROW).filter((row) => row.offsetParent !== null);
  const current = () => rows().find((row) => row.classList.contains("is-current"));
  const opens = (row) => row && ($("[data-open]", row) ?? $("a", row));
  const choose = (row) => {
    current()?.classList.remove("is-current");
    row.classList.add("is-current");
    row.tabIndex = -1;
    row.focus({ preventScroll: true });
  };
  const move = (step) => {
    const all = rows();
    if (!all.length) return;
    const at = all.indexOf(current());
    const row = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step))];
    choose(row);
    row.scrollIntoView({ block: "nearest" });
    const link = opens(row);
    if (peek()?.childElementCount && link?.dataset.peek && !isPeeked(link)) showPeek(link);
  };
  const enter = (event) => {
    const link = opens(current());
    if (!link || event.target.closest("a, button, summary")) return;
    event.preventDefault();
    if (link.dataset.peek && isWide() && !isPeeked(link)) showPeek(link);
    else link.click();
  };
  const go = (relation) => $(`main a[rel="${relation}"]`)?.click();

  // a page with keys of its own, such as a run, holds an element with data-own-keys
  const unlessOwned = (action) => (event) => {
    if ($("[data-own-keys]") || $("dialog[open]")) return;
    action(event);
  };
  // letters by their place on the keyboard, so that they work in a Russian layout too
  tinykeys.tinykeys(window, {
    KeyJ: unlessOwned(() => move(1)),
    KeyK: unlessOwned(() => move(-1)),
    Enter: unlessOwned(enter),
    KeyO: unlessOwned(() => { const link = opens(current()); if (link?.href) location.assign(link.href); }),
    KeyN: unlessOwned(() => go("next")),
    KeyP: unlessOwned(() => go("prev")),
    KeyB: () => { if (!$("dialog[open]")) $("main a[data-view]:not([aria-current])")?.click(); },
    Slash: unlessOwned((event) => { const field = $("[data-search]"); if (field) { event.preventDefault(); field.select(); } }),
    "Shift+?": () => openSheet("keys"),
    Escape: () => {
      if ($("dialog[open]")) return;
      const menu = $("details.menu[open]");
      if (menu) { menu.open = false; $("summary", menu).focus(); return; }
      closePeek();
    },
  });
  addEventListener("keydown", (event) => {
    if (event.code !== "KeyK" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    openSheet("palette");
  });

  // toasts: ten seconds, longer while one looks at them; u takes back what the last one tells
  const TOAST_SECONDS = 10;
  const dismiss = (toast) => {
    if (toast.matches(":hover, :focus-within")) setTimeout(() => dismiss(toast), 2000);
    else toast.remove();
  };
  const time = () => {
    for (const toast of $$("[data-toast]:not([data-timed])")) {
      toast.dataset.timed = "";
      setTimeout(() => dismiss(toast), TOAST_SECONDS * 1000);
    }
  };
  time();
  document.addEventListener("htmx:afterSettle", time);

  // what a part says after it was replaced is read out once: a region that is itself replaced stays silent
  const said = () => $$("main [data-told]").map((part) => part.textContent.trim().replace(/\s+/g, " ")).filter(Boolean).join(". ");
  let told = said();
  for (const after of ["htmx:afterSettle", "htmx:wsAfterMessage"]) document.addEventListener(after, () => {
    const words = said(), place = $("#told");
    if (words !== told && place) place.textContent = told = words;
  });
  document.addEventListener("click", (event) => event.target.closest("[data-close-toast]")?.closest("[data-toast]").remove());
  tinykeys.tinykeys(window, {
    KeyU: () => { if (!$("dialog[open]")) $$("[data-toast] [data-undo]").at(-1)?.click(); },
  });

  // an address without the filters nobody set; an empty facet that was chosen is one
  document.addEventListener("htmx:configRequest", (event) => {
    const { elt, parameters, verb } = event.detail;
    if (verb !== "get") return;
    const chosen = $$("input[data-chosen]", elt).map((field) => field.name);
    for (const [name, value] of Object.entries(parameters)) if (value === "" && !chosen.includes(name)) delete parameters[name];
    // Enter changes, submits and has typed: once is enough
    const ordered = (query) => { query.sort(); return query.toString(); };
    const asked = ordered(new URLSearchParams([...event.detail.formData]));
    if (elt.matches("form.toolbar[role=search]") && asked === ordered(new URLSearchParams(location.search))) event.preventDefault();
  });

  // the server draws a closed group of the navigation closed
  const YEAR_SECONDS = 31536000;
  for (const group of $$(".rail-group")) group.addEventListener("toggle", () => {
    const closed = $$(".rail-group:not([open])").map((each) => each.dataset.group).join(".");
    document.cookie = `closed_groups=${closed}; path=/; max-age=${YEAR_SECONDS}; samesite=lax`;
  });

  // when the server does not answer, or refuses
  const trouble = $("#trouble");
  const say = (words) => { if (trouble) { trouble.textContent = words; trouble.hidden = false; } };
  const hush = () => { if (trouble) trouble.hidden = true; };
  document.addEventListener("htmx:sendError", () => lost());
  const UNAVAILABLE = 503;
  document.addEventListener("htmx:responseError", ({ detail }) => {
    if (detail.xhr.status === UNAVAILABLE) lost();
    else say(trouble?.dataset.refused);
  });
  // htmx calls this after an error, too
  document.addEventListener("htmx:afterOnLoad", ({ detail }) => { if (!detail.failed) hush(); });

  // on every page, also one that asks for nothing: whether the server still answers
  const PROBE_SECONDS = 30;
  const ANSWER_SECONDS = 10;
  let isLost = false;
  const lost = () => { isLost = true; say(trouble?.dataset.offline); };
  const found = () => { if (isLost) hush(); isLost = false; };
  const probe = async () => {
    if (!trouble || document.hidden) return;
    try {
      await fetch(trouble.dataset.probe, { cache: "no-store", signal: AbortSignal.timeout(ANSWER_SECONDS * 1000) });
      found();
    } catch { lost(); }
  };
  addEventListener("offline", lost);
  addEventListener("online", probe);
  document.addEventListener("visibilitychange", probe);
  setInterval(probe, PROBE_SECONDS * 1000);
  if (!navigator.onLine) lost();

  $(".is-here")?.scrollIntoView({ block: "center" });
  // a talk opens at its newest message, unless the address or the browser's history names a place
  const [opened] = performance.getEntriesByType("navigation");
  const isOpened = opened instanceof PerformanceNavigationTiming && opened.type === "navigate";
  if (isOpened && !location.hash) $("[data-newest]")?.scrollIntoView({ block: "end" });
  // on a phone the sections lie in a row that is wider than the screen
  const section = $(".rail-bar [aria-current]");
  if (section && !isWide()) section.closest("ul").scrollLeft = section.closest("li").offsetLeft - innerWidth / 2;
  const tab = $(".tabs [aria-current]");
  if (tab) tab.parentElement.scrollLeft = tab.offsetLeft - (tab.parentElement.clientWidth - tab.offsetWidth) / 2;
})();
