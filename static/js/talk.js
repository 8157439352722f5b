// A long talk: its head says which topic it is once the title is out of sight, and the strip marks what is in sight.
(() => {
  const head = document.querySelector("[data-talk-head]");
  const title = document.querySelector(".page-head");
  if (!head || !title) return;
  new IntersectionObserver(([seen]) => head.classList.toggle("is-stuck", !seen.isIntersecting), { rootMargin: "-56px 0px 0px" }).observe(title);
  const map = head.querySelector("[data-minimap]");
  if (!map) return;
  const bars = new Map([...map.querySelectorAll("a[data-of]")].map((bar) => [bar.dataset.of, bar]));
  const sight = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) bars.get(target.id.replace("message-", ""))?.classList.toggle("is-in-sight", isIntersecting);
  }, { rootMargin: "-120px 0px -48px" });
  for (const message of document.querySelectorAll("#list .message")) sight.observe(message);
})();
