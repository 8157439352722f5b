// Grades of candidates: three marks beside each, and the keys a, s and d on the current one. The strip at the foot has
// what everybody thinks, and comes anew with each grade.
(() => {
  const strip = () => document.getElementById("grade-strip");
  const rows = () => [...document.querySelectorAll(".candidate[data-topic], .chosen[data-topic]")]
    .filter((row) => /^(Topic|Session):/.test(row.dataset.topic ?? ""));

  const decorate = () => {
    const stored = document.getElementById("grade-marks"), template = document.getElementById("grade-template");
    if (!stored || !template) return;
    const marks = JSON.parse(stored.textContent ?? "{}"), words = (strip().dataset.words ?? "").split("|");
    for (const row of rows()) {
      const mark = marks[row.dataset.topic ?? ""];
      if (!row.querySelector(".grade-buttons")) {
        const place = row.querySelector(".candidate-side, .chips, .graded-marks") ?? row;
        place.append(template["content"].cloneNode(true));
      }
      for (const button of row.querySelectorAll("[data-grade]")) {
        const isOwn = String(mark?.own ?? "") === button.dataset.grade;
        button.setAttribute("aria-pressed", String(isOwn));
        button.value = isOwn ? "" : button.dataset.grade ?? "";
      }
      const buttons = row.querySelector(".grade-buttons");
      buttons?.classList.toggle("is-disputed", Boolean(mark?.disputed));
      const names = mark?.disputed ? Object.entries(mark.names).map(([name, grade]) => `${name}: ${words[grade]}`) : [];
      if (buttons) buttons.title = names.length ? `${strip().dataset.differs}: ${names.join(", ")}` : "";
    }
  };

  const grade = (row, value) => {
    const panel = strip();
    if (!panel || !row) return;
    const values = { topic: row.dataset.topic, grade: value, ...("blind" in panel.dataset && { blind: "1" }) };
    htmx.ajax("POST", panel.dataset.address ?? "", { target: "#grade-strip", swap: "outerHTML", values });
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-grade]"), row = button?.closest(".candidate, .chosen");
    if (!button || !row || !strip()) return;
    event.preventDefault();
    event.stopPropagation();
    grade(row, button.value);
  }, true);

  const current = () => document.activeElement?.closest(".candidate, .chosen") ?? document.querySelector(".candidate.is-current");
  const press = (value) => {
    if (document.querySelector("dialog[open]")) return;
    const row = current();
    grade(row, row?.querySelector(`[data-grade="${value}"]`)?.value ?? value);
  };
  const walk = (direction) => {
    const links = [...document.querySelectorAll(".graded-text")];
    const at = links.findIndex((link) => link === document.activeElement);
    links[Math.min(Math.max(at + direction, 0), links.length - 1)]?.focus();
  };
  const isAlone = document.querySelector(".graded-list") !== null;
  tinykeys.tinykeys(window, {
    KeyA: () => press("2"),
    KeyS: () => press("1"),
    KeyD: () => press("0"),
    ...(isAlone && { KeyJ: () => walk(1), KeyK: () => walk(-1) }),
  });

  document.addEventListener("htmx:afterSettle", decorate);
  document.addEventListener("htmx:wsAfterMessage", decorate);
  // a run that ends while one looks at it can be judged from then on
  document.addEventListener("run:shown", ({ detail }) => {
    const waiting = document.querySelector("#grade-strip[data-waits]");
    if (waiting && !detail.live) htmx.trigger(waiting, "ended");
  });
  decorate();
})();
