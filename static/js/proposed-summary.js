// A proposed summary fills in a field in which nobody has written; beside somebody's words it waits to be used.
(() => {
  const fieldOf = (element) => element.closest("li, form").querySelector("textarea");
  document.addEventListener("htmx:afterSwap", () => {
    for (const proposal of document.querySelectorAll("[data-proposal]:not([data-seen])")) {
      const field = fieldOf(proposal);
      proposal.dataset.seen = "";
      if (field.value === field.defaultValue && !("keeps" in field.dataset)) field.value = proposal.dataset.proposal;
      else for (const hidden of proposal.querySelectorAll("[hidden]")) hidden.hidden = false;
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
})();
