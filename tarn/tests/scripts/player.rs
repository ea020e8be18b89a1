//! Plays a script against a server: compares the replies with the written ones, or writes them.

use crate::client::Client;
use crate::reply::Reply;
use crate::script::{Action, Paragraph, Script, Step, WrittenReply};
use crate::server::Kind;
use crate::words;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// The time for which `@eventually` repeats a question.
const EVENTUALLY_LIMIT: Duration = Duration::from_secs(60);

/// The time for which `@async` waits for the server to hold the command.
const HELD_LIMIT: Duration = Duration::from_secs(60);

/// More differences than this are not worth reading.
const PROBLEMS_MAX: usize = 12;

/// All differences between the written replies and the server's.
pub(crate) fn compare(script: &Script, address: &str, kind: Kind) -> Result<Vec<String>, String> {
    let mut player = Player::new(address);
    let mut problems = Vec::new();
    for paragraph in &script.paragraphs {
        if paragraph.differs.is_some() && kind == Kind::Redis {
            continue;
        }
        if paragraph.replies.is_none() && !paragraph.steps.is_empty() {
            let line = paragraph.steps[0].line_number;
            problems.push(format!("testscripts/{}.txt:{line}: no replies are written", script.name));
            continue;
        }
        let written = paragraph.replies.as_deref().unwrap_or_default();
        player.play(paragraph, written, |step, written, reply| {
            let written = written.expect("as many replies are written as are due");
            if !fits(step, &written.lines, reply) {
                problems.push(difference(script, step, written, reply));
            }
        })?;
        if problems.len() > PROBLEMS_MAX {
            problems.push("… and perhaps more".to_owned());
            break;
        }
        for connection in player.unread()? {
            let line = paragraph.steps.last().map_or(0, |step| step.line_number);
            problems.push(format!(
                "testscripts/{}.txt:{line}: more came on connection {connection} than was asked for",
                script.name
            ));
        }
    }
    Ok(problems)
}

/// The text of the script with the server's replies, and the patterns that do not fit them.
pub(crate) fn record(script: &Script, address: &str) -> Result<(String, Vec<String>), String> {
    let mut player = Player::new(address);
    let mut problems = Vec::new();
    let mut paragraphs = Vec::new();
    for paragraph in &script.paragraphs {
        let mut lines = paragraph.head.clone();
        let written = paragraph.replies.as_deref().unwrap_or_default();
        if paragraph.differs.is_some() {
            lines.push("---".to_owned());
            lines.extend(written.iter().flat_map(|reply| reply.lines.clone()));
        } else if !paragraph.steps.is_empty() {
            lines.push("---".to_owned());
            player.play(paragraph, written, |step, written, reply| match written {
                Some(written) if step.is_pattern && fits(step, &written.lines, reply) => {
                    lines.extend(written.lines.clone());
                }
                Some(written) => {
                    if step.is_pattern {
                        problems.push(difference(script, step, written, reply));
                    }
                    lines.extend(reply.lines());
                }
                None => {
                    if step.is_pattern {
                        let line = step.line_number;
                        problems.push(format!(
                            "testscripts/{}.txt:{line}: turn its reply into a pattern",
                            script.name
                        ));
                    }
                    lines.extend(reply.lines());
                }
            })?;
        }
        paragraphs.push(lines.join("\n") + "\n");
    }
    Ok((paragraphs.join("\n"), problems))
}

fn fits(step: &Step, written: &[String], reply: &Reply) -> bool {
    let (written, line) = (joined(written), reply.line());
    if step.is_pattern { matches_pattern(&written, &line) } else { written == line }
}

/// Lines of a reply as one, as [`Reply::line`] writes it.
fn joined(lines: &[String]) -> String {
    let mut text = String::new();
    for line in lines.iter().map(|line| line.trim()) {
        let is_first_or_last = text.is_empty() || text.ends_with(['[', '{']) || line.starts_with([']', '}']);
        if !is_first_or_last {
            text.push(' ');
        }
        text.push_str(line);
    }
    text
}

/// True if the text is the pattern with something in place of each `*`.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().expect("a split has at least one part");
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn difference(script: &Script, step: &Step, written: &WrittenReply, reply: &Reply) -> String {
    format!(
        "testscripts/{}.txt:{}: {}\n  written: {}\n  replied: {}",
        script.name,
        written.line_number,
        step.text,
        joined(&written.lines),
        reply.line()
    )
}

/// The connections and saved values of a script in play.
struct Player {
    address: String,
    clients: HashMap<String, Client>,
    saved: Vec<(String, Vec<u8>)>,
    /// Connections whose reply to `@async` was not awaited yet.
    waiting: HashSet<String>,
}

impl Player {
    /// A player without connections; the server has no data.
    fn new(address: &str) -> Player {
        Player {
            address: address.to_owned(),
            clients: HashMap::new(),
            saved: Vec::new(),
            waiting: HashSet::new(),
        }
    }

