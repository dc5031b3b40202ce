//! The fabric as a picture: every cable as two lines, one per direction, coloured by load
//! (as in thesis Figure 5.2).

use std::fmt::Write as _;

use super::map_layout::{Layout, Style, WIDTH};
use super::page::STYLE;
use super::svg::{SHADES, escape, heat_style, shade};
use crate::model::{ChannelId, Fabric, shown};

/// Fabrics with at most so many channels get a text for each of them.
const NAMED: usize = 2_000;

/// Draws a fabric (see [`super::map_layout`]: leaf switches of a tree at the bottom). `loads` is
/// indexed by channel; colours are scaled to `full`, so that two pictures can share one scale.
/// Channels without load are thin: dark fiber. For a page with [`super::page::STYLE`], whose script (`heat.js`) gets the
/// load of each line. O(channels).
pub fn heat_map(fabric: &Fabric, loads: &[u64], full: u64, title: &str) -> String {
    let order = by_load(fabric, loads);
    let (height, drawing) = draw(fabric, loads, &order, full, title);
    let row = |c: &ChannelId| (shown(&fabric.channel_name(*c)).into_owned(), loads[c.index()]);
    let rows: Vec<(String, u64)> = order.iter().map(row).collect();
    format!(
        "<svg class=\"heat\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\" data-heat=\"{}\"><style>{}</style>{drawing}</svg>",
        escape(title),
        escape(&serde_json::json!(rows).to_string()),
        heat_style()
    )
}

/// The channels, the fullest last: on top of the others.
fn by_load(fabric: &Fabric, loads: &[u64]) -> Vec<ChannelId> {
    let mut order: Vec<ChannelId> = fabric.channel_ids().collect();
    order.sort_by_key(|c| loads[c.index()]);
    order
}

/// Several heat maps of one fabric, below each other on one scale, as a file of its own.
/// `maps` are titles and loads by channel.
pub fn heat_sheet(fabric: &Fabric, maps: &[(String, Vec<u64>)]) -> String {
    let full = maps.iter().flat_map(|(_, loads)| loads).max().copied().unwrap_or(0);
    let (mut y, mut body) = (0.0, String::new());
    for (title, loads) in maps {
        let (height, drawing) = draw(fabric, loads, &by_load(fabric, loads), full, title);
        let _ = writeln!(body, "<g class=\"heat\" transform=\"translate(0 {y})\">{drawing}</g>");
        y += height + 16.0;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y}\"><style>{STYLE}{}</style>\
         <rect width=\"{WIDTH}\" height=\"{y}\" style=\"fill:var(--paper)\"/>\n{body}</svg>\n",
        heat_style()
    )
}

/// Height and markup of one picture, channels in this order.
fn draw(fabric: &Fabric, loads: &[u64], order: &[ChannelId], full: u64, title: &str) -> (f64, String) {
    let layout = Layout::new(fabric);
    let mut svg = format!("<text x=\"12\" y=\"22\" class=\"title\">{}</text>", escape(title));
    let lines = Lines::new(fabric, &layout);
    let class = |c: &ChannelId| match loads[c.index()] {
        0 => "dark".to_string(),
        load => format!("h{}", shade(load as f64 / full.max(1) as f64)),
    };
    for same in order.chunk_by(|a, b| class(a) == class(b)) {
        let class = class(&same[0]);
        if order.len() <= NAMED {
            for c in same {
                let name = escape(&fabric.channel_name(*c));
                let load = loads[c.index()];
                let path = lines.path(*c);
                let _ =
                    write!(svg, "<path class=\"{class}\" d=\"{path}\"><title>{name}: {load}</title></path>");
            }
        } else {
            let path: String = same.iter().map(|c| lines.path(*c)).collect();
            let _ = write!(svg, "<path class=\"{class}\" d=\"{path}\"/>");
        }
    }
    let group = format!("<g class=\"zooms\"><g class=\"lines\" style=\"stroke-width:{:.2}\">", lines.width);
    let at = svg.find("</text>").map_or(0, |i| i + "</text>".len());
    svg.insert_str(at, &group);
    svg.push_str("</g>");
    draw_switches(&mut svg, fabric, &layout);
    svg.push_str("</g>");
    svg.push_str(&legend(layout.height - 14.0, full));
    (layout.height, svg)
}

