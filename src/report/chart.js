// Charts that are drawn already, here: what each entry is worth, nearer and farther, files of it. Without this script
// they are pictures. The page serves this file, reports have it inside.
//
// A chart is an SVG of class "chart" whose data-chart is JSON:
// { head: [what an entry is, series …], rows: [[entry, [value …]] …], box: [left, top, right, bottom],
//   along: "x" or "y" (where entries lie), edges: [where each begins …] or nothing (all alike),
//   scale: [value at the left, at the right] or null (entries have names),
//   marks: [[place, words] …] or nothing: what happened between entries }
// In it .zooms is drawn nearer and farther, .values moves along, .axis has the labels below.
"use strict";

(() => {
  const [CLOSER, NEAREST, ROOM] = [1.6, 400, 94]; // a step of zoom, how often all is larger, what a label takes
  let made = 0;

  const element = (tag, properties) => Object.assign(document.createElement(tag), properties);

  // A part of a drawing.
  function part(svg, tag, attributes) {
    const found = document.createElementNS(svg.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
    return found;
  }

  // Round values between two, about six.
  function ticks(from, to) {
    const rough = (to - from) / 6;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
    const found = [];
    for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i++) found.push(Number((i * step).toPrecision(9)));
    return found;
  }

  // What of a drawing is moved, clipped where it is seen, not where it was.
  function clipped(svg, [left, top, right, bottom]) {
    const zooms = svg.querySelector(".zooms");
    const id = `clip-${made++}`;
    const clip = part(svg, "clipPath", { id });
    clip.append(part(svg, "rect", { x: left, y: top, width: right - left, height: bottom - top }));
    const seen = part(svg, "g", { "clip-path": `url(#${id})` });
    zooms.replaceWith(seen);
    seen.append(zooms);
    svg.append(clip);
    return zooms;
  }

  // Four digits that count.
  const figure = (value) => (value === null ? "–" : String(Number.isInteger(value) ? value : Number(value.toPrecision(4))));

  function save(name, type, words) {
    const href = URL.createObjectURL(new Blob([words], { type }));
    element("a", { href, download: name }).click();
    URL.revokeObjectURL(href);
  }

  // A drawing with what is around it: a stage that takes keys, what is told, buttons, and files of it. Who draws has
  // nearer(factor), all(), point(-1) to tell of nothing, and table(): the head and the rows of its figures.
  class Drawing {
    constructor(svg, keys) {
      this.svg = svg;
      this.title = svg.getAttribute("aria-label") || "chart";
      const whole = element("div", { className: "charted" });
      this.stage = element("div", { tabIndex: 0, role: "application", ariaLabel: `${this.title}. ${keys}` });
      this.told = element("p", { className: "told", role: "status" });
      svg.replaceWith(whole);
      this.stage.append(svg);
      whole.append(this.stage, this.told, this.tools());
    }

    tools() {
      const box = element("p", { className: "chart-tools" });
      const named = this.title.toLowerCase().split(/[^a-z0-9]+/).filter(Boolean).join("-");
      const button = (words, label, act) => {
        const found = element("button", { type: "button", textContent: words, ariaLabel: `${label}: ${this.title}` });
        found.addEventListener("click", act);
        return found;
      };
      this.back = button("All of it", "All of it", () => this.all());
      this.back.disabled = true;
      const [nearer, farther] = [button("+", "Zoom in", () => this.nearer(CLOSER)), button("−", "Zoom out", () => this.nearer(1 / CLOSER))];
      const svg = button("SVG", "Save as SVG", () => save(`${named}.svg`, "image/svg+xml", this.file()));
      box.append(nearer, farther, this.back, svg, button("CSV", "Save as CSV", () => save(`${named}.csv`, "text/csv", this.csv())));
      return box;
    }

    // What a drawing answers alike, and what its own keys do; others are the page's.
    answers(own) {
      const { svg, stage } = this;
      svg.addEventListener("pointerleave", () => this.point(-1));
      svg.addEventListener("dblclick", () => this.all());
      stage.addEventListener("blur", () => this.point(-1));
      const acts = {
        "+": () => this.nearer(CLOSER), "-": () => this.nearer(1 / CLOSER), 0: () => this.all(), Escape: () => this.point(-1), ...own,
      };
      stage.addEventListener("keydown", (event) => {
        const act = acts[event.key];
        if (!act || event.ctrlKey || event.altKey || event.metaKey) return;
        act();
        event.preventDefault();
      });
    }

    // Where the pointer is, in the drawing.
    spot(event) {
      const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
      return [x, y];
    }

    // Nearer and farther around the pointer, by a wheel with Ctrl: plain scrolling is the page's.
    onWheel(act) {
      this.svg.addEventListener("wheel", (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        act(event.deltaY < 0 ? CLOSER : 1 / CLOSER, ...this.spot(event));
      }, { passive: false });
    }

    // Puts what is told beside a part of the drawing.
    tellAt(left, top) {
      const room = this.stage.getBoundingClientRect();
      this.told.style.left = `${Math.max(0, Math.min(left - room.left, room.width - this.told.offsetWidth))}px`;
      this.told.style.top = `${top - room.top}px`;
    }

    // --- files ---
    // With the looks that it has here, as no style goes with it.
    file() {
      const copy = this.svg.cloneNode(true);
      const looks = "fill fill-opacity stroke stroke-width stroke-dasharray vector-effect font-family font-size font-weight text-anchor".split(" ");
      const [here, there] = [this.svg, copy].map((svg) => [...svg.querySelectorAll("*")]);
      here.forEach((from, i) => {
        const style = getComputedStyle(from);
        for (const look of looks) there[i].setAttribute(look, style.getPropertyValue(look));
      });
      copy.querySelectorAll(".cursor, .chosen-part").forEach((gone) => gone.remove());
      const [, , width, height] = copy.getAttribute("viewBox").split(" ");
      copy.prepend(part(copy, "rect", { width, height, fill: getComputedStyle(document.body).backgroundColor }));
      for (const [name, value] of [["width", width], ["height", height]]) copy.setAttribute(name, value);
      return new XMLSerializer().serializeToString(copy);
    }

    // A cell that a table would take for a formula is text.
    csv() {
      const quoted = (words) => `"${words.replace(/^[=+@\t\r-]/, "'$&").replaceAll('"', '""')}"`;
      const cell = (value) => (typeof value === "number" ? String(value) : quoted(value === null ? "" : value));
      return this.table().map((row) => row.map(cell).join(",") + "\r\n").join("");
    }
  }

  class Chart extends Drawing {
    // call: words for a value of the scale and for how much is seen; without it, figures.
    constructor(svg, call) {
      super(svg, "Arrows: from entry to entry. +, -, 0: zoom.");
      this.call = call;
      this.data = JSON.parse(svg.dataset.chart);
      [this.left, this.top, this.right, this.bottom] = this.data.box;
      [this.from, this.to] = [this.left, this.right];
      this.at = -1;
      this.axis = svg.querySelector(".axis");
      this.labels = this.axis.childNodes.length ? [...this.axis.childNodes] : this.marks();
      this.values = [...svg.querySelectorAll(".values text")].map((text) => [text, Number(text.getAttribute("x"))]);
      this.axis.replaceChildren(...this.labels);
      this.zooms = clipped(svg, [this.left, this.top - 4, this.right, this.bottom + 4]);
      this.cursor = part(svg, "rect", { class: "cursor", visibility: "hidden" });
      this.chosen = part(svg, "rect", { class: "chosen-part", visibility: "hidden", y: this.top, height: this.bottom - this.top });
      svg.append(this.cursor, this.chosen);
      this.listen();
    }

    listen() {
      const { svg, stage } = this;
      let start = null;
      const end = () => { start = null; this.chosen.setAttribute("visibility", "hidden"); };
      const on = (kind, act) => svg.addEventListener(kind, (event) => act(event, ...this.spot(event)));
      on("pointermove", (_, x, y) => {
        // What marks it stands above the chart.
        const mark = start === null && y > this.top - 16 ? this.markAt(x) : undefined;
        this.point(start === null ? this.entryAt(x, mark ? Math.max(y, this.top) : y) : -1);
        if (mark && this.at >= 0) this.told.textContent = mark[1];
        if (start !== null) this.choose(start, x);
      });
      this.onWheel((factor, x) => this.nearer(factor, this.place(this.inside(x))));
      on("pointerdown", (event, x, y) => {
        if (event.button !== 0 || event.pointerType === "touch" || this.entryAt(x, y) < 0) return;
        start = x;
        svg.setPointerCapture(event.pointerId);
        event.preventDefault();
        stage.focus({ preventScroll: true });
      });
      on("pointerup", (_, x, y) => {
        const [from, isDrag] = [start, start !== null && Math.abs(x - start) > 5];
        end();
        if (isDrag) this.look(...[from, x].map((at) => this.place(this.inside(at))).sort((a, b) => a - b));
        else this.tell(this.entryAt(x, y));
      });
      on("pointercancel", end);
      const last = this.data.rows.length - 1;
      const go = (to) => () => {
        const entry = Math.min(Math.max(to(), 0), last);
        this.show(entry);
        this.point(entry);
      };
      const [before, after] = [go(() => this.at - 1), go(() => this.at + 1)];
      this.answers({
        ArrowLeft: before, ArrowUp: before, ArrowRight: after, ArrowDown: after, Home: go(() => 0), End: go(() => last),
        Enter: () => this.tell(this.at),
      });
    }

    // Whoever draws the chart may do something with the entry that was picked.
    tell(entry) { if (entry >= 0) this.svg.dispatchEvent(new CustomEvent("entry", { detail: entry, bubbles: true })); }

    // --- where things are ---
    inside(x) { return Math.min(Math.max(x, this.left), this.right); }

    // Where something is seen that was drawn there, and the other way round.
    seen(x) { return this.left + ((x - this.from) * (this.right - this.left)) / (this.to - this.from); }

    place(x) { return this.from + ((x - this.left) * (this.to - this.from)) / (this.right - this.left); }

    // Where an entry begins.
    edge(entry) {
      const { along, edges, rows } = this.data;
      const [begin, end] = along === "x" ? [this.left, this.right] : [this.top, this.bottom];
      if (edges) return entry < rows.length ? edges[entry] : end;
      return begin + ((end - begin) * entry) / rows.length;
    }

    entryAt(x, y) {
      if (x < this.left || x > this.right || y < this.top || y > this.bottom) return -1;
      const at = this.data.along === "x" ? this.place(x) : y;
      let entry = this.data.rows.length - 1;
      while (entry >= 0 && this.edge(entry) > at) entry--;
      return entry;
    }

    // --- what an entry is worth ---
    words(entry) {
      const { head, rows } = this.data;
      const [name, values] = rows[entry];
      const each = values.map((value, s) => (values.length > 1 ? `${head[s + 1]} ` : "") + figure(value));
      const happened = (this.data.marks || []).filter(([at]) => at >= this.edge(entry) && at < this.edge(entry + 1));
      const more = (this.data.more || [])[entry];
      return [`${name}: ${each.join(", ")}`, ...(more ? [more] : []), ...happened.map(([, words]) => words)].join(". ");
    }

    // The mark that is seen near a place.
    markAt(x) {
      const near = ([at]) => Math.abs(this.seen(at) - x);
      return [...(this.data.marks || [])].sort((a, b) => near(a) - near(b)).find((mark) => near(mark) <= 5);
    }

    point(entry) {
      if (this.at === entry && entry < 0) return;
      this.at = entry;
      this.told.textContent = entry < 0 ? "" : this.words(entry);
      this.cursor.setAttribute("visibility", entry < 0 ? "hidden" : "visible");
      if (entry < 0) return;
      this.svg.dispatchEvent(new CustomEvent("pointed", { detail: entry, bubbles: true }));
      const isAcross = this.data.along === "x";
      const [begin, end] = [this.edge(entry), this.edge(entry + 1)].map((at) => (isAcross ? this.inside(this.seen(at)) : at));
      const shape = isAcross ? [begin, this.top, end - begin, this.bottom - this.top] : [this.left, begin, this.right - this.left, end - begin];
      ["x", "y", "width", "height"].forEach((name, i) => this.cursor.setAttribute(name, Math.max(shape[i], 0)));
      const [bar, room] = [this.cursor.getBoundingClientRect(), this.stage.getBoundingClientRect()];
      if (isAcross) this.tellAt(bar.right + 6, room.top + 2);
      else this.tellAt(room.left + room.width / 2, bar.bottom + 2);
    }

    // --- nearer and farther ---
    choose(from, to) {
      const [a, b] = [from, to].map((x) => this.inside(x)).sort((x, y) => x - y);
      for (const [name, value] of [["x", a], ["width", b - a], ["visibility", "visible"]]) this.chosen.setAttribute(name, value);
    }

    // Around a place that stays where it is seen; else around the entry that is told, or the middle.
    nearer(factor, around) {
      const { along } = this.data;
      const width = (this.to - this.from) / factor;
      const isAtEntry = along === "x" && this.at >= 0;
      const middle = isAtEntry ? (this.edge(this.at) + this.edge(this.at + 1)) / 2 : (this.from + this.to) / 2;
      const from = around === undefined ? middle - width / 2 : around - (around - this.from) / factor;
      this.look(from, from + width);
    }

    all() { this.look(this.left, this.right); }

    // The part of the scale that is seen, or nothing if it is all; and the other way round.
    span() {
      const [low, high] = this.data.scale;
      const value = (x) => low + ((x - this.left) * (high - low)) / (this.right - this.left);
      return this.back.disabled ? null : [this.from, this.to].map(value);
    }

    lookAt(span) {
      const [low, high] = this.data.scale;
      this.look(...span.map((of) => this.left + ((of - low) * (this.right - this.left)) / (high - low)));
    }

    // Moves so that an entry is seen.
    show(entry) {
      if (this.data.along !== "x") return;
      const [begin, end] = [this.edge(entry), this.edge(entry + 1)];
      const by = begin < this.from ? begin - this.from : end > this.to ? Math.min(end - this.to, begin - this.from) : 0;
      if (by) this.look(this.from + by, this.to + by);
    }

    // Shows what was drawn between two places.
    look(from, to) {
      const all = this.right - this.left;
      const width = Math.min(Math.max(to - from, all / NEAREST), all);
      this.from = Math.min(Math.max(from, this.left), this.right - width);
      this.to = this.from + width;
      const isWhole = width > all * 0.999;
      if (isWhole) [this.from, this.to] = [this.left, this.right];
      this.back.disabled = isWhole;
      const scale = all / (this.to - this.from);
      this.zooms.setAttribute("transform", `matrix(${scale} 0 0 1 ${this.left - this.from * scale} 0)`);
      for (const [text, x] of this.values) {
        // A value stands behind the end of its bar; what names a mark stands at it.
        const gap = text.classList.contains("name") ? 0 : 6;
        const at = this.seen(x - gap);
        text.setAttribute("x", this.inside(at) + gap);
        text.setAttribute("visibility", gap === 0 && at !== this.inside(at) ? "hidden" : "visible");
      }
      this.axis.replaceChildren(...(isWhole ? this.labels : this.marks()));
      this.point(this.at);
      this.svg.dispatchEvent(new CustomEvent("looked", { bubbles: true }));
    }

    table() { return [this.data.head, ...this.data.rows.map(([name, values]) => [name, ...values])]; }

    // Labels below what is seen.
    marks() {
      const { scale, rows } = this.data;
      const y = this.axis.dataset.y;
      const label = (x, words) => Object.assign(part(this.svg, "text", { x, y, class: "name" }), { textContent: words });
      if (scale) {
        const [low, high] = scale;
        const all = this.right - this.left;
        const value = (x) => low + ((x - this.left) * (high - low)) / all;
        const [from, to] = [value(this.from), value(this.to)];
        const place = (of) => this.seen(this.left + ((of - low) * all) / (high - low));
        if (!this.call) return ticks(from, to).map((of) => label(place(of), String(of)));
        const count = Math.max(1, Math.floor(all / ROOM / 1.6));
        const middles = Array.from({ length: count }, (_, i) => from + ((i + 0.5) * (to - from)) / count);
        return middles.map((of) => label(place(of), this.call(of, to - from)));
      }
      const found = [];
      let next = this.left;
      for (let entry = 0; entry < rows.length && this.edge(entry) < this.to; entry++) {
        const at = this.seen(this.edge(entry));
        if (at < next) continue;
        found.push(label(at, rows[entry][0]));
        next = at + ROOM;
      }
      return found;
    }

  }

  window.charts = { enhance: (svg, call) => new Chart(svg, call), part, ticks, clipped, Drawing };
  for (const svg of document.querySelectorAll("svg.chart[data-chart]")) window.charts.enhance(svg);
})();
