// The merge view by keys: m shows what comes out and then merges, p asks the model for a summary, x or the arrows choose whose summary survives, digits leave topics out.
(() => {
  const form = document.getElementById("merge-form");
  if (!form) return;
  const isFree = () => !document.querySelector("dialog[open]");
  const commit = () => form.querySelector("[data-commit]");
  const mark = () => {
    for (const box of form.querySelectorAll("[data-keep]")) box.closest("[data-column]").classList.toggle("is-out", !box.checked);
  };
  const leave = (event) => {
    const box = form.querySelectorAll("[data-keep]")[Number(event.code.at(-1)) - 1];
    if (isFree()) box?.click();
  };
  const swap = (step) => (event) => { if (isFree()) { event.preventDefault(); nextSurvivor(step); } };
  form.addEventListener("change", mark);
  const merge = () => { if (isFree()) commitSeen(commit(), form.querySelector("#merge-result")); };
  const digits = Object.fromEntries([1, 2, 3, 4, 5, 6, 7, 8, 9].map((n) => [`Digit${n}`, leave]));
  // a choice that was clicked keeps the letters no more than a link does
  const ignore = (event) => event.repeat || event.target.matches?.("textarea, select, [contenteditable], input:not([type=checkbox], [type=radio])");
  tinykeys.tinykeys(window, {
    ...digits,
    KeyM: merge,
    KeyP: () => { if (isFree()) form.querySelector("[data-propose]")?.click(); },
    KeyX: swap(1),
    ArrowRight: swap(1),
    ArrowLeft: swap(-1),
    KeyE: (event) => { if (isFree()) { event.preventDefault(); form.querySelector("[data-merged-summary]")?.select(); } },
  }, { ignore });
  addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); commit()?.click(); }
    if (event.key !== "Escape" || !isFree() || document.querySelector("#peek")?.childElementCount) return;
    if (document.activeElement?.matches("textarea, input.field")) document.activeElement.blur();
    else form.querySelector("[data-back]")?.click();
  });
  // One press is one change.
  const close = (isClosed) => { for (const button of form.querySelectorAll("button[name=commit]")) button.disabled = isClosed; };
  form.addEventListener("submit", () => setTimeout(() => close(true)));
  addEventListener("pageshow", () => { close(false); mark(); });
})();
