// Copies what a button of the run page names: a text, this address, the ids that were chosen, an excerpt, or what an
// address answers.

const texts = {
  text: (button) => button.dataset.text,
  address: () => location.href,
  ids: () => [...document.querySelectorAll("#lane-result li[data-topic]")].map((item) => item.dataset.topic).join("\n"),
  marks: (button) => [...button.closest(".excerpt").querySelectorAll("mark")].map((mark) => mark.textContent).join(""),
  fetched: async (button) => (await fetch(button.dataset.from)).text(),
};

// browsers offer the clipboard to https and localhost only
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

const note = document.getElementById("copied");
let shown = 0;
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copies]");
  if (!button) return;
  note.textContent = "";
  const done = await copied(await texts[button.dataset.copies](button));
  button.closest("details")?.removeAttribute("open");
  note.textContent = done ? note.dataset.done : note.dataset.refused;
  clearTimeout(shown);
  shown = setTimeout(() => { note.textContent = ""; }, 2500);
});
