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

  const ROW = 22, COLUMN = 26, LEFT = 420, HEAD = 44, RIGHT = 16;
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
    const box = place.parentElement, seen = box.clientWidth - 2 * RIGHT;
    const width = Math.max(left + columns.length * COLUMN + RIGHT, Math.min(seen, left + columns.length * 64));
    const pitch = (width - left - RIGHT) / columns.length, cell = Math.min(pitch, 40);
    // Only what is in view is drawn, and its headings stay: all of 200 runs and 500 topics take hundreds of megabytes.
    const across = Math.max(Math.min(Math.floor((seen - left - RIGHT) / pitch + 0.01), columns.length), 1);
    const down = Math.max(Math.min(Math.floor((innerHeight * 0.75 - HEAD) / ROW), rows.length), 1);
    chart?.dispose();
    place.style.width = `${width}px`;
    place.style.height = `${rows.length * ROW + HEAD}px`;
    const view = Object.assign(document.createElement("div"), { className: "matrix-view" });
    // The picture's own element is placed by its library.
    const picture = view.appendChild(document.createElement("div"));
    place.replaceChildren(view);
    box.style.maxHeight = `${down * ROW + HEAD + 32}px`;
    chart = echarts.init(picture, null, { renderer: "canvas", width: left + RIGHT + across * pitch, height: down * ROW + HEAD });
    const line = (text, name = "") => Object.assign(document.createElement("p"), { textContent: text, className: name });
    chart.setOption({
      animation: false,
      grid: { left, right: 16, top: 36, bottom: 8 },
      xAxis: { type: "category", position: "top", axisLine: { show: false }, axisTick: { show: false }, axisLabel: { color: inks.text, interval: "auto" }, splitArea: { show: false } },
      yAxis: { type: "category", inverse: true, axisLine: { show: false }, axisTick: { show: false }, axisLabel: { color: inks.text, width: left - 20, overflow: "truncate", interval: 0, align: "left", margin: left - 8 } },
      tooltip: {
        trigger: "item", confine: true, transitionDuration: 0, backgroundColor: inks.panel, borderColor: inks.line, className: "map-tip-box", textStyle: { color: inks.text, fontFamily: "inherit", fontSize: 13 },
        formatter: ({ data }) => {
          const box = document.createElement("div"), [, , state, rank, column, row] = data.value;
          box.className = "map-tip";
          box.append(line(`${rows[row][0]} · ${columns[column][0]}`, "mono"), line(rows[row][1]), line(rank ? `${words[state]} · #${rank}` : words[state]));
          return box;
        },
      },
    });
    const show = () => {
      const top = Math.min(Math.ceil(box.scrollTop / ROW), rows.length - down), start = Math.min(Math.ceil(box.scrollLeft / pitch), columns.length - across);
      const inView = cells.filter(([row, column]) => row >= top && row < top + down && column >= start && column < start + across);
      chart.setOption({
        xAxis: { data: columns.slice(start, start + across).map((_column, at) => String(start + at + 1)) },
        yAxis: { data: rows.slice(top, top + down).map(([id, summary]) => narrow ? id : `${id}  ${summary}`) },
        series: LOOKS.map((look) => ({
          id: look, type: "scatter", symbol: "rect", symbolSize: [Math.max(cell - 3, 3), ROW - 4], itemStyle: { color: inks[look] }, large: false,
          data: inView.filter(([, , state]) => state === look).map(([row, column, state, rank]) => ({ value: [column - start, row - top, state, rank, column, row] })),
        })),
      });
    };
    box.onscroll = show;
    show();
    chart.on("click", ({ data }) => { location.href = columns[data.value[4]][1]; });
  };
  addEventListener("resize", draw);
  document.addEventListener("htmx:afterSettle", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-bs-theme", "class", "data-theme"] });
  draw();
})();
