// Rows picked in a list: x picks the current row, Shift+x all since the last one, m merges topics, c compares runs; the
// bar counts them.
(() => {
  const BOX = "input[type=checkbox][form=picked]";
  const form = () => document.getElementById("picked");
  const boxes = () => [...document.querySelectorAll(BOX)];
  const current = () => document.querySelector(`.is-current ${BOX}`);
  let last = null;

  const tell = () => {
    const bar = form();
    if (!bar) return;
    const picked = new Set(boxes().filter((box) => box.checked).map((box) => box.value));
    for (const value of (bar.elements.more?.value ?? "").split(",")) if (value) picked.add(value);
    bar.querySelector("[data-picked-count]").value = String(picked.size);
    bar.classList.toggle("has-picks", picked.size > 0);
    for (const button of bar.querySelectorAll("[data-merge-picked], [data-compare-picked]")) button.disabled = picked.size < 2;
  };
  const pick = (box, checked) => {
    box.checked = checked;
    box.dispatchEvent(new Event("change", { bubbles: true }));
  };
  const press = (wanted) => {
    const button = form()?.querySelector(wanted);
    if (button && !button.disabled && !document.querySelector("dialog[open]")) button.click();
  };
  const between = (one, other) => {
    const all = boxes();
    const places = [all.indexOf(one), all.indexOf(other)].sort((a, b) => a - b);
    return places[0] < 0 ? [other] : all.slice(places[0], places[1] + 1);
  };

  document.addEventListener("change", (event) => { if (event.target.form?.id === "picked") tell(); });
  document.addEventListener("click", (event) => {
    const box = event.target.closest?.(BOX);
    if (!box) return;
    if (event.shiftKey && last && last !== box) for (const other of between(last, box)) pick(other, box.checked);
    last = box;
    // a box that was clicked would keep the letters to itself
    if (event.detail) box.blur();
  });
  document.addEventListener("reset", () => setTimeout(tell));
  document.addEventListener("htmx:afterSettle", tell);
  addEventListener("pageshow", tell);
  tinykeys.tinykeys(window, {
    KeyX: () => { const box = current(); if (box) { pick(box, !box.checked); last = box; } },
    "Shift+KeyX": () => { const box = current(); if (box) { for (const other of between(last ?? box, box)) pick(other, true); last = box; } },
    KeyM: () => press("[data-merge-picked]"),
    KeyC: () => press("[data-compare-picked]"),
  });
  tell();
})();