fn draw_switches(svg: &mut String, fabric: &Fabric, layout: &Layout) {
    for s in fabric.switch_ids() {
        let (x, y) = layout.place[s.index()];
        let name = escape(&fabric.switch(s).description);
        let hosts = fabric.host_count(s);
        let r = layout.radius;
        let _ = write!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r:.1}\" class=\"switch\"{}><title>{name} ({hosts} hosts)</title></circle>",
            if r < 4.0 { " style=\"stroke-width:.6\"" } else { "" }
        );
        if fabric.switches().len() <= 64 && layout.style == Style::Lines {
            let below = if hosts > 0 { 26.0 } else { -16.0 };
            let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\" class=\"name\">{name}</text>", y + below);
        }
    }
}

/// Where cables lie.
struct Lines<'a> {
    fabric: &'a Fabric,
    layout: &'a Layout,
    nth: Vec<f64>,
    width: f64,
}

impl<'a> Lines<'a> {
    fn new(fabric: &'a Fabric, layout: &'a Layout) -> Self {
        let width = match layout.style {
            Style::Lines => (0.21 * layout.radius).clamp(0.5, 1.9),
            // Nothing lies beside a half.
            Style::Halves => layout.radius.clamp(1.5, 5.0),
        };
        Self { fabric, layout, nth: nth_parallel(fabric), width }
    }

    /// Parallel cables lie side by side, and the two directions of a cable touch.
    fn path(&self, c: ChannelId) -> String {
        let forward = if c.index() % 2 == 0 { 1.0 } else { -1.0 };
        let apart = if self.layout.style == Style::Lines { 0.58 * forward } else { 0.0 };
        let shift = self.width * (2.6 * self.nth[c.index()] + apart);
        let [(x1, y1), (x2, y2)] = self.layout.line(self.fabric, c, shift);
        format!("M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}")
    }
}

/// `result[channel]`: position of its cable among parallel ones, as an offset around 0.
fn nth_parallel(fabric: &Fabric) -> Vec<f64> {
    let pair = |c: ChannelId| {
        let ch = fabric.channel(c);
        (ch.from.min(ch.to), ch.from.max(ch.to))
    };
    let mut cables: Vec<ChannelId> = fabric.channel_ids().step_by(2).collect();
    cables.sort_by_key(|c| (pair(*c), *c));
    let mut nth = vec![0.0; fabric.channels().len()];
    for bundle in cables.chunk_by(|a, b| pair(*a) == pair(*b)) {
        for (i, c) in bundle.iter().enumerate() {
            let offset = i as f64 - (bundle.len() - 1) as f64 / 2.0;
            nth[c.index()] = offset;
            nth[c.reverse().index()] = offset;
        }
    }
    nth
}

fn legend(y: f64, full: u64) -> String {
    let mut svg = String::new();
    let step = 216.0 / f64::from(SHADES);
    for i in 0..SHADES {
        let x = 60.0 + step * f64::from(i);
        let top = y - 9.0;
        let _ = write!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{step:.1}\" height=\"10\" class=\"f{i}\"/>"
        );
    }
    let _ = write!(
        svg,
        "<text x=\"52\" y=\"{y:.1}\" class=\"end\">1</text><text x=\"282\" y=\"{y:.1}\" class=\"small\">{full} routes</text><line x1=\"400\" x2=\"440\" y1=\"{l:.1}\" y2=\"{l:.1}\" class=\"dark\"/>\
         <text x=\"448\" y=\"{y:.1}\" class=\"small\">unused (dark fiber)</text>",
        l = y - 4.0
    );
    svg
}
