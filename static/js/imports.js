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
  const send = () => {
    if (![...input.files].length || button.disabled) return;
    const total = [...input.files].reduce((sum, file) => sum + file.size, 0);
    if (total > Number(form.dataset.most)) return show(form.dataset.tooLarge);
    show("");
    const request = new XMLHttpRequest();
    request.open("POST", form.action);
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
    request.send(new FormData(input.form));
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  input.addEventListener("change", send);

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
    send();
  });
})();
