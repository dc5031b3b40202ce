//! One self-contained HTML page: one script of ours for its charts, no request to anywhere, dark and light.

use super::svg::escape;

/// Puts sections into a page. `body` is markup; `title` and `lead` are text.
pub fn page(title: &str, lead: &str, body: &str) -> String {
    let heat = if body.contains("class=\"heat\"") { HEAT_SCRIPT } else { "" };
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{t}</title><style>{STYLE}</style></head>\n<body><main><h1>{t}</h1><p class=\"lead\">{l}</p>\n\
         {body}\n</main>\n<script>{CHART_SCRIPT}{heat}</script></body></html>\n",
        t = escape(title),
        l = escape(lead)
    )
}

/// A table; all cells are text. The first column is left-aligned.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let cells = |row: &mut dyn Iterator<Item = String>, tag: &str| {
        let inner: String = row.map(|c| format!("<{tag}>{}</{tag}>", escape(&c))).collect();
        format!("<tr>{inner}</tr>")
    };
    let head = cells(&mut head.iter().map(|h| h.to_string()), "th");
    let body: String = rows.iter().map(|r| cells(&mut r.iter().cloned(), "td") + "\n").collect();
    format!(
        "<div class=\"wide\" tabindex=\"0\"><table><thead>{head}</thead><tbody>\n{body}</tbody></table></div>"
    )
}

/// What charts answer to a pointer and to keys. The web page of the service has the same file.
pub const CHART_SCRIPT: &str = include_str!("chart.js");

/// The same of heat maps, which only reports have.
const HEAT_SCRIPT: &str = include_str!("heat.js");

/// How charts look, there and here.
pub const CHART_STYLE: &str = include_str!("chart.css");

/// Colours as custom properties; charts take theirs from the same ones.
pub const STYLE: &str = concat!(
    include_str!("chart.css"),
    "
:root{--paper:#fff;--ink:#1c2430;--soft:#5b6675;--line:#d7dde5;--ours:#0b63a5;--theirs:#b8520a;--bound:#5b6675;--dark:#b9c2cd}
@media (prefers-color-scheme:dark){:root{color-scheme:dark;--paper:#12171e;--ink:#e6ebf1;--soft:#9aa7b6;--line:#2c3643;--ours:#6cb6f2;--theirs:#f2a463;--bound:#9aa7b6;--dark:#46515f}}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1000px;margin:0 auto;padding:24px 20px 60px}
h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:32px 0 8px}.lead{color:var(--soft);margin:0 0 16px;max-width:70ch}
.heat line{stroke-width:1.9}.heat .dark{stroke:var(--dark);stroke-width:.9;stroke-dasharray:2 3}.switch{fill:var(--paper);stroke:var(--ink);stroke-width:1.5}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px}th,td{text-align:right;padding:3px 10px;border-bottom:1px solid var(--line);white-space:nowrap}th:first-child,td:first-child{text-align:left}
.verdict{font-size:18px;max-width:60ch;border-left:4px solid var(--ours);padding-left:12px}.save{margin:4px 0;font-size:13px}
details{margin:20px 0}summary{cursor:pointer;font-weight:600}pre{background:color-mix(in srgb,var(--ink) 6%,transparent);padding:10px 14px;white-space:pre-wrap;overflow-wrap:anywhere}a{color:var(--ours)}
.tiles{display:flex;flex-wrap:wrap;gap:12px;margin:16px 0}.tile{border:1px solid var(--line);border-radius:8px;padding:10px 16px;min-width:150px}.tile b{display:block;font-size:22px}.tile span{color:var(--soft);font-size:13px}
@media screen and (max-width:700px){.charted [role=application]{overflow-x:auto;touch-action:auto}.charted svg{min-width:680px}}
"
);
