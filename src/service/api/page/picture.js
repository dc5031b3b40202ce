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

function shade(stops, share) {
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  const mix = stops[low].map((v, i) => Math.round(v + (stops[low + 1][i] - v) * (at - low)));
  return `rgb(${mix})`;
}

// Where the two ends of a cable's two directions are drawn.
class Picture {
  constructor(canvas, fabric, nth) {
    this.canvas = canvas;
    this.fabric = fabric;
    this.nth = nth;
    this.lines = [];
  }

  // loads: by channel. full: the load of the last colour. Returns nothing; lines are kept for at().
  draw(loads, full, dark) {
    const { canvas, fabric } = this;
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth || 600;
    const height = Math.round(Math.min(Math.max(width / fabric.aspect, 180), 640));
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
    const place = fabric.places.map(([x, y]) =>
      [left + margin + x * (span - 2 * margin), edge + y * (height - 2 * edge)]);
    this.lay(place, fabric);
    this.drawn = { loads, full, dark, place, width, height };
    this.stroke(context, loads, full, dark, style);
    this.dots(context, place, style);
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

  stroke(context, loads, full, dark, style) {
    const unused = new Path2D();
    const lit = Array.from({ length: SHADES }, () => new Path2D());
    this.lines.forEach((line, channel) => {
      const load = loads[channel];
      const path = load > 0 ? lit[Math.min(Math.floor((load / full) * (SHADES - 1)), SHADES - 1)] : unused;
      for (let i = 0; i < line.length; i += 4) {
        path.moveTo(line[i], line[i + 1]);
        path.lineTo(line[i + 2], line[i + 3]);
      }
    });
    context.lineWidth = 0.6;
    context.strokeStyle = style.getPropertyValue("--dark");
    // Dashes cost much more than lines.
    if (this.lines.length < 4000) context.setLineDash([2, 3]);
    context.stroke(unused);
    context.setLineDash([]);
    context.lineWidth = this.gap * 1.6;
    // The busiest last, on top.
    lit.forEach((path, i) => {
      context.strokeStyle = shade(dark ? STOPS.dark : STOPS.light, i / (SHADES - 1));
      context.stroke(path);
    });
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
    if (place.length > NAMED) return;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    context.fillStyle = style.getPropertyValue("--soft");
    place.forEach(([x, y], s) => {
      context.fillText(fabric.names[s], x, y < this.canvas.clientHeight / 2 ? y - 10 : y + 19);
    });
  }

  // The same for documents: lines of one colour are one path.
  svg() {
    const { loads, full, dark, place, width, height } = this.drawn;
    const style = getComputedStyle(document.documentElement);
    const one = (value) => value.toFixed(1);
    const paths = new Map();
    this.lines.forEach((line, channel) => {
      const load = loads[channel];
      const key = load > 0 ? Math.min(Math.floor((load / full) * (SHADES - 1)), SHADES - 1) : -1;
      if (!paths.has(key)) paths.set(key, []);
      for (let i = 0; i < line.length; i += 4) paths.get(key).push(`M${one(line[i])} ${one(line[i + 1])}L${one(line[i + 2])} ${one(line[i + 3])}`);
    });
    const colour = (key) => (key < 0 ? style.getPropertyValue("--dark") : shade(dark ? STOPS.dark : STOPS.light, key / (SHADES - 1)));
    const path = ([key, parts]) => `<path d="${parts.join("")}" stroke="${colour(key)}" stroke-width="${key < 0 ? 0.6 : this.gap * 1.6}" fill="none"/>`;
    const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
    const ink = style.getPropertyValue("--ink");
    const paper = style.getPropertyValue("--paper");
    const radius = place.length > 300 ? 2 : 6;
    const dot = ([x, y], s) => `<circle cx="${one(x)}" cy="${one(y)}" r="${radius}" fill="${paper}" stroke="${ink}"><title>${escaped(this.fabric.names[s])}</title></circle>`;
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">`
      + `<rect width="100%" height="100%" fill="${paper}"/>`
      + [...paths].sort(([a], [b]) => a - b).map(path).join("") + place.map(dot).join("") + "</svg>\n";
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
