// Draws a fabric on a canvas: every cable as two lines, one per direction, coloured by load.
"use strict";

// From few routes to many. Lightness runs one way, so that it can be read without seeing hue:
// darker on light paper, lighter on dark.
const STOPS = {
  light: [[253, 231, 150], [251, 176, 82], [229, 100, 72], [158, 42, 99], [62, 15, 89]],
  dark: [[92, 62, 140], [158, 52, 110], [229, 100, 72], [251, 176, 82], [253, 236, 170]],
};
const SHADES = 24;
const NAMED = 40; // switches, up to which their names fit in
// The height of a picture that is in view whole, with what is said above it.
const tallest = () => Math.min(Math.max(innerHeight - 270, 320), 640);

function shade(stops, share) {
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  const mix = stops[low].map((v, i) => Math.round(v + (stops[low + 1][i] - v) * (at - low)));
  return `rgb(${mix})`;
}

// Text for documents.
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

// Where the two ends of a cable's two directions are drawn.
class Picture {
  constructor(canvas, fabric, nth) {
    this.canvas = canvas;
    this.fabric = fabric;
    this.nth = nth;
    this.lines = [];
    this.over = canvas.parentElement.querySelector(".over");
  }

  // loads: by channel. full: the load of the last colour. other: loads to show the difference from, or null.
  // Returns nothing; lines are kept for at().
  draw(loads, full, dark, other) {
    const { canvas, fabric } = this;
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth || 600;
    const height = Math.round(Math.min(Math.max(width / fabric.aspect, 180), tallest()));
    canvas.style.height = height + "px";
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const style = getComputedStyle(document.documentElement);
    const margin = 14;
    // Names of few switches stand above and below.
    const edge = fabric.names.length > NAMED ? margin : 28;
    const span = fabric.layout === "circle" ? Math.min(width, height) : width;
    const left = (width - span) / 2;
    const { scale, x: midX, y: midY } = shown.view;
    this.frame = { left: left + margin, top: edge, width: span - 2 * margin, height: height - 2 * edge };
    // From the unit square, in which the view's middle is, to the canvas.
    const near = (v, middle) => (v - middle) * scale + 0.5;
    const place = fabric.places.map(([x, y]) => [scale === 1 ? x : near(x, midX), scale === 1 ? y : near(y, midY)]).map(([x, y]) =>
      [left + margin + x * (span - 2 * margin), edge + y * (height - 2 * edge)]);
    this.lay(place, fabric);
    const looks = other ? differences(loads, other, full, dark, this.gap) : this.looks(loads, full, dark);
    this.drawn = { looks, place, width, height };
    this.stroke(context, looks, style);
    this.dots(context, place, style);
    this.mark(shown.picked);
  }

  // What is picked, on a canvas of its own above the picture: { switch }, { cable }, or null.
  mark(picked) {
    if (!this.drawn) return;
    const { place, width, height } = this.drawn;
    const ratio = window.devicePixelRatio || 1;
    const { over } = this;
    over.style.height = height + "px";
    [over.width, over.height] = [width * ratio, height * ratio];
    if (!picked) return;
    const context = over.getContext("2d");
    context.scale(ratio, ratio);
    context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink");
    const ends = picked.cable === undefined ? [picked.switch] : this.fabric.cables[picked.cable] || [];
    context.lineWidth = 2.5;
    for (const s of ends.filter((s) => place[s])) {
      context.beginPath();
      context.arc(...place[s], place.length > 300 ? 6 : 10, 0, 2 * Math.PI);
      context.stroke();
    }
    if (picked.cable === undefined) return;
    context.lineWidth = 2;
    context.beginPath();
    for (const line of this.lines.slice(2 * picked.cable, 2 * picked.cable + 2)) {
      for (let i = 0; i < line.length; i += 4) {
        context.moveTo(line[i], line[i + 1]);
        context.lineTo(line[i + 2], line[i + 3]);
      }
    }
    context.stroke();
  }

