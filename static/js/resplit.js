// The split canvas: a turned cut redraws the parts in place and keeps what was typed; the links do it without this.
(() => {
  const root = document.getElementById("resplit");
  if (!root) return;
  const $ = (selector, within = root) => within.querySelector(selector);
  const parts = () => [...root.querySelectorAll("[data-part]")];
  let at = 0;

  const show = async (address) => {
    const values = Object.fromEntries(["span", "was", "summary"].map((name) => [name, new FormData(document.forms.namedItem("parts-form")).getAll(name)]));
    await htmx.ajax("POST", address, { target: "#resplit", swap: "innerHTML", values });
    history.replaceState(null, "", address);
    stand(at);
  };
  root.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-turn], a[data-go]");
    if (!link || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    const part = link.closest("[data-part]");
    if (part) at = parts().indexOf(part);
    show(link.getAttribute("href"));
  });

  // a cut is dragged to another message
  let dragged = null;
  root.addEventListener("pointerdown", (event) => { dragged = event.target.closest("a[data-cut]")?.dataset.turn ?? null; });
  root.addEventListener("pointerup", (event) => {
    const onto = event.target.closest("a[data-turn]")?.dataset.turn;
    const from = dragged;
    dragged = null;
    if (!from || !onto || from === onto) return;
    const cuts = $("[data-canvas]").dataset.cuts.split(",").filter((cut) => cut !== from && cut !== onto);
    show(`?at=${[...cuts, onto].join(",")}`);
  });
  root.addEventListener("dragstart", (event) => event.preventDefault());

  const stand = (place) => {
    const all = parts();
    at = Math.min(Math.max(place, 0), all.length - 1);
    for (const part of all) part.classList.toggle("is-current", part === all[at]);
    all[at]?.focus({ preventScroll: true });
    all[at]?.scrollIntoView({ block: "nearest" });
  };
  const go = (name) => parts()[at] && $(`[data-go=${name}]`, parts()[at])?.click();
  const unlessBusy = (action) => (event) => { if (!document.querySelector("dialog[open]")) action(event); };
  const isNone = () => !root.querySelector("[data-part].is-current");
  tinykeys.tinykeys(window, {
    KeyJ: unlessBusy(() => stand(isNone() ? 0 : at + 1)),
    KeyK: unlessBusy(() => stand(at - 1)),
    KeyX: unlessBusy(() => go("leave")),
    BracketLeft: unlessBusy(() => go("earlier")),
    BracketRight: unlessBusy(() => go("later")),
    KeyP: unlessBusy(() => $("[data-ask]")?.click()),
    KeyE: unlessBusy((event) => { event.preventDefault(); $("textarea", parts()[at])?.select(); }),
    Enter: unlessBusy((event) => { if (!event.target.closest("a, button")) $("[data-preview]").click(); }),
    Escape: unlessBusy(() => { if (!document.querySelector("#peek")?.childElementCount) $("[data-back]").click(); }),
  });
  root.addEventListener("keydown", (event) => {
    if (!event.target.matches("textarea")) return;
    if (event.key === "Escape") { event.stopPropagation(); stand(parts().indexOf(event.target.closest("[data-part]"))); }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); $("[data-preview]").click(); }
  });
})();
