// A chat dropped anywhere on the page is sent, with how much of it has arrived. Without this script the form sends it.
(() => {
  const form = document.querySelector("[data-upload]");
  if (!form) return;
  const input = form.querySelector("input[type=file]");
  const going = form.querySelector(".drop-going");
  const fault = form.querySelector(".drop-fault");
  const button = form.querySelector("button");

  const show = (sentence) => {
    fault.textContent = sentence;
    fault.hidden = !sentence;
    going.hidden = true;
    button.disabled = false;
  };
  // a new memory is made first; the answer says where its file may be sent
  let made = "";
  const makeMemory = async () => {
    const named = new FormData(input.form);
    named.delete("file");
    try {
      const answer = await fetch(form.dataset.makes, { method: "POST", body: named, headers: { "X-Upload": "1" } });
      if (answer.status === 201) return answer.headers.get("Location");
      show(answer.headers.get("Content-Type")?.startsWith("text/plain") ? await answer.text() : form.dataset.failed);
    } catch { show(form.dataset.failed); }
    return "";
  };
  const send = async () => {
    if (![...input.files].length || button.disabled) return;
    const total = [...input.files].reduce((sum, file) => sum + file.size, 0);
    if (total > Number(form.dataset.most)) return show(form.dataset.tooLarge);
    show("");
    button.disabled = true;
    made ||= form.dataset.makes ? await makeMemory() : form.action;
    if (!made) return;
    const request = new XMLHttpRequest();
    request.open("POST", made);
    request.setRequestHeader("X-Upload", "1");
    request.upload.addEventListener("progress", ({ loaded, total: all }) => {
      const percent = Math.round((100 * loaded) / all);
      going.querySelector("progress").value = String(percent);
      going.querySelector("[data-percent]").textContent = `${percent} %`;
    });
    // the answer names the page of the file; what a refusal says is plain text
    request.addEventListener("load", () => {
      if (request.status === 201) location.assign(request.getResponseHeader("Location"));
      else show(request.getResponseHeader("Content-Type")?.startsWith("text/plain") ? request.responseText : form.dataset.failed);
    });
    request.addEventListener("error", () => show(form.dataset.failed));
    button.disabled = true;
    going.hidden = false;
    const sent = new FormData();
    for (const file of input.files) sent.append("file", file);
    request.send(sent);
  };
  form.addEventListener("submit", (event) => {
    if (form.dataset.makes && !input.files.length) return;
    event.preventDefault();
    send();
  });
  // "nadia.json" suggests a name; "WhatsApp Chat with Nadia.zip" names the other person of the chat
  const OF_ANYBODY = /^(?:result|chat|chats|_chat|messages|conversations|export)$/i;
  const CHAT_WITH = /^WhatsApp Chat (?:with|-) /;
  const chosen = () => {
    const name = form.querySelector("[name=name]");
    if (!name) return send();
    form.querySelector(".drop-field strong").textContent = [...input.files].map((file) => file.name).join(", ");
    const title = input.files[0]?.name.replace(/\.\w+$/, "") ?? "";
    if (!name.value && !OF_ANYBODY.test(title) && !CHAT_WITH.test(title)) name.value = title;
    name.select();
  };
  input.addEventListener("change", chosen);

  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  for (const kind of ["dragenter", "dragover"])
    addEventListener(kind, (event) => {
      if (!carriesFiles(event)) return;
      event.preventDefault();
      form.classList.add("is-over");
    });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) form.classList.remove("is-over");
  });
  addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    form.classList.remove("is-over");
    input.files = event.dataTransfer.files;
    chosen();
  });
})();
