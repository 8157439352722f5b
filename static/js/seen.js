// A letter that commits shows first what it would do: who marked rows in a list pressed it there, perhaps twice.
(() => {
  let isSeen = false;
  const see = () => { isSeen = true; };
  addEventListener("keydown", (event) => { if (event.code !== "KeyM") see(); });
  for (const gesture of ["pointerdown", "wheel"]) addEventListener(gesture, see, { passive: true });
  window.commitSeen = (commit, outcome) => {
    if (!commit || commit.disabled) return;
    if (isSeen) return commit.click();
    see();
    outcome.scrollIntoView({ block: "end" });
    for (const hint of document.querySelectorAll("[data-armed]")) hint.hidden = false;
  };
})();
