//! The fabric as a picture: every cable as two lines, one per direction, coloured by load
//! (as in thesis Figure 5.2).

use std::fmt::Write as _;

use super::layout::rows;
use super::page::STYLE;
use super::svg::{escape, heat_colour};
use crate::model::{ChannelId, Fabric, SwitchId};

const WIDTH: f64 = 960.0;
const ROW: f64 = 190.0;
const TOP: f64 = 46.0;

/// Draws a fabric whose switches are laid out in rows: leaf switches (those with hosts) at the
/// bottom, then by distance from them. `loads` is indexed by channel; colours are scaled to
/// `full`, so that two pictures can share one scale. Channels without load are thin and dashed:
/// dark fiber. For a page with [`super::page::STYLE`]. O(channels).
pub fn heat_map(fabric: &Fabric, loads: &[u64], full: u64, title: &str) -> String {
    let (height, drawing) = draw(fabric, loads, full, title);
    format!(
        "<svg class=\"heat\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">{drawing}</svg>",
        escape(title)
    )
}

/// Several heat maps of one fabric, below each other on one scale, as a file of its own.
/// `maps` are titles and loads by channel.
pub fn heat_sheet(fabric: &Fabric, maps: &[(String, Vec<u64>)]) -> String {
    let full = maps.iter().flat_map(|(_, loads)| loads).max().copied().unwrap_or(0);
    let (mut y, mut body) = (0.0, String::new());
    for (title, loads) in maps {
        let (height, drawing) = draw(fabric, loads, full, title);
        let _ = writeln!(body, "<g class=\"heat\" transform=\"translate(0 {y})\">{drawing}</g>");
        y += height + 16.0;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y}\"><style>{STYLE}</style>\
         <rect width=\"{WIDTH}\" height=\"{y}\" style=\"fill:var(--paper)\"/>\n{body}</svg>\n"
    )
}

/// Height and markup of one picture.
fn draw(fabric: &Fabric, loads: &[u64], full: u64, title: &str) -> (f64, String) {
    let rows = rows(fabric);
    let place = places(fabric, &rows);
    let height = TOP + ROW * (rows.len().max(2) - 1) as f64 + 70.0;
    let mut svg = format!("<text x=\"12\" y=\"22\" class=\"title\">{}</text>", escape(title));
    let mut order: Vec<ChannelId> = fabric.channel_ids().collect();
    order.sort_by_key(|c| loads[c.index()]);
    let nth = nth_parallel(fabric);
    for c in order {
        draw_channel(&mut svg, fabric, &place, nth[c.index()], c, loads[c.index()], full);
    }
    for s in fabric.switch_ids() {
        let (x, y) = place[s.index()];
        let switch = fabric.switch(s);
        let hosts = fabric.attached(s).len();
        let _ = write!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"9\" class=\"switch\"><title>{} ({hosts} hosts)</title></circle>",
            escape(&switch.description)
        );
        if fabric.switches().len() <= 64 {
            let below = if hosts > 0 { 26.0 } else { -16.0 };
            let _ = write!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" class=\"name\">{}</text>",
                y + below,
                escape(&switch.description)
            );
        }
    }
    svg.push_str(&legend(height - 14.0, full));
    (height, svg)
}

/// `result[switch]`: centre of its circle. Switches that no leaf reaches stay in the corner.
fn places(fabric: &Fabric, rows: &[Vec<SwitchId>]) -> Vec<(f64, f64)> {
    let mut place = vec![(6.0, TOP); fabric.switches().len()];
    for (r, row) in rows.iter().enumerate() {
        let step = (WIDTH - 60.0) / row.len() as f64;
        for (i, s) in row.iter().enumerate() {
            place[s.index()] = (30.0 + step * (i as f64 + 0.5), TOP + ROW * r as f64 + 16.0);
        }
    }
    place
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

fn draw_channel(
    svg: &mut String,
    fabric: &Fabric,
    place: &[(f64, f64)],
    nth: f64,
    c: ChannelId,
    load: u64,
    full: u64,
) {
    let ch = fabric.channel(c);
    let ((x1, y1), (x2, y2)) = (place[ch.from.index()], place[ch.to.index()]);
    // Parallel cables lie side by side, and the two directions of a cable touch. The normal is
    // taken from the lower switch so that both directions of a cable stay together.
    let forward = if c.index() % 2 == 0 { 1.0 } else { -1.0 };
    let (dx, dy) = ((x2 - x1) * forward, (y2 - y1) * forward);
    let length = dx.hypot(dy).max(1.0);
    let shift = nth * 5.0 + forward * 1.1;
    let (ox, oy) = (-dy / length * shift, dx / length * shift);
    let (class, stroke) = match load {
        0 => ("dark", String::new()),
        _ => ("lit", format!(" stroke=\"{}\"", heat_colour(load as f64 / full.max(1) as f64))),
    };
    let _ = write!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"{class}\"{stroke}><title>{}: {load}</title></line>",
        x1 + ox,
        y1 + oy,
        x2 + ox,
        y2 + oy,
        escape(&fabric.channel_name(c))
    );
}

fn legend(y: f64, full: u64) -> String {
    let mut svg = String::new();
    for i in 0..24 {
        let x = 60.0 + 9.0 * f64::from(i);
        let colour = heat_colour(f64::from(i) / 23.0);
        let _ =
            write!(svg, "<rect x=\"{x}\" y=\"{:.1}\" width=\"9\" height=\"10\" fill=\"{colour}\"/>", y - 9.0);
    }
    let _ = write!(
        svg,
        "<text x=\"52\" y=\"{y:.1}\" class=\"end\">1</text><text x=\"282\" y=\"{y:.1}\" class=\"small\">{full} routes</text><line x1=\"400\" x2=\"440\" y1=\"{l:.1}\" y2=\"{l:.1}\" class=\"dark\"/>\
         <text x=\"448\" y=\"{y:.1}\" class=\"small\">unused (dark fiber)</text>",
        l = y - 4.0
    );
    svg
}