  // The switch drawn at a point, -1 if none is.
  switchAt(x, y) {
    const { place } = this.drawn;
    const radius = place.length > 300 ? 3.5 : 8;
    return place.findIndex(([a, b]) => Math.hypot(a - x, b - y) <= radius);
  }

  // How lines look by load, the least important first: colour (null: that of what is unused), width, dashes, channels.
  looks(loads, full, dark) {
    const kind = colouredBy();
    if (kind === "bound") return anchored(loads, shown.load.bound, full, dark, this.gap);
    const share = shareOf(kind, full);
    // Dashes cost much more than lines.
    const unused = { colour: null, width: 0.6, dash: loads.length < 4000 ? [2, 3] : [], channels: [] };
    const lit = Array.from({ length: SHADES }, (_, i) =>
      ({ colour: shade(dark ? STOPS.dark : STOPS.light, i / (SHADES - 1)), width: this.gap * 1.6, dash: [], channels: [] }));
    loads.forEach((load, channel) => {
      (load > 0 ? lit[Math.min(Math.floor(share(load) * (SHADES - 1)), SHADES - 1)] : unused).channels.push(channel);
    });
    return [unused, ...lit];
  }

  // lines[channel]: [x1, y1, x2, y2], and for a cable that closes a ring a second piece.
  lay(place, fabric) {
    const gap = fabric.cables.length > 4000 ? 0.6 : 1.2;
    const wraps = new Set(fabric.wraps);
    this.gap = gap;
    this.lines = new Array(2 * fabric.cables.length);
    fabric.cables.forEach(([from, to], i) => {
      const [x1, y1] = place[from], [x2, y2] = place[to];
      const length = Math.max(Math.hypot(x2 - x1, y2 - y1), 1);
      const [ux, uy] = [(x2 - x1) / length, (y2 - y1) / length];
      for (const side of [1, -1]) {
        const shift = this.nth[i] * gap * 4 + side * gap;
        const [ox, oy] = [-uy * shift, ux * shift];
        const [ax, ay, bx, by] = [x1 + ox, y1 + oy, x2 + ox, y2 + oy];
        const stub = 12;
        this.lines[side === 1 ? 2 * i : 2 * i + 1] = wraps.has(i)
          ? [ax, ay, ax - ux * stub, ay - uy * stub, bx, by, bx + ux * stub, by + uy * stub]
          : [ax, ay, bx, by];
      }
    });
  }

  stroke(context, looks, style) {
    for (const { colour, width, dash, channels } of looks) {
      if (!channels.length) continue;
      const path = new Path2D();
      for (const channel of channels) {
        const line = this.lines[channel];
        for (let i = 0; i < line.length; i += 4) {
          path.moveTo(line[i], line[i + 1]);
          path.lineTo(line[i + 2], line[i + 3]);
        }
      }
      context.lineWidth = width;
      context.strokeStyle = colour || style.getPropertyValue("--dark");
      context.setLineDash(dash);
      context.stroke(path);
    }
    context.setLineDash([]);
  }

