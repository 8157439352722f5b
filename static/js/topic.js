// The topic as a workbench: cuts between messages and chosen messages, by mouse and by keys alone.
// The boxes and buttons of the form do it all without this; here they get keys, ranges, and a memory across pages.
(() => {
  const form = document.getElementById("workbench");
  if (!form) return;
  const $ = (selector, /** @type {ParentNode} */ root = document) => root.querySelector(selector);
  const $$ = (selector, /** @type {ParentNode} */ root = document) => [...root.querySelectorAll(selector)];
  const bar = $("#bench");
  const words = bar.dataset;
  const rows = $$("[data-message]", form);
  const boxes = (name) => $$(`input[name=${name}]`, form);
  const following = $("input[name=following]", form);
  const picker = $("#picker");
  const editor = $("#summary-edit");

  // A topic never changes, so what was ticked on its other pages still means the same: number → place.
  const key = `workbench-${$("input[name=topics]", form).value}`;
  const kept = { at: {}, messages: {}, ...JSON.parse(sessionStorage.getItem(key) ?? "{}") };
  const keep = () => {
    for (const name of ["at", "messages"]) {
      for (const box of boxes(name)) {
        if (box.checked) kept[name][box.value] = Number(box.dataset.place);
        else delete kept[name][box.value];
      }
    }
    sessionStorage.setItem(key, JSON.stringify(kept));
  };
  const numbers = (name) => Object.entries(kept[name]).sort((a, b) => a[1] - b[1]).map(([number]) => number);
  const elsewhere = (name) => numbers(name).length - boxes(name).filter((box) => box.checked).length;

  const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_all, name) => values[name]);
  const more = (name) => (elsewhere(name) > 0 ? ` · ${fill(words.wordsElsewhere, { n: elsewhere(name) })}` : "");
  const sizes = () => {
    const borders = [0, ...Object.values(kept.at).sort((a, b) => a - b), Number(words.count)];
    return borders.slice(1).map((end, place) => end - borders[place]);
  };
  const draw = () => {
    const cuts = numbers("at").length;
    const chosen = numbers("messages").length;
    bar.classList.toggle("is-idle", !cuts && !chosen);
    $("[data-bench=cuts]").hidden = !cuts;
    $("[data-bench=chosen]").hidden = !chosen;
    $("[data-bench-clear]").hidden = !cuts && !chosen;
    $("[data-bench-hint]").hidden = Boolean(cuts || chosen);
    $("[data-bench-cuts]").textContent = fill(words.wordsCut, { n: cuts + 1, sizes: sizes().join(" + ") }) + more("at");
    const sentence = following.checked ? words.wordsFollowing : words.wordsChosen;
    $("[data-bench-chosen]").textContent = fill(sentence, { n: chosen }) + more("messages");
    const from = following.checked ? Math.min(...Object.values(kept.messages)) : Infinity;
    for (const box of boxes("messages")) {
      box.closest("[data-message]").classList.toggle("is-chosen", box.checked || Number(box.dataset.place) > from);
    }
  };
  const changed = () => { keep(); draw(); };
  const clear = () => {
    for (const name of ["at", "messages"]) {
      kept[name] = {};
      for (const box of boxes(name)) box.checked = false;
    }
    following.checked = false;
    changed();
  };

  // where the keys are, and where a range begins
  let anchor = null;
  const current = () => rows.find((row) => row.classList.contains("is-current"));
  const box = (row, name) => {
    if (name === "messages") return row && $("input[name=messages]", row);
    let before = row?.previousElementSibling;
    while (before && !before.dataset.message) {
      const found = $("input[name=at]", before);
      if (found) return found;
      before = before.previousElementSibling;
    }
    return null;
  };
  const mark = (row) => {
    current()?.classList.remove("is-current");
    row.classList.add("is-current");
  };
  const stand = (row) => {
    mark(row);
    row.tabIndex = -1;
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  };
  const walk = (step) => {
    const at = rows.indexOf(current());
    const seen = rows.findIndex((row) => row.getBoundingClientRect().bottom > 120);
    stand(rows[at < 0 ? Math.max(seen, 0) : Math.min(rows.length - 1, Math.max(0, at + step))]);
  };
  const toggle = (name) => {
    const found = box(current(), name);
    if (!found) return;
    found.checked = !found.checked;
    if (name === "messages") anchor = current();
    changed();
  };
  const range = (row) => {
    const [from, to] = [rows.indexOf(anchor ?? row), rows.indexOf(row)].sort((a, b) => a - b);
    for (const between of rows.slice(from, to + 1)) box(between, "messages").checked = true;
    anchor = row;
    changed();
  };

  // forms end at a thousand fields, so the ticked boxes go as two lists, with those of the other pages
  const send = (submitter) => {
    const lists = $$("[data-list]", form);
    for (const list of lists) list.remove();
    for (const name of ["at", "messages"]) {
      const list = Object.assign(document.createElement("input"), { type: "hidden", name, value: numbers(name).join(",") });
      list.dataset.list = "";
      for (const found of boxes(name)) found.disabled = true;
      form.append(list);
    }
    form.requestSubmit(submitter);
    setTimeout(() => { for (const found of [...boxes("at"), ...boxes("messages")]) found.disabled = false; });
  };
  const preview = (what) => send($(`[data-preview=${what}]`));
  const pick = (deed) => {
    if (deed === "move" && !numbers("messages").length) return;
    const search = $("[data-picker]", picker);
    search.elements.op.value = deed;
    search.elements.messages.value = deed === "move" ? numbers("messages").join(",") : "";
    search.elements.following.disabled = !(deed === "move" && following.checked);
    search.elements.following.value = "1";
    picker.showModal();
    search.elements.q.value = "";
    search.elements.q.focus();
    htmx.trigger(search.elements.q, "open-sheet");
  };
  picker.addEventListener("keydown", (event) => {
    const found = $$(".pick", picker);
    const at = found.indexOf(document.activeElement);
    if (event.key === "Enter" && event.target.matches("input")) { event.preventDefault(); found[0]?.click(); }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !found.length) return;
    event.preventDefault();
    if (at + step < 0) $("input[type=search]", picker).focus();
    else found[Math.min(found.length - 1, at + step)].focus();
  });

  form.addEventListener("change", (event) => {
    if (event.target.name === "messages") anchor = event.target.closest("[data-message]");
    changed();
  });
  form.addEventListener("click", (event) => {
    const submitter = event.target.closest("button[data-preview], button[data-pick]");
    if (submitter) {
      event.preventDefault();
      if (submitter.dataset.pick) pick("move");
      else send(submitter);
    }
    const row = event.target.closest("[data-message]");
    if (!row || event.target.closest("a, summary")) return;
    mark(row);
    if (!event.shiftKey) return;
    // a box whose click is refused goes back to what it was, and would leave its own message out
    if (!event.target.matches("input")) event.preventDefault();
    range(row);
    getSelection().removeAllRanges();
  });
  // a click with Shift marks messages, not letters
  form.addEventListener("mousedown", (event) => { if (event.shiftKey && event.target.closest("[data-message]")) event.preventDefault(); });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-bench-clear]")) clear();
    const link = event.target.closest("a[data-pick]");
    if (link) { event.preventDefault(); pick("merge"); }
    const resplit = event.target.closest("a[data-resplit]");
    if (resplit && numbers("at").length) { event.preventDefault(); location.assign(`${resplit.href}?at=${numbers("at").join(",")}`); }
  });

  // the summary, in its place
  const field = $("textarea", editor);
  const edit = () => { editor.open = true; field.focus(); field.setSelectionRange(field.value.length, field.value.length); };
  const leave = () => { editor.open = false; $("form", editor).reset(); (current() ?? $("summary", editor)).focus({ preventScroll: true }); };
  $("[data-leave]", editor).hidden = false;
  // the event comes a moment after the opening: who is writing by then keeps the caret and what is selected
  editor.addEventListener("toggle", () => { if (editor.open && document.activeElement !== field) edit(); });
  editor.addEventListener("reset", () => { editor.open = false; });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { event.stopPropagation(); leave(); }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); $("[name=commit]", editor).click(); }
  });

  const unlessBusy = (action) => (event) => { if (!$("dialog[open]")) action(event); };
  // a box that was ticked with the mouse keeps neither the letters nor Enter, which would send the form as a split
  const ignore = (event) => event.repeat || event.isComposing || event.target.matches?.("textarea, select, [contenteditable], input:not([type=checkbox])");
  const enter = (event) => {
    if (event.target.closest("a, button, summary")) return;
    event.preventDefault();
    if (numbers("at").length) preview("cuts");
    else if (numbers("messages").length) preview("chosen");
  };
  tinykeys.tinykeys(window, {
    KeyJ: unlessBusy(() => walk(1)),
    KeyK: unlessBusy(() => walk(-1)),
    KeyX: unlessBusy(() => toggle("messages")),
    "Shift+KeyX": unlessBusy(() => current() && range(current())),
    KeyC: unlessBusy(() => toggle("at")),
    KeyF: unlessBusy(() => { if (!current()) return; box(current(), "messages").checked = true; following.checked = true; changed(); }),
    KeyE: unlessBusy((event) => { event.preventDefault(); edit(); }),
    KeyV: unlessBusy((event) => { event.preventDefault(); pick("move"); }),
    KeyM: unlessBusy((event) => { event.preventDefault(); pick("merge"); }),
    KeyR: unlessBusy(() => $("a[data-resplit]").click()),
    KeyN: unlessBusy(() => $('.pager a[rel="next"]', form)?.click()),
    KeyP: unlessBusy(() => $('.pager a[rel="prev"]', form)?.click()),
    Enter: unlessBusy(enter),
    Escape: unlessBusy(() => { if (!$("#peek")?.childElementCount) clear(); }),
  }, { ignore });

  // one tab stop a message would be a hundred and fifty of them; the keys walk instead
  for (const found of [...boxes("at"), ...boxes("messages")]) {
    found.tabIndex = -1;
    found.checked = found.value in kept[found.name];
  }
  following.checked = false;
  document.body.classList.add("has-workbench");
  draw();
})();
