// The browser's time zone, in which the server writes times. The page asked for next is the first that knows it.
(() => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const cookie = `timezone=${zone}`;
  if (!zone || document.cookie.split("; ").includes(cookie)) return;
  document.cookie = `${cookie}; path=/; max-age=31536000; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
})();

// The theme "as the system" for Tabler, which only knows light and dark. Runs before the first paint.
(() => {
  const root = document.documentElement;
  if (root.dataset.bsTheme !== "auto") return;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => { root.dataset.bsTheme = dark.matches ? "dark" : "light"; };
  dark.addEventListener("change", follow);
  follow();
})();
