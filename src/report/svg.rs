//! The few things hand-built SVG needs: escaping, a colour scale, the frame of a chart, round axis steps.

use serde::Serialize;

use crate::model::shown;

/// Text or attribute value as XML.
pub fn escape(text: &str) -> String {
    let safe = shown(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    safe.replace('"', "&quot;").replace('\'', "&#39;")
}

/// A colour for `share` in 0..=1 on a scale that colour-blind readers can order: from pale yellow
/// over orange-red to dark violet, falling steadily in lightness (it also prints in grey).
fn heat_colour(share: f64) -> String {
    const STOPS: [[f64; 3]; 5] =
        [[253., 231., 150.], [251., 176., 82.], [229., 100., 72.], [158., 42., 99.], [62., 15., 89.]];
    let at = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let low = (at as usize).min(STOPS.len() - 2);
    let part = at - low as f64;
    let mix = |i: usize| (STOPS[low][i] + (STOPS[low + 1][i] - STOPS[low][i]) * part).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

/// Shades of heat maps.
pub const SHADES: u8 = 12;

/// The shade of a share in 0..=1.
pub fn shade(share: f64) -> u8 {
    ((share.clamp(0.0, 1.0) * f64::from(SHADES)) as u8).min(SHADES - 1)
}

/// Style sheet of the shades: classes `h0` to `h11` for lines and `f0` to `f11` for areas. On dark
/// paper the scale runs the other way, so that what is full always stands out.
pub fn heat_style() -> String {
    let scale = |colour: &dyn Fn(f64) -> String| -> String {
        let shades = (0..SHADES).map(|i| {
            let colour = colour(f64::from(i) / f64::from(SHADES - 1));
            format!(".h{i}{{stroke:{colour};fill:none}}.f{i}{{fill:{colour}}}")
        });
        shades.collect()
    };
    // The palest yellow is too close to paper, and the darkest violet to a dark screen.
    let light = scale(&|share| heat_colour(0.08 + 0.92 * share));
    let dark = scale(&|share| heat_colour(0.86 * (1.0 - share)));
    format!("{light}.heat .dark{{fill:none;stroke-width:.5}}@media (prefers-color-scheme:dark){{{dark}}}")
}

/// The figures of a chart, for its script (`chart.js`): an entry for each place of the axis that they lie along.
#[derive(Debug, Clone, Serialize)]
pub struct ChartData {
    /// What an entry is, then the names of the series.
    pub head: Vec<String>,
    /// The name of each entry, then its values; what is not finite is `null`.
    pub rows: Vec<(String, Vec<f64>)>,
    /// Left, top, right and bottom of where it is drawn.
    #[serde(rename = "box")]
    pub place: [f64; 4],
    /// Which way entries follow each other: `x` or `y`.
    pub along: char,
    /// Values at the left and at the right; `None`: entries have names there.
    pub scale: Option<[f64; 2]>,
}

impl ChartData {
    /// As JSON in an attribute. Names are made harmless first: escaped afterwards, they would be no JSON.
    fn attribute(mut self) -> String {
        let names = self.head.iter_mut().chain(self.rows.iter_mut().map(|(name, _)| name));
        names.for_each(|name| *name = shown(name).into_owned());
        escape(&serde_json::json!(self).to_string())
    }
}

/// The beginning of a chart: its size, its title and its figures.
pub fn chart_head(title: &str, width: f64, height: f64, data: ChartData) -> String {
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{t}\" data-chart=\"{}\">\
         <text x=\"12\" y=\"20\" class=\"title\">{t}</text>",
        data.attribute(),
        t = escape(title)
    )
}

/// A horizontal line of a chart's grid, with its value on the left.
pub fn grid_line(from: f64, to: f64, y: f64, value: impl std::fmt::Display) -> String {
    format!(
        "<line x1=\"{from}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" class=\"grid\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" class=\"end\">{value}</text>",
        from - 6.0,
        y + 4.0
    )
}

/// Axis ticks from 0 to at least `max`: about five, at 1, 2 or 5 times a power of ten.
pub fn ticks(max: f64) -> Vec<f64> {
    if max.is_nan() || max <= 0.0 {
        return vec![0.0, 1.0];
    }
    let rough = max / 4.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|f| f * power).find(|s| *s >= rough).unwrap_or(rough);
    let count = (max / step).ceil() as usize;
    (0..=count).map(|i| i as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_maximum() {
        assert_eq!(ticks(160.0), [0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!(ticks(54.0), [0.0, 20.0, 40.0, 60.0]);
        assert_eq!(ticks(0.0), [0.0, 1.0]);
    }

    #[test]
    fn the_heat_scale_gets_darker_all_the_way() {
        let light = |share| {
            let c = heat_colour(share);
            let part = |r: std::ops::Range<usize>| f64::from(u8::from_str_radix(&c[r], 16).unwrap());
            0.2126 * part(1..3) + 0.7152 * part(3..5) + 0.0722 * part(5..7)
        };
        for i in 0..20 {
            assert!(light(f64::from(i + 1) / 20.0) < light(f64::from(i) / 20.0), "not darker at {i}");
        }
    }

    #[test]
    fn the_figures_of_a_chart_are_json_whatever_others_call_themselves() {
        let evil = "\u{202e}\"'><script>\\";
        let data = ChartData {
            head: vec!["job".into(), evil.into()],
            rows: vec![(evil.into(), vec![1.25, f64::INFINITY])],
            place: [1.0, 2.0, 3.0, 4.0],
            along: 'y',
            scale: None,
        };
        let attribute = data.attribute();
        assert!(!attribute.contains(['<', '>', '"', '\'', '\u{202e}']), "{attribute}");
        let text = [("&quot;", "\""), ("&#39;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
        let text = text.iter().fold(attribute, |text, (from, to)| text.replace(from, to));
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["rows"], serde_json::json!([["\\u{202e}\"'><script>\\", [1.25, null]]]));
        assert_eq!(
            (&read["box"][3], &read["along"], &read["scale"]),
            (&4.0.into(), &"y".into(), &serde_json::Value::Null)
        );
    }

    #[test]
    fn markup_in_names_is_only_text() {
        assert_eq!(escape(r#"<b a="1">&"#), "&lt;b a=&quot;1&quot;&gt;&amp;");
    }
}
