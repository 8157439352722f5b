// The preview of a change: Ctrl+Enter commits from any field, Esc leaves a field and then the page. A proposed summary
// fills in a field in which nobody has written; beside one's own words it waits to be used.
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
  const fieldOf = (element) => element.closest("li").querySelector("textarea");
  document.addEventListener("htmx:afterSwap", () => {
    for (const proposal of document.querySelectorAll("[data-proposal]:not([data-seen])")) {
      const field = fieldOf(proposal);
      proposal.dataset.seen = "";
      if (field.value === field.defaultValue) field.value = proposal.dataset.proposal;
      else proposal.querySelector("[data-uses-proposal]").hidden = false;
    }
  });
  document.addEventListener("click", ({ target }) => {
    const used = target.closest("[data-uses-proposal]"), asking = target.closest("[data-stops-proposing]")?.closest("[data-proposing]");
    if (used) {
      fieldOf(used).value = used.closest("[data-proposal]").dataset.proposal;
      used.hidden = true;
    }
    if (!asking) return;
    htmx.trigger(asking, "htmx:abort");
    asking.remove();
  });
  tinykeys.tinykeys(window, {
    KeyE: (event) => { event.preventDefault(); document.querySelector("textarea[name=summary]")?.select(); },
  });
  // One press is one change.
  commit.form.addEventListener("submit", () => setTimeout(() => { commit.disabled = true; }));
  addEventListener("pageshow", () => { commit.disabled = false; });
})();