    /// Plays a paragraph, giving each reply and the written one to `check`.
    fn play(
        &mut self,
        paragraph: &Paragraph,
        written: &[WrittenReply],
        mut check: impl FnMut(&Step, Option<&WrittenReply>, &Reply),
    ) -> Result<(), String> {
        let mut written = written.iter();
        let mut is_resp3 = false;
        for step in &paragraph.steps {
            is_resp3 |= matches!(step.action, Action::Resp3);
            let expected = if step.has_reply() { written.next() } else { None };
            let reply = self.take(step, expected);
            if let Some(reply) =
                reply.map_err(|error| format!("line {}: {}: {error}", step.line_number, step.text))?
            {
                check(step, expected, &reply);
            }
        }
        if is_resp3 {
            self.client("main")
                .and_then(|main| main.ask(&["HELLO", "2"]))
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Does one step; its reply, if it has one.
    fn take(&mut self, step: &Step, expected: Option<&WrittenReply>) -> std::io::Result<Option<Reply>> {
        match &step.action {
            Action::Command(line) if step.eventually => {
                let started = Instant::now();
                loop {
                    let reply = self.ask(step, line)?;
                    let is_late = started.elapsed() > EVENTUALLY_LIMIT;
                    if is_late || expected.is_some_and(|written| fits(step, &written.lines, &reply)) {
                        return Ok(Some(reply));
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            Action::Command(line) => self.ask(step, line).map(Some),
            Action::Raw(bytes) => {
                let client = self.client(&step.connection)?;
                client.send_raw(bytes)?;
                client.receive().map(|reply| Some(reply.ordered(step.order)))
            }
            Action::Await => {
                self.waiting.remove(&step.connection);
                let reply = self.client(&step.connection)?.receive()?;
                Ok(Some(reply.ordered(step.order)))
            }
            Action::Async(line) => self.send_and_see_held(step, line).map(|()| None),
            Action::Resp3 => self.client("main")?.ask(&["HELLO", "3"]).map(|_| None),
            Action::Sleep(time) => {
                std::thread::sleep(*time);
                Ok(None)
            }
            Action::Close => {
                self.clients.remove(&step.connection);
                self.waiting.remove(&step.connection);
                Ok(None)
            }
        }
    }

    fn ask(&mut self, step: &Step, line: &str) -> std::io::Result<Reply> {
        let mut last = Reply::Closed;
        for turn in 0..step.repeat {
            let words = self.words(line, turn);
            last = self.client(&step.connection)?.ask(&words)?;
        }
        if let Some(name) = &step.save {
            let value = match &last {
                Reply::Bulk(bytes) => bytes.clone(),
                Reply::Integer(text) | Reply::Simple(text) => text.clone().into_bytes(),
                other => other.line().into_bytes(),
            };
            self.saved.retain(|(saved, _)| saved != name);
            self.saved.push((name.clone(), value));
        }
        Ok(last.ordered(step.order))
    }

    /// Sends without waiting for the reply, and continues when the server has seen the command: it answers,
    /// or it counts one more blocked client. A command after one that waits is seen later, at an unknown
    /// time.
    fn send_and_see_held(&mut self, step: &Step, line: &str) -> std::io::Result<()> {
        let words = self.words(line, 0);
        let before = self.blocked_clients()?;
        self.client(&step.connection)?.send(&words)?;
        if !self.waiting.insert(step.connection.clone()) {
            return Ok(());
        }
        let started = Instant::now();
        while started.elapsed() < HELD_LIMIT {
            if self.client(&step.connection)?.has_answer()? || self.blocked_clients()? > before {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let problem = "the server neither answers nor counts one more in blocked_clients of INFO";
        Err(std::io::Error::new(std::io::ErrorKind::TimedOut, problem))
    }

    fn blocked_clients(&mut self) -> std::io::Result<usize> {
        let info = match self.client("(watch)")?.ask(&["INFO", "clients"])? {
            Reply::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            other => other.line(),
        };
        let count = info.lines().find_map(|line| line.strip_prefix("blocked_clients:")?.trim().parse().ok());
        count.ok_or_else(|| std::io::Error::other("INFO clients shows no blocked_clients"))
    }

    /// The words of a command with saved values and the turn of `@repeat` in place.
    fn words(&self, line: &str, turn: usize) -> Vec<Vec<u8>> {
        let mut words = words::split(line).expect("the line was split before, when the script was read");
        let turn = ("i".to_owned(), turn.to_string().into_bytes());
        for (name, value) in self.saved.iter().chain([&turn]) {
            let hole = format!("{{{name}}}").into_bytes();
            for word in &mut words {
                while let Some(at) = word.windows(hole.len()).position(|window| window == hole) {
                    word.splice(at..at + hole.len(), value.iter().copied());
                }
            }
        }
        words
    }

    /// The connections with bytes that are no reply to anything, which are closed. One that awaits the reply
    /// to `@async` may have it already.
    fn unread(&mut self) -> Result<Vec<String>, String> {
        let mut unread = Vec::new();
        for (name, client) in &self.clients {
            if !self.waiting.contains(name) && client.has_unread().map_err(|error| error.to_string())? {
                unread.push(name.clone());
            }
        }
        unread.iter().for_each(|name| drop(self.clients.remove(name)));
        unread.sort();
        Ok(unread)
    }

    fn client(&mut self, name: &str) -> std::io::Result<&mut Client> {
        if !self.clients.contains_key(name) {
            self.clients.insert(name.to_owned(), Client::connect(&self.address)?);
        }
        Ok(self.clients.get_mut(name).expect("it was put there just now"))
    }
}
