// The line over the folded choices of the question box says what is chosen now.
(() => {
  const choices = document.querySelector("[data-choices]");
  if (!choices) return;
  const now = (name) => choices.querySelector(`[data-now=${name}]`);
  const chosen = (name) => [...choices.querySelectorAll(`input[name=${name}]:checked`)].map((box) => box.value).join(", ");
  const limits = [...choices.querySelectorAll(".ask-limits .field")];
  const show = () => {
    for (const name of ["strategies", "strategy"]) if (now(name)) now(name).textContent = chosen(name) || "—";
    const { own, usual } = now("limits").dataset;
    now("limits").textContent = limits.some((field) => field.value) ? own : usual;
  };
  choices.addEventListener("change", show);
  addEventListener("pageshow", show);
})();