  dots(context, place, style) {
    const { fabric } = this;
    const many = place.length > 300;
    const radius = many ? 2 : 6;
    context.lineWidth = many ? 0.5 : 1.4;
    context.fillStyle = style.getPropertyValue("--paper");
    context.strokeStyle = style.getPropertyValue("--ink");
    for (const [x, y] of place) {
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      context.fill();
      context.stroke();
    }
    const size = place.length > NAMED ? 0 : this.nameSize(context, place);
    if (size < 7) return;
    context.font = `${size}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.fillStyle = style.getPropertyValue("--soft");
    place.forEach(([x, y], s) => {
      context.fillText(fabric.names[s], x, y < this.canvas.clientHeight / 2 ? y - 10 : y + 19);
    });
  }

  // Pixels of names that do not touch each other.
  nameSize(context, place) {
    context.font = "11px system-ui, sans-serif";
    const widest = Math.max(...this.fabric.names.map((name) => context.measureText(name).width)) + 4;
    const rows = [...place].sort(([x1, y1], [x2, y2]) => y1 - y2 || x1 - x2);
    const gaps = rows.slice(1).map(([x, y], i) => (y - rows[i][1] < 12 ? Math.hypot(x - rows[i][0], 2 * (y - rows[i][1])) : Infinity));
    return Math.min(11, (11 * Math.min(...gaps)) / widest);
  }

  // The same for documents: lines of one colour are one path.
  svg() {
    const { looks, place, width, height } = this.drawn;
    const style = getComputedStyle(document.documentElement);
    const one = (value) => value.toFixed(1);
    const piece = (channel) => {
      const line = this.lines[channel];
      let text = "";
      for (let i = 0; i < line.length; i += 4) text += `M${one(line[i])} ${one(line[i + 1])}L${one(line[i + 2])} ${one(line[i + 3])}`;
      return text;
    };
    const path = ({ colour, width: wide, dash, channels }) => `<path d="${channels.map(piece).join("")}" stroke="${colour || style.getPropertyValue("--dark")}" `
      + `stroke-width="${wide}"${dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : ""} fill="none"/>`;
    const ink = style.getPropertyValue("--ink");
    const paper = style.getPropertyValue("--paper");
    const radius = place.length > 300 ? 2 : 6;
    const dot = ([x, y], s) => `<circle cx="${one(x)}" cy="${one(y)}" r="${radius}" fill="${paper}" stroke="${ink}"><title>${escaped(this.fabric.names[s])}</title></circle>`;
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">`
      + `<rect width="100%" height="100%" fill="${paper}"/>`
      + looks.filter(({ channels }) => channels.length).map(path).join("") + place.map(dot).join("") + "</svg>\n";
  }

  // What is picked, in the unit square.
  spot(picked) {
    const { places, cables } = this.fabric;
    return places[picked.cable === undefined ? picked.switch : cables[picked.cable][0]];
  }

  // What the lines say.
  legend() {
    const isFew = this.fabric.cables.length < 2000;
    return {
      each: "each cable is two lines, one per direction",
      less: `blue, thin${isFew ? " and dashed" : ""}`, more: "orange, thick", same: "grey: as many",
      keys: "In a picture: arrows go from switch to switch, Enter to its cables, Escape back; +, − and 0 zoom.",
    };
  }

  // The channel drawn nearest to a point, if one is near.
  at(x, y) {
    let best = 7, found = -1;
    this.lines.forEach((line, channel) => {
      for (let i = 0; i < line.length; i += 4) {
        const [dx, dy] = [line[i + 2] - line[i], line[i + 3] - line[i + 1]];
        const along = ((x - line[i]) * dx + (y - line[i + 1]) * dy) / (dx * dx + dy * dy || 1);
        const t = Math.min(Math.max(along, 0), 1);
        const off = Math.hypot(x - line[i] - t * dx, y - line[i + 1] - t * dy);
        if (off < best) [best, found] = [off, channel];
      }
    });
    return found;
  }
}

// nth[cable]: its place among parallel cables, around 0.
function parallel(cables) {
  const bundles = new Map();
  cables.forEach(([a, b], i) => {
    const key = Math.min(a, b) + " " + Math.max(a, b);
    if (!bundles.has(key)) bundles.set(key, []);
    bundles.get(key).push(i);
  });
  const nth = new Array(cables.length).fill(0);
  for (const bundle of bundles.values()) {
    bundle.forEach((cable, i) => {
      // Seen from the lower switch, so that cables wired the other way round do not change sides.
      const sign = cables[cable][0] < cables[cable][1] ? 1 : -1;
      nth[cable] = (i - (bundle.length - 1) / 2) * sign;
    });
  }
  return nth;
}
