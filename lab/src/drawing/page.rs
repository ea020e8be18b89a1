//! A page of HTML in one file: no script, no outside resources.

use std::fs;
use std::path::Path;

use crate::error::{IoContext, Result};

/// A page in the making.
#[derive(Debug, Default)]
pub struct Page {
    contents: String,
    body: String,
}

const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1000px; margin: 2rem auto; padding: 0 1rem;
  color: #1b1d21; background: #fdfdfc; }
a { color: #1f6fb2; }
h1, h2, h3 { line-height: 1.2; }
h2 { margin-top: 3rem; border-top: 1px solid #8886; padding-top: 1rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(420px, 1fr)); gap: 1rem; }
figure { margin: 0; }
figcaption { font-weight: 600; }
svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
th, td { padding: 0.2rem 0.6rem; border-bottom: 1px solid #8884; text-align: right; }
th:first-child, td:first-child, td.text { text-align: left; }
.legend span { margin-right: 1rem; white-space: nowrap; }
.left-out { opacity: 0.75; }
.same::before { content: '= '; font-weight: 700; color: #00865f; }
.unclear::before { content: '≈ '; font-weight: 700; color: #8a6d00; }
.differs::before { content: '≠ '; font-weight: 700; color: #c9510c; }
.wide { overflow-x: auto; }
@media (prefers-color-scheme: dark) {
  body { color: #e4e6ea; background: #16181d; }
  a { color: #6cb2eb; }
}
";

/// Text as HTML shows it.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Page {
    /// Begins a section, which the contents list.
    pub fn section(&mut self, id: &str, title: &str) {
        let title = escape(title);
        self.contents.push_str(&format!("<li><a href=\"#{id}\">{title}</a></li>\n"));
        self.body.push_str(&format!("<h2 id=\"{id}\">{title}</h2>\n"));
    }

    /// Adds text that is HTML already.
    pub fn html(&mut self, html: &str) {
        self.body.push_str(html);
        self.body.push('\n');
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) {
        self.classed("p", "", text);
    }

    /// Begins the section of a part of an experiment, with the words after `tarn lab run` that measure it.
    /// Returns whether there are results, and otherwise writes that there are none.
    pub fn section_of(&mut self, (id, title): (&str, &str), is_there: bool, command: &str) -> bool {
        self.section(id, title);
        if !is_there {
            self.left_out(&format!("Not measured: tarn lab run {command}"));
        }
        is_there
    }

    /// Adds a paragraph that says that something is not there.
    pub fn left_out(&mut self, text: &str) {
        self.classed("p", "left-out", text);
    }

    /// Adds text in an element of a class.
    pub fn classed(&mut self, element: &str, class: &str, text: &str) {
        self.body.push_str(&format!("<{element} class=\"{class}\">{}</{element}>\n", escape(text)));
    }

    /// Adds charts side by side, each with its caption.
    pub fn charts(&mut self, charts: &[(String, String)]) {
        self.html("<div class=\"charts\">");
        for (caption, svg) in charts {
            self.html(&format!("<figure><figcaption>{}</figcaption>\n{svg}</figure>", escape(caption)));
        }
        self.html("</div>");
    }

    /// Adds a table. Cells that begin with a letter are aligned left.
    pub fn table(&mut self, id: &str, heads: &[String], rows: &[Vec<String>]) {
        let mut text = format!("<div class=\"wide\"><table id=\"{id}\">\n<thead><tr>");
        heads.iter().for_each(|head| text.push_str(&format!("<th>{}</th>", escape(head))));
        text.push_str("</tr></thead>\n<tbody>\n");
        for row in rows {
            text.push_str("<tr>");
            for cell in row {
                let class = if cell.starts_with(char::is_alphabetic) { " class=\"text\"" } else { "" };
                text.push_str(&format!("<td{class}>{}</td>", escape(cell)));
            }
            text.push_str("</tr>\n");
        }
        text.push_str("</tbody></table></div>");
        self.html(&text);
    }

    /// The whole page. `head` is HTML above the contents.
    pub fn finish(self, title: &str, head: &str) -> String {
        let title = escape(title);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{head}\n\
             <nav><ul>\n{}</ul></nav>\n{}</body>\n</html>\n",
            self.contents, self.body
        )
    }
}

/// Writes a page to a file, and prints its path.
pub fn write(out: &Path, page: &str) -> Result<()> {
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent).doing(|| parent.display().to_string())?;
    }
    fs::write(out, page).doing(|| out.display().to_string())?;
    println!("{}", out.display());
    Ok(())
}

/// A moment as people write it, such as `2026-01-31 08:05 UTC`.
pub fn utc(unix_ms: u64) -> String {
    let minutes = unix_ms / 60_000;
    let (hour, minute) = (minutes / 60 % 24, minutes % 60);
    // Days since the first of March of year 0, in eras of 400 years.
    let days = minutes / 1440 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year}-{month:02}-{date:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00 UTC");
        assert_eq!(utc(1_735_689_599_000), "2024-12-31 23:59 UTC");
    }
}
