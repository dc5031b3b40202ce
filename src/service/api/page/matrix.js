// Draws a fabric that has neither levels nor a grid as a matrix: a row for each switch that channels leave, a column
// for each that they enter, a cell for each pair with a cable.
"use strict";

const HEAD = 20; // pixels for the heads of rows and columns, where they have no names
const NAME_FITS = 9; // pixels of a cell, from which names of switches fit in

class Matrix extends Picture {
  constructor(canvas, fabric, nth) {
    super(canvas, fabric, nth);
    this.count = fabric.names.length;
    // Channels by row and column: parallel cables share a cell.
    this.cells = new Map();
    fabric.cables.forEach(([a, b], i) => {
      this.put(a, b, 2 * i);
      this.put(b, a, 2 * i + 1);
    });
    this.gap = 1;
    const longest = fabric.names.reduce((most, _, s) => Math.max(most, this.short(s).length), 0);
    this.named = 14 + 6.6 * longest;
  }

  put(row, column, channel) {
    const key = row * this.count + column;
    if (this.cells.has(key)) this.cells.get(key).push(channel);
    else this.cells.set(key, [channel]);
  }

  // Row and column of a channel.
  cell(channel) {
    const [a, b] = this.fabric.cables[channel >> 1];
    return channel % 2 ? [b, a] : [a, b];
  }

  draw(loads, full, dark, other) {
    const { canvas, count } = this;
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth || 600;
    const height = Math.round(Math.min(Math.max(width, 180), tallest()));
    canvas.style.height = height + "px";
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    this.weight = (channel) => (other ? Math.abs(loads[channel] - other[channel]) : loads[channel]);
    this.measure(width, height);
    const looks = other ? differences(loads, other, full, dark, this.gap) : this.looks(loads, full, dark);
    // Fewer routes than with what is compared: a smaller cell, for those who see or print no colours.
    for (const look of looks) {
      look.part = !other || (look.colour === null ? look.width > 0.7 : look.width > 2 * this.gap) ? 1 : look.colour === null ? 0.4 : 0.6;
    }
    const place = Array.from({ length: count }, (_, s) => [this.across(s + 0.5), this.down(s + 0.5)]);
    this.drawn = { looks, place, width, height };
    const style = getComputedStyle(document.documentElement);
    this.heads(context, style);
    this.fill(context, looks, style);
    this.mark(shown.picked);
  }

  // Where the cells are: all of the matrix, or the part that the view shows.
  measure(width, height) {
    const side = Math.min(width, height);
    const { scale, x, y } = shown.view;
    this.isNamed = ((side - this.named) * scale) / this.count >= NAME_FITS;
    const head = this.isNamed ? this.named : HEAD;
    const area = side - head - 2;
    this.area = { head, side: area, left: (width - side) / 2 + head, top: head };
    this.frame = { ...this.area, width: area, height: area };
    this.size = (area * scale) / this.count;
    const middle = (v) => (scale === 1 ? 0.5 : v);
    // Cells before the first that is seen.
    this.before = [middle(x) * this.count - area / 2 / this.size, middle(y) * this.count - area / 2 / this.size];
  }

  across(column) {
    return this.area.left + (column - this.before[0]) * this.size;
  }

  down(row) {
    return this.area.top + (row - this.before[1]) * this.size;
  }

  // What is drawn of a channel: left, top, and size.
  square(channel, part) {
    const [row, column] = this.cell(channel);
    const room = this.size >= 5 ? 0.9 : 1; // a gap between cells that are large enough
    const side = Math.max(this.size * part * room, 2); // or it could not be seen
    return [this.across(column + 0.5) - side / 2, this.down(row + 0.5) - side / 2, side];
  }

