// Heat maps that are drawn already, in a report: which cable a line is and what it carries, nearer and farther, files of
// it. Behind chart.js.
//
// A heat map is an SVG of class "heat" whose data-heat is JSON: [[channel, routes] …] in the order in which .lines draws
// them. In it .zooms is drawn nearer and farther.
"use strict";

(() => {
  const { Drawing, part, clipped } = window.charts;
  const [NEAREST, REACH, TITLE, LEGEND] = [60, 8, 30, 23]; // how often all is larger; pixels that count as on a line, of the title and of the legend

  class Heat extends Drawing {
    constructor(svg) {
      super(svg, "Arrows: from the fullest channel on. +, -, 0: zoom.");
      this.rows = JSON.parse(svg.dataset.heat);
      [, , this.width, this.height] = svg.getAttribute("viewBox").split(" ").map(Number);
      // The pieces of each path follow each other as the channels do.
      const pieces = [...svg.querySelectorAll(".lines path")].flatMap((path) => path.getAttribute("d").split("M").slice(1));
      this.lines = pieces.map((piece) => piece.split(/[ L]/).map(Number));
      this.last = this.rows.length - 1; // the fullest
      this.zooms = clipped(svg, [0, TITLE, this.width, this.height - LEGEND]);
      this.circles = [...svg.querySelectorAll(".zooms circle")].map((circle) => [circle, Number(circle.getAttribute("r"))]);
      this.cursor = part(svg, "path", { class: "cursor", visibility: "hidden" });
      this.zooms.append(this.cursor);
      [this.scale, this.x, this.y, this.at] = [1, 0, 0, -1]; // how much nearer, and the left and top that are seen
      this.listen();
    }

    listen() {
      const { svg, stage } = this;
      let grip = null; // where it is held
      const on = (kind, act) => svg.addEventListener(kind, (event) => act(event, ...this.spot(event)));
      on("pointermove", (_, x, y) => {
        if (grip) this.look(this.scale, grip[0] - x / this.scale, grip[1] - y / this.scale);
        else this.point(this.near(x, y));
      });
      on("pointerdown", (event, x, y) => {
        if (event.button !== 0 || event.pointerType === "touch" || this.scale === 1) return;
        grip = this.place(x, y);
        svg.setPointerCapture(event.pointerId);
        event.preventDefault();
        stage.focus({ preventScroll: true });
      });
      for (const kind of ["pointerup", "pointercancel"]) on(kind, () => { grip = null; });
      this.onWheel((factor, ...spot) => this.nearer(factor, spot));
      const go = (to) => () => this.point(Math.min(Math.max(to(), 0), this.last));
      const [fuller, emptier] = [go(() => this.at + 1), go(() => (this.at < 0 ? this.last : this.at - 1))];
      this.answers({
        ArrowLeft: fuller, ArrowUp: fuller, ArrowRight: emptier, ArrowDown: emptier, Home: go(() => this.last), End: go(() => 0),
      });
    }

    // Where something was drawn that is seen there.
    place(x, y) { return [this.x + x / this.scale, this.y + y / this.scale]; }

    // The line nearest to a point, if one is near; the upper one of two.
    near(seenX, seenY) {
      const [x, y] = this.place(seenX, seenY);
      let [best, found] = [REACH / this.scale, -1];
      this.lines.forEach(([x1, y1, x2, y2], i) => {
        const [dx, dy] = [x2 - x1, y2 - y1];
        const t = Math.min(Math.max(((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy || 1), 0), 1);
        const off = Math.hypot(x - x1 - t * dx, y - y1 - t * dy);
        if (off <= best) [best, found] = [off, i];
      });
      return found;
    }

    // Tells of a channel, and marks it; -1: of none. One that is not seen is moved into view.
    point(channel) {
      this.at = channel;
      this.cursor.setAttribute("visibility", channel < 0 ? "hidden" : "visible");
      this.told.textContent = channel < 0 ? "" : this.rows[channel].join(": ");
      if (channel < 0) return;
      const [x1, y1, x2, y2] = this.lines[channel];
      this.cursor.setAttribute("d", `M${x1} ${y1}L${x2} ${y2}`);
      const [x, y] = [(x1 + x2) / 2, (y1 + y2) / 2];
      const isSeen = (at, from, size) => at >= from && at <= from + size / this.scale;
      if (!isSeen(x, this.x, this.width) || !isSeen(y, this.y, this.height)) {
        this.look(this.scale, x - this.width / 2 / this.scale, y - this.height / 2 / this.scale);
      }
      const line = this.cursor.getBoundingClientRect();
      this.tellAt((line.left + line.right) / 2 + 8, Math.max((line.top + line.bottom) / 2 + 8, this.stage.getBoundingClientRect().top));
    }

    all() { this.look(1, 0, 0); }

    // Around a point that stays where it is seen; else around the channel that is told, or the middle.
    nearer(factor, around) {
      const line = this.lines[this.at];
      const middle = line ? [(line[0] + line[2]) / 2, (line[1] + line[3]) / 2] : this.place(this.width / 2, this.height / 2);
      const [x, y] = around ? this.place(...around) : middle;
      const scale = Math.min(Math.max(this.scale * factor, 1), NEAREST);
      const [seenX, seenY] = around || [this.width / 2, this.height / 2];
      this.look(scale, x - seenX / scale, y - seenY / scale);
    }

    // Shows what was drawn right of and below a point, so many times larger. Switches grow less than the room between them.
    look(scale, x, y) {
      const within = (at, size) => Math.min(Math.max(at, 0), size - size / scale);
      [this.scale, this.x, this.y] = [scale, within(x, this.width), within(y, this.height)];
      this.back.disabled = scale === 1;
      this.zooms.setAttribute("transform", `matrix(${scale} 0 0 ${scale} ${-this.x * scale} ${-this.y * scale})`);
      this.zooms.style.setProperty("--near", scale);
      for (const [circle, r] of this.circles) circle.setAttribute("r", r / Math.sqrt(scale));
    }

    table() { return [["channel", "routes"], ...[...this.rows].reverse()]; }
  }

  for (const svg of document.querySelectorAll("svg.heat[data-heat]")) new Heat(svg);
})();
