//! A script file: paragraphs of commands, `---` and replies, kept with their text so that recording changes
//! replies alone.

use crate::reply::Order;
use crate::words;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One file.
pub(crate) struct Script {
    /// Folder and file without the ending: `strings/get`.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
    /// Its text as read.
    pub text: String,
    /// Its paragraphs, those of comments alone included.
    pub paragraphs: Vec<Paragraph>,
}

/// The text between two blank lines.
pub(crate) struct Paragraph {
    /// Comments, directives and commands as written, up to the `---`.
    pub head: Vec<String>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The written replies; `None` without a `---`, as in a script that is still to be recorded.
    pub replies: Option<Vec<WrittenReply>>,
    /// `@differs`: Tarn deliberately answers otherwise, for this reason. Not played against redis-server.
    pub differs: Option<String>,
}

/// A reply as it is in the file.
pub(crate) struct WrittenReply {
    /// Its lines.
    pub lines: Vec<String>,
    /// The number of the first of them.
    pub line_number: usize,
}

/// One line of the upper part of a paragraph.
pub(crate) struct Step {
    /// Its line.
    pub line_number: usize,
    /// Its text, unchanged.
    pub text: String,
    /// The action of the step.
    pub action: Action,
    /// `@on b`: the connection.
    pub connection: String,
    /// `@unordered`, `@pairs`, `@count`: how to order the reply.
    pub order: Order,
    /// `@match`: the written reply is a pattern.
    pub is_pattern: bool,
    /// `@eventually`: asked again until the reply is as written.
    pub eventually: bool,
    /// `@repeat 100`: sent so often, `{i}` counting from 0; only the last reply is written.
    pub repeat: usize,
    /// `@save id`: the reply replaces `{id}` in later commands.
    pub save: Option<String>,
}

/// The kinds of steps.
pub(crate) enum Action {
    /// Sends a command and reads its reply.
    Command(String),
    /// `@raw "PING\r\n"`: sends these bytes and reads a reply.
    Raw(Vec<u8>),
    /// `@async b BLPOP l 0`: sends a command on connection `b` and continues when the server holds it.
    Async(String),
    /// `@await b`: reads the next reply of connection `b`.
    Await,
    /// `@resp3`: speaks RESP3 until the end of the paragraph.
    Resp3,
    /// `@sleep 20`: waits for this number of milliseconds.
    Sleep(Duration),
    /// `@close b`: closes connection `b` from this side.
    Close,
}

impl Step {
    /// True if a reply is written for it.
    pub(crate) fn has_reply(&self) -> bool {
        matches!(self.action, Action::Command(_) | Action::Raw(_) | Action::Await)
    }
}

impl Script {
    /// Reads and parses a file below `folder`.
    pub(crate) fn read(folder: &Path, path: &Path) -> Result<Script, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.strip_prefix(folder).unwrap_or(path).with_extension("").display().to_string();
        Script::parse(name, path, text)
    }

    /// Parses the text of a file.
    pub(crate) fn parse(name: String, path: &Path, text: String) -> Result<Script, String> {
        let at = |(line, problem): (usize, String)| format!("testscripts/{name}.txt:{line}: {problem}");
        let paragraphs = parse(&text).map_err(at)?;
        if !text.starts_with("# ") {
            return Err(at((1, "the first line is no comment saying what the script is about".to_owned())));
        }
        Ok(Script { name, path: path.to_owned(), text, paragraphs })
    }
}

/// The paragraphs of a text, or the line that is wrong and why.
fn parse(text: &str) -> Result<Vec<Paragraph>, (usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut paragraphs = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let length = lines[at..].iter().position(|line| line.trim().is_empty()).unwrap_or(lines.len() - at);
        if length > 0 {
            paragraphs.push(parse_paragraph(&lines[at..at + length], at + 1)?);
        }
        at += length + 1;
    }
    Ok(paragraphs)
}

fn parse_paragraph(lines: &[&str], first_line: usize) -> Result<Paragraph, (usize, String)> {
    let split = lines.iter().position(|line| *line == "---");
    let head = &lines[..split.unwrap_or(lines.len())];
    let mut steps = Vec::new();
    let mut differs = None;
    for (offset, line) in head.iter().enumerate() {
        if let Some(reason) = line.strip_prefix("@differs ") {
            differs = Some(reason.to_owned());
        } else if !line.starts_with('#') {
            let line_number = first_line + offset;
            steps.push(parse_step(line, line_number).map_err(|problem| (line_number, problem))?);
        }
    }
    let replies = match split {
        Some(split) => Some(parse_replies(&lines[split + 1..], first_line + split + 1)?),
        None => None,
    };
    let wanted = steps.iter().filter(|step| step.has_reply()).count();
    if let Some(replies) = &replies
        && replies.len() != wanted
    {
        return Err((first_line, format!("{wanted} replies are due here, {} are written", replies.len())));
    }
    Ok(Paragraph { head: head.iter().map(|line| (*line).to_owned()).collect(), steps, replies, differs })
}

