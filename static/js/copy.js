// Copies what a button names, and forgets what may be seen once: the page is emptied when it is left, and a reload or
// the way back leads to the list instead of asking whether to send the form again. The server would refuse that anyway.
(() => {
  const selected = (source) => {
    const range = document.createRange();
    range.selectNodeContents(source);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  };
  // browsers offer the clipboard to https and localhost only; elsewhere the text stays selected, for Ctrl C
  const copied = async (source) => {
    selected(source);
    try {
      await navigator.clipboard.writeText(source.textContent);
      return true;
    } catch {
      return document.execCommand("copy");
    }
  };
  const buttons = [...document.querySelectorAll("[data-copy]")];
  // the clipboard holds what was copied last, and so says its button
  const say = (last) => {
    for (const button of buttons) {
      const label = button.querySelector("[aria-live]");
      const words = (button.dataset.words ??= label.textContent);
      label.textContent = button === last ? button.dataset.copied : words;
    }
  };
  for (const button of buttons) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      if (await copied(document.getElementById(button.dataset.copy))) say(button);
    });
  }

  const once = document.querySelector("[data-once]");
  if (!once) return;
  history.replaceState(null, "", once.dataset.once);
  addEventListener("pagehide", () => {
    for (const secret of once.querySelectorAll("[data-secret]")) secret.textContent = "";
  });
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
})();
