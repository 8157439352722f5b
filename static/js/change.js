// The preview of a change: Ctrl+Enter commits from any field, Esc leaves a field and then the page.
(() => {
  const commit = document.querySelector("[data-commit]");
  if (!commit) return;
  addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); commit.click(); }
    if (event.key !== "Escape" || document.querySelector("#peek")?.childElementCount) return;
    if (document.activeElement?.matches("textarea, input")) commit.focus();
    else document.querySelector("[data-back]")?.click();
  });
  tinykeys.tinykeys(window, {
    KeyE: (event) => { event.preventDefault(); document.querySelector("textarea[name=summary]")?.select(); },
  });
  // One press is one change.
  commit.form.addEventListener("submit", () => setTimeout(() => { commit.disabled = true; }));
  addEventListener("pageshow", () => { commit.disabled = false; });
})();
