//! The report of a command, as a page: what it found in a sentence, a picture of that, whom it concerns, then the figures.

use super::bars::bars;
use super::page::{page, table};
use super::svg::escape;

/// A title and cells, the head first.
pub type Cells = (String, Vec<Vec<String>>);

/// A report. Every command fills the same places, so that a reader finds each thing where the last report had it.
#[derive(Debug, Clone, Default)]
pub struct Sheet {
    /// What was done.
    pub title: String,
    /// What was found, in a sentence or two.
    pub verdict: String,
    /// On what, and how it is counted.
    pub lead: String,
    /// Pictures as markup, that of the verdict first.
    pub charts: Vec<String>,
    /// For whom it matters, and for whom not; empty: nothing is known of that.
    pub for_whom: String,
    /// Tables. Each can be saved as CSV.
    pub tables: Vec<Cells>,
    /// Titles and markup of what opens on a click: heat maps.
    pub folded: Vec<(String, String)>,
    /// What makes the same report again, seeds included.
    pub command: String,
    /// All of it for programs; empty: none.
    pub json: String,
}

impl Sheet {
    /// Bars of a value each as the first picture. See [`bars`].
    pub fn with_bars(mut self, title: &str, rows: &[(String, f64)], mark: Option<(f64, &str)>) -> Self {
        if !rows.is_empty() {
            self.charts.insert(0, bars(title, rows, mark));
        }
        self
    }

    /// The page: one file that asks nobody for anything.
    pub fn html(&self) -> String {
        let mut body = format!("<p class=\"verdict\">{}</p>", escape(&self.verdict));
        body += &self.charts.concat();
        if !self.for_whom.is_empty() {
            body += &format!("<h2>Is it for you?</h2><p>{}</p>", escape(&self.for_whom));
        }
        for (title, cells) in &self.tables {
            body += &format!("<h2>{}</h2>{}", escape(title), of_cells(cells));
            body += &save(&file_name(title, "csv"), "text/csv", &csv(cells));
        }
        for (title, markup) in &self.folded {
            body += &format!("<details><summary>{}</summary>{markup}</details>", escape(title));
        }
        if !self.command.is_empty() {
            body += &format!("<h2>Made with</h2><pre>{}</pre>", escape(&self.command));
        }
        if !self.json.is_empty() {
            body += &save(&file_name(&self.title, "json"), "application/json", &self.json);
        }
        page(&self.title, &self.lead, &body)
    }
}

fn of_cells(cells: &[Vec<String>]) -> String {
    let head: Vec<&str> = cells.first().map_or(Vec::new(), |h| h.iter().map(String::as_str).collect());
    table(&head, cells.get(1..).unwrap_or(&[]))
}

/// A link that saves what the page itself holds.
fn save(name: &str, kind: &str, content: &str) -> String {
    let name = escape(name);
    format!(
        "<p class=\"save\"><a download=\"{name}\" href=\"data:{kind};charset=utf-8,{}\">{name}</a></p>",
        encoded(content)
    )
}

/// As part of a URL: all but letters, digits and a few signs as bytes in hexadecimal.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b',' | b':' => {
                out.push(byte.into())
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// Letters and digits of a title, in small letters.
fn file_name(title: &str, ending: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty());
    format!("{}.{ending}", words.collect::<Vec<_>>().join("-").to_lowercase())
}

/// Lines of cells (RFC 4180). A cell that a spreadsheet would take for a formula begins with an apostrophe.
fn csv(cells: &[Vec<String>]) -> String {
    let is_formula = |text: &str| {
        text.starts_with(['=', '+', '@', '\t', '\r'])
            || (text.starts_with('-') && text.len() > 1 && text.parse::<f64>().is_err())
    };
    let cell = |text: &String| if is_formula(text) { format!("'{text}") } else { text.clone() };
    let mut writer =
        csv::WriterBuilder::new().flexible(true).terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    // A vector takes all that is written.
    cells.iter().for_each(|row| drop(writer.write_record(row.iter().map(cell))));
    writer.into_inner().map_or(String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::page::CHART_SCRIPT;
    use super::*;

    #[test]
    fn what_is_saved_is_what_the_table_shows() {
        let row = |cells: &[&str]| cells.iter().map(ToString::to_string).collect::<Vec<_>>();
        let cells = [row(&["engine", "max"]), row(&["a \"b\", c", "-3.5"]), row(&["=1+1", "-x"])];
        assert_eq!(csv(&cells), "engine,max\r\n\"a \"\"b\"\", c\",-3.5\r\n'=1+1,'-x\r\n");
        assert_eq!(encoded("a b\"<é>\n"), "a%20b%22%3C%C3%A9%3E%0A");
        assert_eq!(file_name("Gain, by job (3 %)", "csv"), "gain-by-job-3.csv");
    }

    #[test]
    fn names_of_others_are_text_in_every_place() {
        let evil = "<script>alert(1)</script>";
        let sheet = Sheet {
            title: evil.into(),
            verdict: evil.into(),
            lead: evil.into(),
            for_whom: evil.into(),
            tables: vec![(evil.into(), vec![vec![evil.into()], vec![evil.into()]])],
            folded: vec![(evil.into(), String::new())],
            command: evil.into(),
            json: evil.into(),
            ..Sheet::default()
        };
        let html = sheet.with_bars(evil, &[(evil.into(), 1.0)], Some((1.0, evil))).html();
        // The one script is ours; what others call themselves adds none.
        let (before, after) = html.split_once(&format!("<script>{CHART_SCRIPT}</script>")).unwrap();
        assert!(!before.contains("<script") && !after.contains("<script"), "{before}");
        assert!(!CHART_SCRIPT.contains("</script") && before.matches("alert(1)").count() > 9, "{before}");
    }
}
