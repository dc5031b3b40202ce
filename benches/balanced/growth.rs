//! Time and largest load over size as a picture: `docs/growth.svg`.

use std::fmt::Write as _;

use sarouter::report::svg::{escape, grid_line};

use crate::Point;

/// Families of fabrics at sizes from 500 hosts up.
pub const FAMILIES: &[(&str, &[&str])] = &[
    (
        "k-ary trees",
        &[
            "kary:8,3",
            "kary:10,3",
            "kary:12,3",
            "kary:14,3",
            "kary:17,3",
            "kary:20,3",
            "kary:24,3",
            "kary:27,3",
            "kary:31,3",
            "kary:35,3",
        ],
    ),
    (
        "dragonflies",
        &[
            "dragonfly:8,4,4,17",
            "dragonfly:8,4,4,33",
            "dragonfly:10,5,5,34",
            "dragonfly:10,5,5,51",
            "dragonfly:12,6,6,56",
            "dragonfly:12,6,6,73",
            "dragonfly:14,7,7,75",
            "dragonfly:14,7,7,99",
            "dragonfly:16,8,8,100",
            "dragonfly:18,9,9,124",
        ],
    ),
    (
        "tori",
        &[
            "torus:5x5x5,hosts=4",
            "torus:6x6x7,hosts=4",
            "torus:8x8x7,hosts=4",
            "torus:8x8x11,hosts=4",
            "torus:10x10x10,hosts=4",
            "torus:10x12x14,hosts=4",
            "torus:12x14x16,hosts=4",
            "torus:16x16x16,hosts=4",
            "torus:16x16x24,hosts=4",
            "torus:16x16x32,hosts=4",
        ],
    ),
    (
        "random",
        &[
            "random:64,512,512,seed=1",
            "random:125,1000,1000,seed=1",
            "random:190,1520,1520,seed=1",
            "random:250,2000,2000,seed=1",
            "random:350,2800,2800,seed=1",
            "random:500,4000,4000,seed=1",
        ],
    ),
];

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 620.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 150.0;
/// Top and bottom of the two parts.
const TIME: (f64, f64) = (40.0, 320.0);
const LOAD: (f64, f64) = (370.0, 580.0);
const COLOURS: [&str; 4] = ["#0b63a5", "#b8520a", "#3d8b37", "#8a3fa0"];
const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#5b6675}.title{font-weight:600}.end{text-anchor:end}\
                     .grid{stroke:#d7dde5}path{fill:none;stroke-width:2}rect{fill:#fff}";

/// Hosts on a logarithmic axis.
fn x(hosts: f64) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * (hosts / 400.0).ln() / (50_000.0f64 / 400.0).ln()
}

/// CPU seconds on a logarithmic axis, from a millisecond to a hundred seconds.
fn y_time(seconds: f64) -> f64 {
    TIME.1 - (TIME.1 - TIME.0) * (seconds.max(1e-3).log10() + 3.0) / 5.0
}

/// Largest load over what no routing can be below, from 1 to 1.2.
fn y_load(share: f64) -> f64 {
    LOAD.1 - (LOAD.1 - LOAD.0) * (share - 1.0) / 0.2
}

/// Draws CPU seconds, and below the largest load over its bound, of families over hosts.
pub fn draw(families: &[(&str, Vec<Point>)]) -> String {
    let title =
        "balanced without jobs, 8 layers, one thread: CPU seconds, and largest load over its bound, by hosts";
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\
         <style>{STYLE}</style><rect width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\
         <text x=\"12\" y=\"20\" class=\"title\">{title}</text>"
    );
    for (seconds, label) in [(1e-3, "1 ms"), (1e-2, "10 ms"), (0.1, "0.1 s"), (1.0, "1 s"), (10.0, "10 s")] {
        svg.push_str(&grid_line(LEFT, WIDTH - RIGHT, y_time(seconds), label));
    }
    for share in [1.0, 1.05, 1.1, 1.15] {
        svg.push_str(&grid_line(LEFT, WIDTH - RIGHT, y_load(share), format!("{share:.2}")));
    }
    for hosts in [500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0, 43_000.0] {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" class=\"end\">{hosts}</text>",
            x(hosts),
            LOAD.1 + 24.0
        );
    }
    for (i, ((name, points), colour)) in families.iter().zip(COLOURS).enumerate() {
        let line = |y: &dyn Fn(&Point) -> f64| -> String {
            let at = points.iter().map(|p| format!("{:.1} {:.1}", x(p.hosts as f64), y(p)));
            format!("<path d=\"M{}\" stroke=\"{colour}\"/>", at.collect::<Vec<_>>().join("L"))
        };
        svg.push_str(&line(&|p| y_time(p.cpu_seconds)));
        svg.push_str(&line(&|p| y_load(p.max as f64 / p.bound.max(1) as f64)));
        let (left, top) = (WIDTH - RIGHT + 10.0, TIME.0 + 20.0 * (i + 1) as f64);
        let _ = write!(svg, "<text x=\"{left}\" y=\"{top}\" style=\"fill:{colour}\">{}</text>", escape(name));
    }
    svg.push_str("</svg>\n");
    svg
}
