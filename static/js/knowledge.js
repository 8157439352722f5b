// Keys for people, facts and artifacts: e edits, x marks, m merges; short cuts to links, boxes and forms that are there.
(() => {
  const $ = (selector, /** @type {ParentNode} */ root = document) => root.querySelector(selector);
  const $$ = (selector, /** @type {ParentNode} */ root = document) => [...root.querySelectorAll(selector)];
  const row = () => $("[data-row].is-current");
  const quietly = (action) => (event) => { if (!$("dialog[open]")) action(event); };

  // those marked are counted beside the button that merges them; it waits until there is one
  const marked = () => $$("[data-mark]:checked");
  const count = () => {
    const bar = $("[data-marked]");
    if (!bar) return;
    bar.hidden = marked().length === 0;
    $("[data-marked-count]", bar).textContent = String(marked().length);
    $("button", bar).disabled = marked().length < 2;
  };
  document.addEventListener("change", (event) => { if (event.target.matches("[data-mark]")) count(); });
  document.addEventListener("htmx:afterSettle", count);
  count();

  const leave = () => {
    const field = document.activeElement;
    if (field?.matches("input:not([type=radio]):not([type=checkbox]), textarea, select")) return field.blur();
    $("[data-back]")?.click();
  };
  // a letter is a key on a box too, only not where one types
  const TYPED = "textarea, select, input:not([type=radio]):not([type=checkbox])";
  const ignore = (event) => event.repeat || event.isComposing || event.target.matches?.(TYPED);
  tinykeys.tinykeys(window, {
    KeyE: quietly(() => (row()?.querySelector("[data-edit]") ?? $("[data-edit-here]"))?.click()),
    KeyX: quietly(() => row()?.querySelector("[data-mark]")?.click()),
    KeyM: quietly(() => {
      const go = $("[data-merge-go]");
      if (go) commitSeen(go, $("#merged"));
      else ($("[data-marked] button:not(:disabled)") ?? $("[data-merge-here]"))?.click();
    }),
  }, { ignore });
  addEventListener("keydown", (event) => {
    if ($("dialog[open]")) return;
    if (event.key === "Escape") leave();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form[data-save]")?.requestSubmit();
  });
})();
