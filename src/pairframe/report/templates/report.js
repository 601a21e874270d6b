"use strict";
(() => {
  const started = performance.now();
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const address = (page) => (data.embedded ? "#" + page : "pairs/" + page + ".html");
  // Frames without an origin do not follow links, not even within a page.
  if (data.embedded) document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    const place = link && byId(link.getAttribute("href").slice(1));
    if (place) { event.preventDefault(); place.scrollIntoView(); }
  });
  const n = data.ids.length;
  // Okabe and Ito's palette without the colours of source and target's maps, and a shape beside each colour.
  const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8A8A00", "#7A6FBE"];
  const OTHERS = "#8A8A8A", SHAPES = ["circle", "square", "triangle", "diamond"];
  const MOST_POINTS = 5000, CROWD = 400, FEW = 20, SVG = "http://www.w3.org/2000/svg";

  // --- values -------------------------------------------------------------------------------
  // A constant column is sent as one value. JSON has no infinity, which is sent as text. Missing values are null.
  for (const column of data.columns) {
    if (data.values[column.name].length < n) data.values[column.name] = new Array(n).fill(data.values[column.name][0]);
    if (!column.numeric) continue;
    data.values[column.name] = data.values[column.name].map((v) => (v === "inf" ? Infinity : v === "-inf" ? -Infinity : v));
  }
  const columnOf = new Map(data.columns.map((column) => [column.name, column]));
  const valuesOf = (name) => data.values[name] || null;

  function inWords(value, unit) {
    if (value === null || value === undefined) return "–";
    if (value === Infinity) return "∞";
    if (value === -Infinity) return "−∞";
    const size = Math.abs(value);
    if (unit === "%" && value < 0 && size < 1e-3) return "−0";
    if (unit === "%" && value > 0 && size < 1e-3) return size <= 1e-6 ? "0" : "<0.001";
    // Enough digits to distinguish nearly all from all.
    const missing = Math.abs(100 - value);
    if (unit === "%" && missing > 0 && missing < 1) {
      if (missing <= 1e-7) return "100";
      return missing < 1e-3 ? (value < 100 ? ">99.999" : "<100.001") : String(Number(value.toFixed(-Math.floor(Math.log10(missing)))));
    }
    if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(1).replace(/-/g, "−");
    return value.toLocaleString("en", { maximumSignificantDigits: 4 }).replace(/-/g, "−");
  }
  const short = (text, most = 48) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
  const named = (column) => column.label + (column.unit ? " (" + column.unit + ")" : "");

  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(properties)) {
      if (key === "class") made.className = value;
      else if (key.includes("-")) made.setAttribute(key, value);
      else made[key] = value;
    }
    made.append(...children);
    return made;
  }

  // --- which rows, in which order -----------------------------------------------------------
  const state = { sort: null, down: false, page: 0, size: n <= 25 ? 25 : 10, rows: [] };
  const statuses = valuesOf("status") || new Array(n).fill("");
  const verdicts = data.words.length < n ? new Array(n).fill(data.words[0]) : data.words;
  const groups = data.group ? valuesOf(data.group).map((v) => (v === null ? "" : String(v))) : null;
  // What the text filter looks through; made when it is first used.
  let texts = null;
  const textsOf = () => texts || (texts = data.ids.map((id, row) => {
    const parts = [id, data.notes[row]];
    for (const c of data.columns) if (!c.numeric) parts.push(data.values[c.name][row]);
    for (const c of data.columns) if (c.numeric && c.carried) parts.push(c.label + "=" + data.values[c.name][row]);
    return parts.filter((part) => part !== null).join("\n").toLowerCase();
  }));
  const collator = new Intl.Collator("en", { numeric: true });

  function choose() {
    const words = byId("text-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const status = byId("status-filter").value, group = byId("group-filter").value;
    state.rows = [];
    for (let row = 0; row < n; row++) {
      if (status && verdicts[row] !== status) continue;
      if (group && groups && "=" + groups[row] !== group) continue;
      if (words.length && !words.every((word) => textsOf()[row].includes(word))) continue;
      state.rows.push(row);
    }
    order();
    drawPlots();
  }

  function order() {
    if (state.sort !== null) {
      const numeric = state.sort !== "" && columnOf.get(state.sort).numeric;
      const values = state.sort === "" ? data.ids : valuesOf(state.sort);
      const sign = state.down ? -1 : 1;
      state.rows.sort((a, b) => {
        const va = values[a], vb = values[b];
        // What is missing comes last, whichever way round.
        if (va === null || vb === null) return (va === null) - (vb === null) || a - b;
        const found = numeric ? (va < vb ? -1 : va > vb ? 1 : 0) : collator.compare(String(va), String(vb));
        return sign * found || a - b;
      });
    }
    state.page = 0;
    drawTable();
  }

  // --- the table ----------------------------------------------------------------------------
  const table = byId("pairs");
  const hasPictures = data.pictures.some((picture) => picture !== null);

  function header(name, label, unit, meaning, numeric) {
    const cell = element("th", { scope: "col", title: meaning, class: numeric ? "number" : "" });
    if (state.sort === name) cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    const button = element("button", { type: "button" }, element("span", {}, short(label, 24)), element("span", { class: "unit" }, unit));
    button.dataset.column = name;
    button.addEventListener("click", () => {
      // Numbers are most interesting from the top, names from the start.
      if (state.sort === name) state.down = !state.down;
      else [state.sort, state.down] = [name, numeric];
      order();
      const again = [...table.tHead.querySelectorAll("button")].find((b) => b.dataset.column === name);
      if (again) again.focus();
    });
    cell.append(button);
    return cell;
  }

  function cellOf(column, row) {
    const value = data.values[column.name][row];
    if (column.name === "status") {
      return element("td", {}, element("span", { class: "badge " + data.kinds[row], title: data.notes[row] }, verdicts[row]));
    }
    if (column.numeric) return element("td", { class: "number", title: value === null ? "" : String(value) }, inWords(value, column.unit));
    const text = value === null ? "–" : value === true ? "yes" : value === false ? "no" : String(value);
    return element("td", {}, element("span", { class: "clip", title: text }, text));
  }

  function drawTable() {
    const shown = data.columns.filter((column) => column.shown);
    const head = element("tr");
    if (hasPictures) head.append(element("th", { scope: "col" }));
    head.append(header("", "pair", "", "name of the pair", false));
    for (const c of shown) head.append(header(c.name, c.label, c.unit, c.meaning, c.numeric));
    table.tHead.replaceChildren(head);

    const body = document.createDocumentFragment();
    const first = state.page * state.size;
    for (const row of state.rows.slice(first, first + state.size)) {
      const line = element("tr", { class: data.kinds[row] });
      line.dataset.row = row;
      const page = data.pages[row], id = data.ids[row];
      if (hasPictures) {
        const cell = element("td", { class: "picture" });
        if (data.pictures[row]) cell.append(element("img", { loading: "lazy", alt: "", width: 96, height: 54, src: data.pictures[row] }));
        line.append(cell);
      }
      const name = page
        ? element("a", { class: "clip", title: id, href: address(page) }, id)
        : element("span", { class: "clip", title: id }, id);
      line.append(element("td", {}, name));
      for (const c of shown) line.append(cellOf(c, row));
      if (page) {
        line.classList.add("linked");
        line.addEventListener("click", (event) => {
          if (event.target.closest("a") || String(getSelection())) return;
          name.click();
        });
      } else if (byId("problems")) {
        line.classList.add("linked");
        line.addEventListener("click", () => byId("problems").scrollIntoView());
      }
      body.append(line);
    }
    table.tBodies[0].replaceChildren(body);

    const found = state.rows.length, pages = Math.max(1, Math.ceil(found / state.size));
    byId("count").textContent = found === n ? n.toLocaleString("en") + " pairs" : found.toLocaleString("en") + " of " + n.toLocaleString("en") + " pairs";
    byId("page-number").textContent = "page " + (state.page + 1) + " of " + pages;
    byId("previous").disabled = state.page === 0;
    byId("next").disabled = state.page >= pages - 1;
    byId("paging").hidden = n <= 25;
    hintAtMore();
  }

  // A table that is cut off at the edge says so, until its end has been seen.
  function hintAtMore() {
    const box = byId("pairs-scroll"), left = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.classList.toggle("more", left > 2);
    byId("more-columns").hidden = box.scrollWidth <= box.clientWidth + 2;
    box.tabIndex = byId("more-columns").hidden ? -1 : 0;
  }
  byId("pairs-scroll").addEventListener("scroll", hintAtMore, { passive: true });
  addEventListener("resize", hintAtMore);

  // --- plots --------------------------------------------------------------------------------
  const svg = (tag, attributes = {}, ...children) => {
    const made = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  function marker(shape, x, y, r, attributes) {
    if (shape === "square") return svg("rect", { x: x - r * 0.9, y: y - r * 0.9, width: r * 1.8, height: r * 1.8, ...attributes });
    if (shape === "triangle") return svg("path", { d: `M${x} ${y - r * 1.2}L${x + r * 1.1} ${y + r * 0.8}H${x - r * 1.1}Z`, ...attributes });
    if (shape === "diamond") return svg("path", { d: `M${x} ${y - r * 1.3}L${x + r * 1.3} ${y}L${x} ${y + r * 1.3}L${x - r * 1.3} ${y}Z`, ...attributes });
    return svg("circle", { cx: x, cy: y, r, ...attributes });
  }

  function ticks(low, high, about) {
    const step0 = (high - low) / about, power = 10 ** Math.floor(Math.log10(step0));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= step0 * 0.999) || step0;
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
    return found;
  }

  function span(values) {
    let low = Infinity, high = -Infinity;
    for (const v of values) { if (v < low) low = v; if (v > high) high = v; }
    if (low > high) return [0, 1];
    if (low === high) { const room = Math.abs(low) * 0.1 || 0.5; return [low - room, high + room]; }
    return [low, high];
  }

  function colouring() {
    const name = byId("colour").value;
    if (!name) return { of: () => 0, names: [""] };
    const values = valuesOf(name).map((v) => (v === null ? "–" : String(v)));
    const counts = new Map();
    for (const v of values) counts.set(v, (counts.get(v) || 0) + 1);
    const most = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a)).slice(0, COLOURS.length);
    const names = most.sort(collator.compare);
    const index = new Map(names.map((v, k) => [v, k]));
    if (counts.size > names.length) names.push("others (" + (counts.size - index.size) + ")");
    return { of: (row) => (index.has(values[row]) ? index.get(values[row]) : names.length - 1), names };
  }
  const colourOf = (k) => COLOURS[k] || OTHERS;
  const shapeOf = (k) => SHAPES[k % SHAPES.length];

  function frameOf(width, height, left, bottom, xs, ys, xLabel, yLabel) {
    const top = 14, right = 14;
    const toX = (x) => left + (x - xs[0]) / (xs[1] - xs[0]) * (width - left - right);
    const toY = (y) => height - bottom - (y - ys[0]) / (ys[1] - ys[0]) * (height - top - bottom);
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": yLabel + " over " + xLabel });
    for (const t of ticks(ys[0], ys[1], 5)) {
      picture.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: toY(t), y2: toY(t) }));
      picture.append(svg("text", { class: "quiet", x: left - 6, y: toY(t) + 4, "text-anchor": "end" }, inWords(Number(t.toPrecision(12)))));
    }
    for (const t of ticks(xs[0], xs[1], 7)) {
      picture.append(svg("text", { class: "quiet", x: toX(t), y: height - bottom + 17, "text-anchor": "middle" }, inWords(Number(t.toPrecision(12)))));
    }
    picture.append(svg("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, short(xLabel)));
    picture.append(svg("text", { x: 0, y: 0, "text-anchor": "middle", transform: `translate(13 ${(height - bottom + top) / 2}) rotate(-90)` }, short(yLabel)));
    return { picture, toX, toY };
  }

  const said = (row, column) => short(data.ids[row], 80) + "\n" + named(column) + ": " + inWords(valuesOf(column.name)[row], column.unit);

  // Thousands of points: one path per colour instead of one element each; the nearest one is named under the plot.
  function drawCrowd(picture, rows, place, values, colours, toX, toY, column, caption) {
    const paths = new Map(), points = rows.map((row) => [toX(place[row]), toY(values[row]), row]);
    for (const [x, y, row] of points) {
      const key = colours.of(row) + (data.kinds[row] === "bad" ? " hollow" : "");
      paths.set(key, (paths.get(key) || "") + `M${(x - 2.5).toFixed(1)} ${y.toFixed(1)}a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0`);
    }
    for (const [key, d] of paths) {
      const colour = colourOf(parseInt(key, 10));
      picture.append(svg("path", { class: "crowd", d, fill: key.endsWith("hollow") ? "none" : colour, stroke: colour, "stroke-width": 0.5 }));
    }
    const nearest = (event) => {
      const box = picture.getBoundingClientRect(), zoom = 760 / box.width;
      const x = (event.clientX - box.left) * zoom, y = (event.clientY - box.top) * zoom;
      return points.reduce((best, p) => ((p[0] - x) ** 2 + (p[1] - y) ** 2 < (best[0] - x) ** 2 + (best[1] - y) ** 2 ? p : best))[2];
    };
    picture.addEventListener("pointermove", (event) => { caption.textContent = said(nearest(event), column) + " (click to open)"; });
    picture.addEventListener("click", (event) => {
      const page = data.pages[nearest(event)];
      if (page && data.embedded) byId(page).scrollIntoView();
      else if (page) location.href = address(page);
    });
  }

  const median = (values) => {
    const sorted = [...values].sort((a, b) => a - b);
    return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
  };

  // One thick line per colour through the medians, where many pairs share a place.
  function drawMedians(picture, rows, place, values, colours, toX, toY) {
    const at = new Map();
    for (const row of rows) {
      const k = colours.of(row);
      if (!at.has(k)) at.set(k, new Map());
      if (!at.get(k).has(place[row])) at.get(k).set(place[row], []);
      at.get(k).get(place[row]).push(values[row]);
    }
    let drawn = false;
    for (const [k, places] of at) {
      const members = [...places.values()].reduce((sum, some) => sum + some.length, 0);
      if (places.size < 2 || members < 3 * places.size) continue;
      const points = [...places].sort((a, b) => a[0] - b[0]).map(([x, some]) => toX(x).toFixed(1) + "," + toY(median(some)).toFixed(1)).join(" ");
      picture.append(svg("polyline", { class: "median", points, fill: "none", stroke: colourOf(k), "stroke-width": 4, "stroke-linejoin": "round" }));
      drawn = true;
    }
    return drawn;
  }

  function drawSeries(rows, column, colours) {
    const along = byId("along").value, values = valuesOf(column.name);
    const xColumn = along ? columnOf.get(along) : null;
    const place = xColumn ? valuesOf(along) : data.ids.map((_, row) => row + 1);
    const usable = rows.filter((row) => Number.isFinite(values[row]) && Number.isFinite(place[row])).sort((a, b) => place[a] - place[b] || a - b);
    if (!usable.length) {
      byId("series-plot").replaceChildren();
      byId("series-caption").textContent = "No pair here has both " + short(column.label) + (xColumn ? " and " + short(xColumn.label) : "") + ".";
      return usable;
    }
    const every = Math.ceil(usable.length / MOST_POINTS), drawn = usable.filter((_, k) => k % every === 0);
    const ys = span(drawn.map((row) => values[row])), room = 0.06 * (ys[1] - ys[0]);
    if (ys[0] >= 0 && ys[0] < 0.5 * ys[1]) ys[0] = 0; else ys[0] -= room;
    ys[1] += room;
    const cut = ys[0] > 0 ? " The vertical axis does not start at 0." : "";
    const xs = span(drawn.map((row) => place[row])), margin = 0.03 * (xs[1] - xs[0]);
    const { picture, toX, toY } = frameOf(760, 360, 76, 44, [xs[0] - margin, xs[1] + margin], ys, xColumn ? named(xColumn) : "row number", named(column));
    // Lines join the pairs of one series; without series, those of one colour where every place is taken once.
    const series = data.series ? valuesOf(data.series) : null;
    const lines = new Map();
    for (const row of drawn) {
      const key = series ? "s" + series[row] + "\n" + colours.of(row) : "c" + colours.of(row);
      if (!lines.has(key)) lines.set(key, []);
      lines.get(key).push(row);
    }
    for (const line of xColumn ? lines.values() : []) {
      const isOne = new Set(line.map((row) => place[row])).size === line.length;
      if (line.length < 2 || !isOne) continue;
      const points = line.map((row) => toX(place[row]).toFixed(1) + "," + toY(values[row]).toFixed(1)).join(" ");
      picture.append(svg("polyline", { points, fill: "none", stroke: colourOf(colours.of(line[0])), "stroke-width": lines.size > 12 ? 1 : 1.5, "stroke-opacity": lines.size > 12 ? 0.25 : 0.7 }));
    }
    const medians = xColumn && lines.size > 12 ? drawMedians(picture, drawn.filter((row) => data.kinds[row] !== "bad"), place, values, colours, toX, toY) : false;
    const caption = byId("series-caption");
    if (drawn.length > CROWD) drawCrowd(picture, drawn, place, values, colours, toX, toY, column, caption);
    else for (const row of drawn) {
      const k = colours.of(row), good = data.kinds[row] !== "bad";
      const point = marker(shapeOf(k), toX(place[row]), toY(values[row]), 4.5, { fill: good ? colourOf(k) : "none", stroke: colourOf(k), "stroke-width": good ? 0.5 : 1.5, "data-row": row });
      point.append(svg("title", {}, said(row, column)));
      picture.append(data.pages[row] ? svg("a", { href: address(data.pages[row]) }, point) : point);
    }
    byId("series-plot").replaceChildren(picture);
    const hollow = drawn.some((row) => data.kinds[row] === "bad") ? " Hollow: not certified." : "";
    const part = every > 1 ? " Every " + every + "th pair is drawn." : "";
    const what = series && xColumn ? "Each thin line is one " + short(data.series, 24) + ", each point one pair." : "Each point is one pair.";
    caption.textContent = what + (medians ? " Thick: medians." : "") + hollow + part + cut;
    return usable;
  }

  function drawHistogram(rows, column, colours) {
    if (!rows.length) {
      byId("histogram").replaceChildren();
      byId("histogram-caption").textContent = "";
      return;
    }
    const values = valuesOf(column.name);
    const present = [...new Set(rows.map(colours.of))].sort((a, b) => a - b);
    // Bars of a handful of values are all of height one: they are points.
    const asPoints = rows.length > 0 && rows.length <= FEW;
    const xs = span(rows.map((row) => values[row]));
    const bins = Math.max(14, Math.min(40, Math.ceil(Math.sqrt(rows.length / Math.max(1, present.length)) * 1.5)));
    const width = 500, left = 14, right = 14, bottom = 44, top = 8;
    const high = Math.max(44, Math.min(asPoints ? 150 : 300, (360 - top - bottom) / Math.max(1, present.length)));
    const height = top + bottom + high * present.length;
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "distribution of " + named(column) });
    const wide = (width - left - right) / bins;
    present.forEach((k, place) => {
      const some = rows.filter((row) => colours.of(row) === k), counts = new Array(bins).fill(0);
      const binOf = (row) => Math.min(bins - 1, Math.floor((values[row] - xs[0]) / (xs[1] - xs[0]) * bins));
      const base = top + high * (place + 1) - 9;
      for (const row of some) {
        const at = counts[binOf(row)]++;
        if (!asPoints) continue;
        const x = left + (values[row] - xs[0]) / (xs[1] - xs[0]) * (width - left - right);
        const point = marker(shapeOf(k), x, base - 8 - Math.min(12 * at, high - 40), 5, { fill: colourOf(k), "fill-opacity": 0.8, "data-row": row });
        point.append(svg("title", {}, said(row, column)));
        picture.append(point);
      }
      const most = Math.max(...counts);
      if (!asPoints) counts.forEach((count, bin) => {
        if (!count) return;
        const tall = count / most * (high - 32);
        const from = xs[0] + bin / bins * (xs[1] - xs[0]), to = xs[0] + (bin + 1) / bins * (xs[1] - xs[0]);
        const bar = svg("rect", { x: left + bin * wide + 0.5, y: base - tall, width: Math.max(1, wide - 1), height: tall, fill: colourOf(k) });
        bar.append(svg("title", {}, inWords(from) + " to " + inWords(to) + ": " + count));
        picture.append(bar);
      });
      const middle = median(some.map((row) => values[row]));
      const x = left + (middle - xs[0]) / (xs[1] - xs[0]) * (width - left - right);
      picture.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: base, y2: base }));
      picture.append(svg("path", { d: `M${x} ${base + 1}l4 7h-8Z`, fill: colourOf(k) }));
      const label = (colours.names[k] ? short(colours.names[k], 26) + ": " : "") + "n = " + some.length + ", median " + inWords(middle);
      picture.append(svg("text", { class: "quiet", x: width - right, y: base - high + 24, "text-anchor": "end" }, label));
    });
    for (const t of ticks(xs[0], xs[1], 5)) {
      picture.append(svg("text", { class: "quiet", x: left + (t - xs[0]) / (xs[1] - xs[0]) * (width - left - right), y: height - bottom + 22, "text-anchor": "middle" }, inWords(Number(t.toPrecision(12)))));
    }
    picture.append(svg("text", { x: width / 2, y: height - 6, "text-anchor": "middle" }, short(named(column))));
    byId("histogram").replaceChildren(picture);
    byId("histogram-caption").textContent = (asPoints ? "Each point is one pair" : "Number of pairs per value") + "; the mark is the median.";
  }

  function drawPlots() {
    if (byId("plots-section").hidden) return;
    const column = columnOf.get(byId("quantity").value), colours = colouring();
    const usable = drawSeries(state.rows, column, colours);
    // Uncertified pairs are drawn hollow and excluded from every statistic.
    const certified = usable.filter((row) => data.kinds[row] !== "bad");
    drawHistogram(certified, column, colours);
    const left = state.rows.length - usable.length, hollow = usable.length - certified.length;
    const along = byId("along").value, values = valuesOf(column.name);
    const placeless = along ? state.rows.filter((row) => Number.isFinite(values[row]) && !Number.isFinite(valuesOf(along)[row])).length : 0;
    byId("plot-count").textContent = usable.length.toLocaleString("en") + (usable.length === 1 ? " pair" : " pairs") + (left > placeless ? "; " + (left - placeless) + " without a value" : "")
      + (placeless ? "; " + placeless + " without " + short(columnOf.get(along).label, 24) + ", not drawn" : "") + (hollow ? "; " + hollow + " not certified, excluded from medians and histogram" : "") + (state.rows.length < n ? " (filtered)" : "");
    const drawn = new Set(usable.map(colours.of));
    byId("legend").replaceChildren(...(colours.names.length < 2 ? [] : [...colours.names.keys()].filter((k) => drawn.has(k)).map((k) => {
      const key = svg("svg", { viewBox: "-7 -7 14 14" }, marker(shapeOf(k), 0, 0, 5, { fill: colourOf(k) }));
      return element("li", { title: colours.names[k] }, key, short(colours.names[k], 40));
    })));
  }

  // --- controls -----------------------------------------------------------------------------
  function fill(select, options, chosen) {
    select.replaceChildren(...options.map(([value, text]) => element("option", { value, title: text, selected: value === chosen }, short(text))));
  }
  const unique = (values) => [...new Set(values)].sort(collator.compare);
  fill(byId("status-filter"), [["", "all"], ...unique(verdicts).map((word) => [word, word])], "");
  if (groups && new Set(groups).size > 1) {
    byId("group-label").firstChild.textContent = short(data.group, 24);
    // The equals sign keeps a group without a name apart from "all".
    fill(byId("group-filter"), [["", "all"], ...unique(groups).map((g) => ["=" + g, g || "–"])], "");
  } else byId("group-label").hidden = true;

  const numbers = data.columns.filter((c) => c.numeric && data.values[c.name].some(Number.isFinite));
  const quantities = numbers.filter((c) => !c.carried && new Set(data.values[c.name]).size > 1);
  const first = quantities.some((c) => c.name === data.first) ? data.first : (quantities[0] || {}).name;
  if (n > 1 && quantities.length) {
    fill(byId("quantity"), quantities.map((c) => [c.name, named(c)]), first);
    fill(byId("along"), [["", "row number"], ...numbers.filter((c) => c.carried || c.unit).map((c) => [c.name, named(c)])], data.time || "");
    const few = data.columns.filter((c) => c.name !== "status" || new Set(statuses).size > 1).filter((c) => c.name === "status" || c.carried || c.name === "backend")
      .filter((c) => { const size = new Set(data.values[c.name]).size; return size > 1 && size <= Math.max(60, COLOURS.length); });
    fill(byId("colour"), [["", "nothing"], ...few.map((c) => [c.name, c.label])], few.some((c) => c.name === data.group) ? data.group : "");
    byId("plots-section").hidden = false;
    for (const id of ["quantity", "along", "colour"]) byId(id).addEventListener("change", drawPlots);
  }
  for (const column of data.columns) {
    const box = element("input", { type: "checkbox", checked: column.shown });
    box.addEventListener("change", () => { column.shown = box.checked; drawTable(); });
    byId("choices").append(element("label", { title: column.meaning }, box, " " + short(named(column))));
  }
  let waiting = 0;
  byId("text-filter").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(choose, 80); });
  for (const id of ["status-filter", "group-filter"]) byId(id).addEventListener("change", choose);
  byId("clear-filters").addEventListener("click", () => {
    for (const id of ["text-filter", "status-filter", "group-filter"]) byId(id).value = "";
    choose();
  });
  byId("page-size").value = state.size;
  byId("page-size").addEventListener("change", (event) => { state.size = Number(event.target.value); state.page = 0; drawTable(); });
  byId("previous").addEventListener("click", () => { state.page--; drawTable(); });
  byId("next").addEventListener("click", () => { state.page++; drawTable(); });
  choose();
  document.documentElement.dataset.ready = "yes";
  document.documentElement.dataset.scriptMs = (performance.now() - started).toFixed(0);
})();
