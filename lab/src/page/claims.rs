//! The page that says of each statement, number and target whether it holds, in Markdown.

use super::list::{List, Paper};
use super::rows::Rows;
use super::tables::{UNJUDGED, holds, judge, measured, unjudged};

/// A sentence on a part: a statement of the paper and how ours compares, or what was not measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The part.
    pub part: String,
    /// `same`, `unclear`, `differs` or `left-out`.
    pub class: &'static str,
    /// The statement of the paper, alone; nothing for another sentence.
    pub claim: String,
    /// The paper.
    pub paper: Paper,
    /// The sentence.
    pub text: String,
    /// Details, line by line.
    pub lines: Vec<String>,
}

/// The facts that the page has of a run.
const FACTS: [&str; 6] = ["machine", "settings", "commit", "scale", "short memory", "left out"];

/// The statements of the papers, their numbers and the targets of the design as a part of a page in Markdown,
/// each with whether it holds for these measurements.
pub(crate) fn claims(
    list: &List,
    rows: &Rows,
    facts: &[(&'static str, String)],
    remarks: &[Remark],
) -> String {
    let mut text = format!("## {}\n\n", list.title);
    for (name, value) in facts.iter().filter(|(name, _)| FACTS.contains(name)) {
        text += &format!("- {name}: {value}\n");
    }
    let heads = ["paper", "figure", "statement", "published", "measured", "here", "reason, source"];
    text += &markdown(&heads, statements(list, rows, remarks));
    let heads = ["promise", "target of Tarn", "measured", "bound", "here", "note, reason"];
    text + &markdown(&heads, targets(list, rows))
}

/// The statements and the numbers of the papers: paper, figure, statement, published and measured value,
/// verdict, and reason.
pub(super) fn statements(list: &List, rows: &Rows, remarks: &[Remark]) -> Vec<Vec<String>> {
    let stated = remarks.iter().filter(|remark| !remark.claim.is_empty()).map(|remark| {
        let verdict = match remark.class {
            "same" => "holds",
            "unclear" => "not told apart from it",
            "differs" => "does not hold",
            _ => UNJUDGED,
        };
        let figure = list.sections.iter().find(|own| own.part == remark.part).map_or("", |own| &*own.title);
        let [published, measured] = ["–", "–"].map(str::to_owned);
        let (paper, statement) = (remark.paper.authors().to_owned(), remark.claim.clone());
        let (here, why) = (verdict.to_owned(), remark.lines.join("; "));
        vec![paper, figure.to_owned(), statement, published, measured, here, why]
    });
    let printed = list.printed.iter().map(|own| {
        let (verdict, mut reasons) = holds(list, rows, own);
        if !own.why.is_empty() && verdict != UNJUDGED {
            reasons.push(own.why.clone());
        }
        reasons.push(own.source.text());
        let (paper, figure, what) = (own.source.paper.authors(), own.figure.clone(), own.what.clone());
        let (published, measured) = (own.printed.clone(), measured(list, rows, own));
        vec![paper.to_owned(), figure, what, published, measured, verdict.to_owned(), reasons.join("; ")]
    });
    stated.chain(printed).collect()
}

/// The targets: promise, target, measured value, bound, verdict, and note or reason.
pub(super) fn targets(list: &List, rows: &Rows) -> Vec<Vec<String>> {
    let goals = judge(list, rows).into_iter().map(|goal| {
        let met = if goal.is_met() { "met" } else { "**missed**" }.to_owned();
        let (measured, bound) = (goal.text(), goal.bound.text(&goal.unit));
        vec![goal.promise, goal.what, measured, bound, met, goal.note]
    });
    let unjudged = unjudged(list, rows).into_iter().map(|(target, why)| {
        let (promise, bound) = (target.promise.clone(), target.bound().text(&target.unit));
        vec![promise, target.words(), "–".to_owned(), bound, UNJUDGED.to_owned(), why]
    });
    goals.chain(unjudged).collect()
}

/// A table; nothing if it has no rows.
pub(super) fn markdown(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> =
            cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rows: String = rows.iter().map(|row| line(row)).collect();
    if rows.is_empty() {
        return String::new();
    }
    let heads: Vec<String> = heads.iter().map(|&head| head.to_owned()).collect();
    format!("\n{}{}{rows}", line(&heads), line(&vec!["---".to_owned(); heads.len()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_begins_with_facts_of_its_run() {
        let all = [("scale", "small"), ("generator", "a thread"), ("short memory", "by a swap file")];
        let facts = all.map(|(name, value)| (name, value.to_owned()));
        let text = claims(&List::parse("title = 'T'"), &Rows::default(), &facts, &[]);
        assert_eq!(text, "## T\n\n- scale: small\n- short memory: by a swap file\n");
    }
}
