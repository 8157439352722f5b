// Compared runs: a topic lights up wherever it stands; x swaps the two; the matrix is drawn from data in the page.
(() => {
  let lit = "";
  const light = (event) => {
    const id = event.target.closest?.("[data-topic]")?.dataset.topic ?? "";
    if (id === lit) return;
    lit = id;
    for (const part of document.querySelectorAll("[data-topic]")) part.classList.toggle("is-lit", id !== "" && part.dataset.topic === id);
  };
  document.addEventListener("pointerover", light);
  document.addEventListener("focusin", light);
  const walk = (direction) => {
    const rows = [...document.querySelectorAll(".compared-list:not(.is-second) .compared-name")].filter((row) => row.checkVisibility());
    const at = rows.findIndex((row) => row === document.activeElement);
    const next = rows[Math.min(Math.max(at + direction, 0), rows.length - 1)];
    next?.focus();
  };
  tinykeys.tinykeys(window, {
    KeyX: () => document.querySelector("[data-swaps]")?.click(),
    KeyJ: () => walk(1),
    KeyK: () => walk(-1),
  });

  const ROW = 22, COLUMN = 26, LEFT = 420;
  const LOOKS = ["chosen", "instead", "read", "requested", "dropped", "shown", "below", "initial", "threshold", "gap", "top_k"];
  let chart = null;
  const draw = () => {
    const place = document.getElementById("matrix"), stored = document.getElementById("matrix-picture");
    if (!place || !stored || !window.echarts) return;
    const { rows, columns, cells, words } = JSON.parse(stored.textContent);
    const ink = (name) => {
      place.className = `matrix ink-matrix-${name}`;
      const read = getComputedStyle(place).color;
      place.className = "matrix";
      return read;
    };
    const inks = Object.fromEntries([...LOOKS, "text", "panel", "line"].map((name) => [name, ink(name)]));
    const narrow = innerWidth < 760, left = narrow ? 84 : LEFT;
    place.setAttribute("data-rows", String(rows.length));
    const height = rows.length * ROW + 44, width = Math.max(left + columns.length * COLUMN + 16, Math.min(place.parentElement.clientWidth, left + columns.length * 64));
    chart?.dispose();
    chart = echarts.init(place, null, { renderer: "canvas", width, height });
    const cell = Math.min((width - left - 16) / columns.length, 40);
    const line = (text, name = "") => Object.assign(document.createElement("p"), { textContent: text, className: name });
    chart.setOption({
      animation: false,
      grid: { left, right: 16, top: 36, bottom: 8 },
      xAxis: { type: "category", data: columns.map((_column, at) => String(at + 1)), position: "top", axisLine: { show: false }, axisTick: { show: false }, axisLabel: { color: inks.text, interval: "auto" }, splitArea: { show: false } },
      yAxis: { type: "category", inverse: true, data: rows.map(([id, summary]) => narrow ? id : `${id}  ${summary}`), axisLine: { show: false }, axisTick: { show: false }, axisLabel: { color: inks.text, width: left - 20, overflow: "truncate", interval: 0, align: "left", margin: left - 8 } },
      tooltip: {
        trigger: "item", confine: true, transitionDuration: 0, backgroundColor: inks.panel, borderColor: inks.line, className: "map-tip-box", textStyle: { color: inks.text, fontFamily: "inherit", fontSize: 13 },
        formatter: ({ data }) => {
          const box = document.createElement("div"), [column, row, state, rank] = data.value;
          box.className = "map-tip";
          box.append(line(`${rows[row][0]} · ${columns[column][0]}`, "mono"), line(rows[row][1]), line(rank ? `${words[state]} · #${rank}` : words[state]));
          return box;
        },
      },
      series: LOOKS.map((look) => ({
        type: "scatter", symbol: "rect", symbolSize: [Math.max(cell - 3, 3), ROW - 4], itemStyle: { color: inks[look] }, large: false,
        data: cells.filter(([, , state]) => state === look).map(([row, column, state, rank]) => ({ value: [column, row, state, rank] })),
      })),
    });
    chart.on("click", ({ data }) => { location.href = columns[data.value[0]][1]; });
  };
  addEventListener("resize", draw);
  document.addEventListener("htmx:afterSettle", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-bs-theme", "class", "data-theme"] });
  draw();
})();
