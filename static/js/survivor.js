// Whose summary survives: a choice fills in the field, and what one writes stays one's own.
(() => {
  const fieldOf = (form) => form.querySelector("[data-merged-summary]");
  const written = (form) => form.querySelector("input[name=written]");
  document.addEventListener("change", (event) => {
    const choice = event.target.closest?.("[data-survivors] input[name=from]");
    if (!choice) return;
    fieldOf(choice.form).value = choice.dataset.summary;
    written(choice.form)?.remove();
  });
  document.addEventListener("input", (event) => {
    const form = event.target.matches?.("[data-merged-summary]") && event.target.form;
    if (!form || written(form)) return;
    const mark = Object.assign(document.createElement("input"), { type: "hidden", name: "written", value: "1" });
    form.append(mark);
  });
  // the next choice round the page, left to right, then all of them together
  window.nextSurvivor = (step = 1) => {
    const form = document.querySelector("[data-survivors]");
    const choices = [...form.querySelectorAll("input[name=from]")].filter((choice) => !choice.closest(".is-out"));
    const at = choices.findIndex((choice) => choice.checked);
    const next = choices[(at + step + choices.length) % choices.length];
    next.checked = true;
    next.dispatchEvent(new Event("change", { bubbles: true }));
    next.closest("[data-column]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
})();
