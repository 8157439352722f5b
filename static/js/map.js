// The map: topics as dots, picked with a box or a lasso; from far away, spots where many of them lie. The same stands
// below in a table, for who sees no picture.
(() => {
  const map = document.getElementById("map");
  if (!map || !window.echarts) return;
  const canvas = map.querySelector("[data-canvas]");
  const form = document.forms.namedItem("picked");
  const dots = JSON.parse(document.getElementById("dots").textContent)
    .map(([id, x, y, began, ended, messages, characters, summary, region]) => ({ id, x, y, began, ended, messages, characters, summary, region }));
  const read = (name) => JSON.parse(document.getElementById(name).textContent);
  const regions = read("regions"), lit = read("lit");
  const at = new Map(dots.map((dot, place) => [dot.id, place]));
  // days as everywhere on the site: the day first
  const language = { en: "en-GB" }[document.documentElement.lang] ?? document.documentElement.lang;
  const numbers = new Intl.NumberFormat(language);
  const days = new Intl.DateTimeFormat(language, { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
  const day = (seconds) => days.format(new Date(seconds * 1000));
  const picked = new Set();
  let colour = map.dataset.colour;
  let brush = "";

  // colours are the theme's, read where the browser has settled which of the two it is
  const reader = document.createElement("span");
  reader.hidden = true;
  map.append(reader);
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const token = (name) => {
    reader.className = `ink-${name}`;
    pen.fillStyle = getComputedStyle(reader).color;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const written = (rgb, alpha = 1) => `rgba(${rgb.map(Math.round).join(",")},${alpha})`;
  let inks = {};
  const dip = () => { inks = Object.fromEntries(["low", "middle", "high", "text", "panel", "accent", "line", "read", "chosen", ...regions.map((_region, at) => `region-${at}`)].map((name) => [name, token(name)])); };
  const mixed = (share) => {
    const [from, to, part] = share < 0.5 ? [inks.low, inks.middle, share * 2] : [inks.middle, inks.high, share * 2 - 1];
    return from.map((value, channel) => value + (to[channel] - value) * part);
  };

  const value = { time: (dot) => dot.ended, size: (dot) => Math.log(dot.characters + 1) };
  const range = (read, among = dots) => among.reduce(([low, high], dot) => [Math.min(low, read(dot)), Math.max(high, read(dot))], [Infinity, -Infinity]);
  const radius = (dot) => 6 + 1.6 * Math.log2(1 + dot.messages);
  const painter = () => {
    if (colour === "region") return (dot) => inks[`region-${dot.region}`];
    const measure = value[colour], [low, high] = range(measure);
    return (dot) => mixed(high > low ? (measure(dot) - low) / (high - low) : 0.5);
  };
  // of more dots one would see only a cloud, so each cell of the picture becomes a spot: the more dots, the larger it is
  const NEAR = 600, CELL = 26;
  let shown = [];
  const spots = () => {
    const [[left, top], [right, bottom]] = [[0, 0], [canvas.clientWidth, canvas.clientHeight]].map((corner) => chart.convertFromPixel("grid", corner));
    const inView = dots.filter((dot) => dot.x >= left && dot.x <= right && dot.y >= bottom && dot.y <= top);
    if (inView.length <= NEAR) return dots.map((dot) => ({ ...dot, dots: [dot] }));
    const [wide, high] = [(right - left) / canvas.clientWidth * CELL, (top - bottom) / canvas.clientHeight * CELL];
    const cells = new Map();
    for (const dot of inView) if (!lit[dot.id]) {
      const cell = `${Math.floor(dot.x / wide)} ${Math.floor(dot.y / high)} ${colour === "region" ? dot.region : 0}`;
      cells.set(cell, [...(cells.get(cell) ?? []), dot]);
    }
    const mean = (members, name) => members.reduce((sum, dot) => sum + dot[name], 0) / members.length;
    const joined = (members) => ({ ...members[0], x: mean(members, "x"), y: mean(members, "y"), ended: mean(members, "ended"), characters: mean(members, "characters"), dots: members });
    return [...[...cells.values()].map(joined), ...inView.filter((dot) => lit[dot.id]).map((dot) => ({ ...dot, dots: [dot] }))];
  };
  const size = (spot) => spot.dots.length > 1 ? Math.min(CELL * 1.4, 7 + 3.2 * Math.sqrt(spot.dots.length)) : radius(spot) * (shown.length < dots.length ? 0.7 : 1);
  const data = () => {
    const paint = painter();
    shown = spots();
    return shown.map((dot) => {
      const isPicked = dot.dots.some(({ id }) => picked.has(id)), light = dot.dots.length === 1 && lit[dot.id];
      return {
        value: [dot.x, dot.y],
        symbolSize: size(dot) + (isPicked || light ? 3 : 0),
        itemStyle: {
          color: written(paint(dot), picked.size && !isPicked ? 0.35 : 0.85),
          borderColor: written(isPicked ? inks.text : light ? inks[light] : inks.panel),
          borderWidth: isPicked ? 2 : light ? 3 : 1,
          ...(light && { shadowBlur: 12, shadowColor: written(inks[light], 0.8) }),
        },
      };
    });
  };

  // the regions lie under the dots as soft shapes, their names above; both follow them when one comes nearer
  const plane = map.querySelector("[data-regions]"), above = map.querySelector("[data-region-names]");
  const drawn = (name, attributes, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };
  const place = () => {
    plane.replaceChildren();
    above.replaceChildren();
    if (colour !== "region") return;
    const set = [], seen = shown.map((dot) => chart.convertToPixel("grid", [dot.x, dot.y]));
    const shapes = regions.map(({ corners }) => corners.map((corner) => chart.convertToPixel("grid", corner)));
    regions.forEach(({ name }, at) => {
      plane.append(drawn("polygon", { class: `region region-${at}`, points: shapes[at].map((spot) => spot.join(",")).join(" ") }));
      if (!name || !isSeen(shapes[at])) return;
      const words = shortened(name);
      const label = best(places(shapes[at], half(words)), { set, seen, others: shapes.filter((shape) => shape !== shapes[at]) });
      set.push(label);
      above.append(drawn("text", { class: `region-name region-${at}`, x: label.x, y: label.y, "text-anchor": "middle" }, words));
    });
  };
  // on a phone a name has room for two words
  const shortened = (name) => (canvas.clientWidth < 480 ? name.split(", ").slice(0, 2).join(", ") : name);
  const isSeen = (spots) => [canvas.clientWidth, canvas.clientHeight].every((room, way) => spots.some((spot) => spot[way] > 0) && spots.some((spot) => spot[way] < room));
  // where a name may stand: above, below, at the sides or inside its region, within the picture; the best first
  const half = (name) => { pen.font = "600 12px Inter, sans-serif"; return pen.measureText(name).width / 2; };
  const places = (spots, half) => {
    const [xs, ys] = [0, 1].map((way) => spots.map((spot) => spot[way]));
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const middle = (left + right) / 2, height = (top + bottom) / 2, side = half + 26;
    const wanted = [[middle, top - 24], [middle, bottom + 34], [left + half, top - 24], [right - half, top - 24], [left + half, bottom + 34], [right - half, bottom + 34], [right + side, height], [left - side, height], [middle, height]];
    const within = (value, room, edge) => Math.min(Math.max(value, edge), room - edge);
    return wanted.map(([x, y]) => ({ x: within(x, canvas.clientWidth, half + 8), y: within(y, canvas.clientHeight, 16), half }));
  };
  // another name in the way is worse than any number of dots, a dot is worse than another region, and that than the next place
  const best = (places, { set, seen, others }) => {
    const strays = ({ x, y, half }) => others.filter((range) => [x - half, x, x + half].some((at) => holds(range, [at, y]))).length;
    const lies = (label) => 1e4 * set.filter((other) => Math.abs(other.y - label.y) < 18 && Math.abs(other.x - label.x) < other.half + label.half + 8).length;
    const hides = (label) => seen.filter(([x, y]) => Math.abs(x - label.x) < label.half + 6 && Math.abs(y - label.y + 4) < 14).length;
    const costs = places.map((label, rank) => lies(label) + hides(label) + strays(label) / 2 + rank / 100);
    return places[costs.indexOf(Math.min(...costs))];
  };
  const scale = () => {
    map.querySelector("[data-scale]").hidden = colour === "region";
    if (colour === "region") return;
    const ends = colour === "time" ? range((dot) => dot.ended).map(day) : range((dot) => dot.characters).map((n) => numbers.format(n));
    map.querySelector("[data-scale-from]").textContent = ends[0];
    map.querySelector("[data-scale-to]").textContent = ends[1];
  };

  // an element, for the policy refuses styles written into HTML
  const line = (name, text) => {
    const part = document.createElement("p");
    part.className = name;
    part.textContent = text;
    return part;
  };
  const tip = ({ dataIndex }) => {
    const dot = shown[dataIndex], box = document.createElement("div");
    box.className = "map-tip";
    if (dot.dots.length > 1) {
      box.append(line("mono", `${map.dataset.topics}: ${numbers.format(dot.dots.length)}`));
      for (const { summary } of dot.dots.slice(0, 3)) box.append(line("map-tip-summary", summary));
      box.append(line("quiet", map.dataset.nearer));
      return box;
    }
    const when = day(dot.began) === day(dot.ended) ? day(dot.ended) : `${day(dot.began)} – ${day(dot.ended)}`;
    const sizes = [[map.dataset.messages, dot.messages], [map.dataset.characters, dot.characters]];
    box.append(line("mono", `Topic:${dot.id}`), line("map-tip-summary", dot.summary), line("quiet", [when, ...sizes.map(([name, count]) => `${name}: ${numbers.format(count)}`)].join(" · ")));
    return box;
  };

  const chart = echarts.init(canvas, null, { renderer: "canvas" });
  const axis = (low, high) => ({ type: "value", show: false, min: low - (high - low) * 0.04, max: high + (high - low) * 0.04 });
  const draw = () => {
    dip();
    chart.setOption({
      animation: false,
      grid: { left: 8, right: 8, top: 8, bottom: 8 },
      xAxis: axis(...range((dot) => dot.x)),
      yAxis: axis(...range((dot) => dot.y)),
      dataZoom: [0, 1].map((place) => ({ type: "inside", [place ? "yAxisIndex" : "xAxisIndex"]: 0, filterMode: "none", moveOnMouseMove: "shift" })),
      tooltip: { trigger: "item", formatter: tip, className: "map-tip-box", confine: true, transitionDuration: 0, backgroundColor: written(inks.panel), borderColor: written(inks.line), textStyle: { color: written(inks.text), fontFamily: "inherit", fontSize: 13 } },
      brush: { xAxisIndex: 0, brushMode: "multiple", throttleType: "debounce", throttleDelay: 80, outOfBrush: {}, inBrush: {}, brushStyle: { color: written(inks.accent, 0.12), borderColor: written(inks.accent), borderWidth: 1 } },
      series: [{ type: "scatter", data: [], cursor: "pointer" }],
    });
    redraw();
  };
  const redraw = () => { chart.setOption({ series: [{ data: data() }] }); scale(); place(); };

  const nearer = ({ dots: members }) => {
    const ranges = ["x", "y"].map((way) => range((dot) => dot[way], members));
    chart.dispatchAction({ type: "dataZoom", batch: ranges.map(([low, high], dataZoomIndex) => {
      const margin = Math.max(high - low, 0.01) * 1.5;
      return { dataZoomIndex, startValue: low - margin, endValue: high + margin };
    }) });
  };

  // what is picked: dots and rows are two views of one set
  const show = () => {
    for (const box of document.querySelectorAll("input[type=checkbox][form=picked]")) box.checked = picked.has(Number(box.value));
    more.value = [...picked].join(",");
    more.dispatchEvent(new Event("change", { bubbles: true }));
    redraw();
  };
  const more = document.createElement("input"), area = document.createElement("input");
  // an area that was drawn is a filter of the list; what was picked otherwise is listed by its numbers
  let drawnArea = "";
  if (form) {
    more.type = "hidden";
    more.name = "more";
    area.type = "hidden";
    form.append(more, area);
    document.addEventListener("change", (event) => {
      if (event.target.type !== "checkbox" || event.target.form !== form) return;
      picked[event.target.checked ? "add" : "delete"](Number(event.target.value));
      drawnArea = "";
      more.value = [...picked].join(",");
      redraw();
    });
    form.addEventListener("reset", () => { picked.clear(); setTimeout(show); });
    // one field with all of them makes a shorter address than a thousand boxes
    form.addEventListener("submit", ({ submitter }) => {
      for (const box of document.querySelectorAll("input[type=checkbox][form=picked]")) box.disabled = true;
      const isArea = drawnArea && submitter?.hasAttribute("data-lists-picked");
      more.name = isArea ? "" : "topics";
      area.name = isArea ? "area" : "";
      area.value = drawnArea;
    });
    addEventListener("pageshow", () => {
      for (const box of document.querySelectorAll("input[type=checkbox][form=picked]")) box.disabled = false;
      more.name = "more";
      area.name = "";
    });
  }

  const take = (kind) => {
    brush = kind;
    for (const button of map.querySelectorAll("[data-brush]")) button.setAttribute("aria-pressed", String(button.dataset.brush === kind));
    chart.dispatchAction({ type: "takeGlobalCursor", key: "brush", brushOption: { brushType: kind || false, brushMode: "single" } });
  };
  let isAdding = false;
  canvas.addEventListener("mousedown", (event) => { isAdding = event.shiftKey; }, true);
  chart.on("brushEnd", ({ areas }) => {
    if (!areas.length) return;
    if (!isAdding) picked.clear();
    const corners = outline(areas[0]);
    drawnArea = isAdding && picked.size ? "" : corners.map((corner) => corner.join(",")).join(";");
    for (const dot of dots) if (holds(corners, [dot.x * 1000, dot.y * 1000])) picked.add(dot.id);
    chart.dispatchAction({ type: "brush", areas: [] });
    show();
  });
  // the corners of what was drawn in thousandths, few enough for an address
  const outline = ({ brushType, range: edges }) => {
    const [xs, ys] = brushType === "rect" ? edges : [];
    const drawing = xs ? [[xs[0], ys[0]], [xs[1], ys[0]], [xs[1], ys[1]], [xs[0], ys[1]]] : edges.filter((_corner, at) => at % Math.ceil(edges.length / 18) === 0);
    return drawing.map((corner) => chart.convertFromPixel("grid", corner).map((value) => Math.round(value * 1000)));
  };
  const holds = (edges, [x, y]) => edges.reduce((inside, [ax, ay], place) => {
      const [bx, by] = edges[(place || edges.length) - 1];
      return (ay > y) !== (by > y) && x < ((bx - ax) * (y - ay)) / (by - ay) + ax ? !inside : inside;
    }, false);

  chart.on("click", ({ dataIndex, event }) => {
    const dot = shown[dataIndex];
    if (dot.dots.length > 1 && !brush) return nearer(dot);
    if (form && (event.event.shiftKey || event.event.ctrlKey || event.event.metaKey)) {
      picked[picked.has(dot.id) ? "delete" : "add"](dot.id);
      drawnArea = "";
      return show();
    }
    if (brush) return;
    const address = (kind) => map.dataset[kind].replace("/0/", `/${dot.id}/`);
    if (matchMedia("(min-width: 761px)").matches) htmx.ajax("GET", address("peek"), { target: "#peek", swap: "innerHTML" });
    else location.assign(address("open"));
  });

  map.addEventListener("click", (event) => {
    const tool = event.target.closest("[data-brush]"), by = event.target.closest("[data-colour-by]");
    if (tool) take(tool.dataset.brush);
    if (!by) return;
    event.preventDefault();
    colour = by.dataset.colourBy;
    for (const link of map.querySelectorAll("[data-colour-by]")) link.toggleAttribute("aria-current", link === by);
    history.replaceState(null, "", by.href);
    redraw();
  });
  tinykeys.tinykeys(window, {
    KeyB: () => { if (form) take("rect"); },
    KeyL: () => { if (form) take("polygon"); },
    KeyV: () => take(""),
  });

  let isAsked = 0;
  chart.on("datazoom", () => { isAsked ||= requestAnimationFrame(() => { isAsked = 0; redraw(); }); });
  new ResizeObserver(() => { chart.resize(); if (map.dataset.ready === "") place(); }).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
  map.dataset.ready = "";
  map.mapOf = (id) => chart.convertToPixel("grid", [dots[at.get(id)].x, dots[at.get(id)].y]);
})();
