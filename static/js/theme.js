// The theme "as the system" for Tabler, which only knows light and dark. Runs before the first paint.
(() => {
  const root = document.documentElement;
  if (root.dataset.bsTheme !== "auto") return;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => { root.dataset.bsTheme = dark.matches ? "dark" : "light"; };
  dark.addEventListener("change", follow);
  follow();
})();
