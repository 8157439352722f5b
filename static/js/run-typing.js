// A turn of the model in a replay: its reasoning, calls and answer are typed as if they came now.

const PARTS = ".event-reasoning, .tool-call, .model-text";
// A call has no words to type; it takes the time of some.
const OF_A_CALL = 60;
const still = matchMedia("(prefers-reduced-motion: reduce)");

class Typing {
  constructor(event) {
    this.event = event;
    this.parts = [...event.querySelectorAll(PARTS)].map((part) => {
      const words = part.matches(".tool-call") ? null : part.textContent;
      return { part, words, length: words?.length ?? OF_A_CALL };
    });
    this.whole = this.parts.reduce((sum, each) => sum + each.length, 0);
    event.classList.add("is-typed");
  }

  // The share of it, from 0 to 1, that has come.
  show(share) {
    let left = Math.ceil(this.whole * share);
    for (const { part, words, length } of this.parts) {
      part.hidden = left <= 0;
      if (words !== null) part.textContent = words.slice(0, Math.max(left, 0));
      left -= length;
    }
    document.dispatchEvent(new CustomEvent("run:typed", { detail: { event: this.event } }));
  }

  end() {
    for (const { part, words } of this.parts) {
      part.hidden = false;
      if (words !== null) part.textContent = words;
    }
    this.event.classList.remove("is-typed");
  }
}

let typing = null;
document.addEventListener("run:spoken", ({ detail }) => {
  if (still.matches) return;
  if (typing?.event !== detail.event) {
    typing?.end();
    typing = new Typing(detail.event);
  }
  typing.show(detail.share);
});
document.addEventListener("run:shown", () => {
  typing?.end();
  typing = null;
});