fn parse_step(line: &str, line_number: usize) -> Result<Step, String> {
    let mut step = Step {
        line_number,
        text: line.to_owned(),
        action: Action::Await,
        connection: "main".to_owned(),
        order: Order::Kept,
        is_pattern: false,
        eventually: false,
        repeat: 1,
        save: None,
    };
    let mut rest = line;
    loop {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        if !word.starts_with('@') {
            words::split(rest)?;
            step.action = Action::Command(rest.to_owned());
            return Ok(step);
        }
        let (argument, behind) = after.split_once(' ').unwrap_or((after, ""));
        rest = match word {
            "@unordered" => {
                step.order = Order::Sorted;
                after
            }
            "@pairs" => {
                step.order = Order::SortedPairs;
                after
            }
            "@count" => {
                step.order = Order::Counted;
                after
            }
            "@match" => {
                step.is_pattern = true;
                after
            }
            "@eventually" => {
                step.eventually = true;
                after
            }
            "@repeat" => {
                step.repeat =
                    argument.parse().ok().filter(|&times| times > 0).ok_or("@repeat lacks a number")?;
                behind
            }
            "@save" => {
                step.save = Some(argument.to_owned());
                behind
            }
            "@on" => {
                step.connection = argument.to_owned();
                behind
            }
            _ => {
                step.action = parse_last(word, after, &mut step.connection)?;
                return Ok(step);
            }
        };
    }
}

/// The directives that are not followed by a command of the usual kind.
fn parse_last(word: &str, after: &str, connection: &mut String) -> Result<Action, String> {
    let (argument, behind) = after.split_once(' ').unwrap_or((after, ""));
    if matches!(word, "@async" | "@await" | "@close") {
        if argument.is_empty() {
            return Err(format!("{word} lacks the name of a connection"));
        }
        *connection = argument.to_owned();
    }
    match word {
        "@raw" => Ok(Action::Raw(words::split(after)?.concat())),
        "@async" => words::split(behind).map(|_| Action::Async(behind.to_owned())),
        "@await" => Ok(Action::Await),
        "@close" => Ok(Action::Close),
        "@resp3" => Ok(Action::Resp3),
        "@sleep" => match argument.parse() {
            Ok(milliseconds) => Ok(Action::Sleep(Duration::from_millis(milliseconds))),
            Err(_) => Err("@sleep lacks its milliseconds".to_owned()),
        },
        _ => Err(format!("{word} is no directive")),
    }
}

/// Groups reply lines: a reply continues until its brackets are closed.
fn parse_replies(lines: &[&str], first_line: usize) -> Result<Vec<WrittenReply>, (usize, String)> {
    let mut replies: Vec<WrittenReply> = Vec::new();
    let mut depth = 0;
    for (offset, line) in lines.iter().enumerate() {
        if depth == 0 {
            replies.push(WrittenReply { lines: Vec::new(), line_number: first_line + offset });
        }
        replies.last_mut().expect("the first line is at depth 0").lines.push((*line).to_owned());
        if depth > 0 || !line.starts_with("(error) ") {
            depth += open_brackets(line);
        }
        if depth < 0 {
            return Err((first_line + offset, "a bracket is closed that was not opened".to_owned()));
        }
    }
    if depth != 0 {
        return Err((
            first_line + lines.len(),
            "a bracket is not closed at the end of the paragraph".to_owned(),
        ));
    }
    Ok(replies)
}

/// Opened less closed brackets outside of strings.
fn open_brackets(line: &str) -> i32 {
    let (mut depth, mut in_string, mut is_escaped) = (0, false, false);
    for one in line.chars() {
        match one {
            _ if is_escaped => is_escaped = false,
            '\\' if in_string => is_escaped = true,
            '"' => in_string = !in_string,
            '[' | '{' if !in_string => depth += 1,
            ']' | '}' if !in_string => depth -= 1,
            _ => {}
        }
    }
    depth
}