  fill(context, looks, style) {
    const { left, top, side } = this.area;
    context.save();
    context.beginPath();
    context.rect(left, top, side, side);
    context.clip();
    context.fillStyle = style.getPropertyValue("--line");
    for (const s of this.seen(0)) context.fillRect(this.across(s + 0.35), this.down(s + 0.35), Math.max(this.size * 0.3, 0.7), Math.max(this.size * 0.3, 0.7));
    for (const { colour, channels, part } of looks) {
      context.fillStyle = colour || style.getPropertyValue("--dark");
      for (const channel of channels) {
        const [x, y, size] = this.square(channel, part);
        context.fillRect(x, y, size, size);
      }
    }
    context.restore();
    context.strokeStyle = style.getPropertyValue("--soft");
    context.lineWidth = 0.8;
    context.strokeRect(left, top, side, side);
  }

  // Switches whose column (0) or row (1) is seen.
  seen(which) {
    const first = Math.max(0, Math.floor(this.before[which]));
    const last = Math.min(this.count, Math.ceil(this.before[which] + this.area.side / this.size));
    return Array.from({ length: Math.max(last - first, 0) }, (_, i) => first + i);
  }

  // The names of rows and columns, or stripes where these do not fit in.
  heads(context, style) {
    const { left, top, side, head } = this.area;
    context.fillStyle = style.getPropertyValue(this.isNamed ? "--soft" : "--line");
    if (!this.isNamed) {
      context.fillRect(left - head + 6, top, head - 8, side);
      context.fillRect(left, top - head + 6, side, head - 8);
      return;
    }
    context.font = `${Math.min(this.size, 11)}px system-ui, sans-serif`;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const s of this.seen(1)) {
      const y = this.down(s + 0.5);
      if (y > top && y < top + side) context.fillText(this.short(s), left - 5, y, head - 8);
    }
    context.textAlign = "left";
    for (const s of this.seen(0)) {
      const x = this.across(s + 0.5);
      if (x < left || x > left + side) continue;
      context.save();
      context.translate(x, top - 5);
      context.rotate(-Math.PI / 2);
      context.fillText(this.short(s), 0, 0, head - 8);
      context.restore();
    }
  }

  // The end of a long name tells switches apart.
  short(s) {
    const name = this.fabric.names[s];
    return name.length > 16 ? "…" + name.slice(-15) : name;
  }

  mark(picked) {
    if (!this.drawn) return;
    const { width, height } = this.drawn;
    const ratio = window.devicePixelRatio || 1;
    const { over } = this;
    over.style.height = height + "px";
    [over.width, over.height] = [width * ratio, height * ratio];
    if (!picked) return;
    const { left, top, side, head } = this.area;
    const context = over.getContext("2d");
    context.scale(ratio, ratio);
    context.beginPath();
    context.rect(left - head, top - head, side + head, side + head);
    context.clip();
    context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink");
    context.lineWidth = 2;
    const wide = Math.max(this.size, 3);
    if (picked.cable === undefined) {
      const [x, y] = this.drawn.place[picked.switch] || [-99, -99];
      if (x > left && x < left + side) context.strokeRect(x - wide / 2, top - head + 1, wide, side + head - 2);
      if (y > top && y < top + side) context.strokeRect(left - head + 1, y - wide / 2, side + head - 2, wide);
      return;
    }
    if (!this.fabric.cables[picked.cable]) return;
    for (const channel of [2 * picked.cable, 2 * picked.cable + 1]) {
      const [row, column] = this.cell(channel);
      const box = Math.max(this.size, 6) + 3;
      const [x, y] = [this.across(column + 0.5), this.down(row + 0.5)];
      if (x > left && x < left + side && y > top && y < top + side) context.strokeRect(x - box / 2, y - box / 2, box, box);
    }
  }

  // The row and column of a point, with parts.
  under(x, y) {
    return [this.before[1] + (y - this.area.top) / this.size, this.before[0] + (x - this.area.left) / this.size];
  }

  // The head of a row or column, or the diagonal.
  switchAt(x, y) {
    const { left, top, side, head } = this.area;
    const [row, column] = this.under(x, y).map(Math.floor);
    const [inRows, inColumns] = [y >= top && y < top + side, x >= left && x < left + side];
    const s = inRows && x < left && x >= left - head ? row : inColumns && y < top && y >= top - head ? column
      : inRows && inColumns && row === column && this.size >= 5 ? row : -1;
    return s >= 0 && s < this.count ? s : -1;
  }

  // The channel of the cell at a point, or, of small cells, of the nearest one: the fullest of parallel cables.
  at(x, y) {
    const { left, top, side } = this.area;
    if (x < left || x >= left + side || y < top || y >= top + side) return -1;
    const [row, column] = this.under(x, y);
    const reach = this.size >= 6 ? 0 : Math.ceil(3 / this.size);
    let [best, found] = [Infinity, null];
    for (let r = Math.floor(row) - reach; r <= row + reach; r++) {
      for (let c = Math.floor(column) - reach; c <= column + reach; c++) {
        const far = Math.hypot(r + 0.5 - row, c + 0.5 - column);
        const inside = r >= 0 && c >= 0 && r < this.count && c < this.count;
        const channels = inside && far < best ? this.cells.get(r * this.count + c) : undefined;
        if (channels) [best, found] = [far, channels];
      }
    }
    return found === null ? -1 : found.reduce((a, b) => (this.weight(b) > this.weight(a) ? b : a));
  }

  // What is picked, in the unit square.
  spot(picked) {
    const [row, column] = picked.cable === undefined ? [picked.switch, picked.switch] : this.cell(picked.channel);
    return [(column + 0.5) / this.count, (row + 0.5) / this.count];
  }

  legend() {
    return {
      each: "each cable is two cells: row from, column to; no cell, no cable",
      less: "blue, small", more: "orange, large", same: "grey: as many",
      keys: "In the matrix: the head of a row or column is a switch, a cell is a cable. Arrows go from switch to switch, Enter to its cables, Escape back; +, − and 0 zoom.",
    };
  }

  svg() {
    const { looks, width, height } = this.drawn;
    const { left, top, side } = this.area;
    const style = getComputedStyle(document.documentElement);
    const one = (value) => value.toFixed(1);
    const inside = (x, y, size) => x + size > left && y + size > top && x < left + side && y < top + side;
    const piece = (channel, part) => {
      const [x, y, size] = this.square(channel, part);
      return inside(x, y, size) ? `M${one(x)} ${one(y)}h${one(size)}v${one(size)}h${one(-size)}z` : "";
    };
    const path = ({ colour, channels, part }) => `<path d="${channels.map((c) => piece(c, part)).join("")}" fill="${colour || style.getPropertyValue("--dark")}"/>`;
    const soft = style.getPropertyValue("--soft");
    const text = (s, x, y, turn) => `<text x="${one(x)}" y="${one(y)}" font-size="${one(Math.min(this.size, 11))}" font-family="sans-serif" fill="${soft}" `
      + (turn ? `transform="rotate(-90 ${one(x)} ${one(y)})"` : 'text-anchor="end"') + ` dominant-baseline="middle">${escaped(this.short(s))}<title>${escaped(this.fabric.names[s])}</title></text>`;
    const within = (v, from) => v > from && v < from + side;
    const rows = this.seen(1).filter((s) => within(this.down(s + 0.5), top)).map((s) => text(s, left - 5, this.down(s + 0.5), false));
    const columns = this.seen(0).filter((s) => within(this.across(s + 0.5), left)).map((s) => text(s, this.across(s + 0.5), top - 5, true));
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">`
      + `<rect width="100%" height="100%" fill="${style.getPropertyValue("--paper")}"/>`
      + `<rect x="${one(left)}" y="${one(top)}" width="${one(side)}" height="${one(side)}" fill="none" stroke="${soft}"/>`
      + looks.filter(({ channels }) => channels.length).map(path).join("") + (this.isNamed ? rows.concat(columns).join("") : "") + "</svg>\n";
  }
}
