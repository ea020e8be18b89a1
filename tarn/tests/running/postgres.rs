//! A client of PostgreSQL's protocol that sends any bytes, also those that no library would send.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};

use super::LIMIT;

/// A connection.
#[derive(Debug)]
pub(crate) struct Postgres {
    pub stream: TcpStream,
    /// The number and the secret by which its statements are cancelled.
    pub key: Vec<u8>,
}

/// The answer to a statement.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Names and types of columns.
    pub columns: Vec<(String, u32)>,
    pub rows: Vec<Vec<Option<String>>>,
    /// The command tag of each statement.
    pub tags: Vec<String>,
    /// The code and the words of an error.
    pub error: Option<(String, String)>,
    /// `I`: no block, `T`: a block, `E`: one that failed; 0 if the server went away.
    pub status: u8,
}

impl Answer {
    /// The code of the error, if there is one.
    pub(crate) fn code(&self) -> &str {
        self.error.as_ref().map_or("", |(code, _)| code)
    }

    /// The rows, for comparisons.
    pub(crate) fn text(&self) -> String {
        let value = |value: &Option<String>| value.clone().unwrap_or("NULL".to_owned());
        let row = |row: &Vec<Option<String>>| row.iter().map(value).collect::<Vec<_>>().join("|");
        self.rows.iter().map(row).collect::<Vec<_>>().join("\n")
    }
}

/// The message that begins a connection.
pub(crate) fn start(parameters: &[&str]) -> Vec<u8> {
    let mut body = 196_608_u32.to_be_bytes().to_vec();
    parameters.iter().for_each(|word| body.extend([word.as_bytes(), b"\0"].concat()));
    body.push(0);
    [(body.len() as u32 + 4).to_be_bytes().to_vec(), body].concat()
}

/// A message of a kind.
pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// The messages that prepare, bind and run a statement without names.
pub(crate) fn extended(
    sql: &str,
    types: &[u32],
    formats: &[i16],
    values: &[Option<Vec<u8>>],
    results: &[i16],
) -> Vec<u8> {
    let shorts = |numbers: &[i16]| -> Vec<u8> {
        let count = (numbers.len() as i16).to_be_bytes().to_vec();
        numbers.iter().fold(count, |bytes, number| [bytes, number.to_be_bytes().to_vec()].concat())
    };
    let mut parse = [b"\0", sql.as_bytes(), b"\0", &(types.len() as i16).to_be_bytes()[..]].concat();
    types.iter().for_each(|oid| parse.extend(oid.to_be_bytes()));
    let mut bind = [b"\0\0".to_vec(), shorts(formats), (values.len() as i16).to_be_bytes().to_vec()].concat();
    for value in values {
        match value {
            Some(value) => bind.extend([&(value.len() as i32).to_be_bytes()[..], value].concat()),
            None => bind.extend((-1_i32).to_be_bytes()),
        }
    }
    bind.extend(shorts(results));
    let (describe, execute) = (message(b'D', b"P\0"), message(b'E', b"\0\0\0\0\0"));
    [message(b'P', &parse), message(b'B', &bind), describe, execute, message(b'S', b"")].concat()
}

impl Postgres {
    pub(crate) fn connect(port: u16) -> Postgres {
        Postgres::connect_with(port, &[])
    }

    /// As `connect`, by another address of this machine.
    pub(crate) fn connect_to(ip: IpAddr, port: u16) -> Postgres {
        Postgres::begin(TcpStream::connect((ip, port)).unwrap(), &[])
    }

    pub(crate) fn connect_with(port: u16, parameters: &[&str]) -> Postgres {
        Postgres::begin(TcpStream::connect(("127.0.0.1", port)).unwrap(), parameters)
    }

    /// Logs in as a user, with its password if it is asked for one; the code and the words of the error that
    /// it is refused with.
    pub(crate) fn log_in(port: u16, user: &str, password: &str) -> Result<Postgres, (String, String)> {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(4 * LIMIT)).unwrap();
        let mut postgres = Postgres { stream, key: Vec::new() };
        postgres.send(&start(&["user", user, "database", "tarn"]));
        match postgres.receive().unwrap() {
            (b'E', body) => return Err(error_of(&body)),
            (b'R', body) if body == 3_u32.to_be_bytes() => {
                postgres.send(&message(b'p', &[password.as_bytes(), b"\0"].concat()));
            }
            (b'R', body) if body == 0_u32.to_be_bytes() => {}
            other => panic!("it is asked for something else: {other:?}"),
        }
        let answer = postgres.answer();
        match answer.error {
            Some(error) => Err(error),
            None => Ok(postgres),
        }
    }

    fn begin(stream: TcpStream, parameters: &[&str]) -> Postgres {
        stream.set_read_timeout(Some(4 * LIMIT)).unwrap();
        let mut postgres = Postgres { stream, key: Vec::new() };
        let parameters = [&["user", "default", "database", "tarn"], parameters].concat();
        postgres.stream.write_all(&start(&parameters)).unwrap();
        let answer = postgres.answer();
        assert_eq!(answer.status, b'I', "{answer:?}");
        postgres
    }

    /// The next message of the server; `None` if it has closed the connection.
    pub(crate) fn receive(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).ok()?;
        Some((head[0], body))
    }

    /// All messages until the server is ready, or has closed the connection.
    pub(crate) fn answer(&mut self) -> Answer {
        let mut answer = Answer::default();
        while let Some((kind, body)) = self.receive() {
            match kind {
                b'T' => answer.columns = columns_of(&body),
                b'D' => answer.rows.push(values_of(&body)),
                b'C' => answer.tags.push(String::from_utf8_lossy(&body[..body.len() - 1]).into_owned()),
                b'E' => answer.error = Some(error_of(&body)),
                b'K' => self.key = body,
                b'Z' => {
                    answer.status = body[0];
                    break;
                }
                _ => {}
            }
        }
        answer
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Asks by the simple protocol.
    pub(crate) fn ask(&mut self, sql: &str) -> Answer {
        self.send(&message(b'Q', &[sql.as_bytes(), b"\0"].concat()));
        self.answer()
    }

    /// Asks by the extended protocol.
    pub(crate) fn ask_extended(&mut self, sql: &str, values: &[&str]) -> Answer {
        let values: Vec<_> = values.iter().map(|value| Some(value.as_bytes().to_vec())).collect();
        self.send(&extended(sql, &[], &[], &values, &[]));
        self.answer()
    }
}

fn columns_of(body: &[u8]) -> Vec<(String, u32)> {
    let mut columns = Vec::new();
    let mut rest = &body[2..];
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == 0).unwrap();
        let name = String::from_utf8_lossy(&rest[..end]).into_owned();
        let oid = u32::from_be_bytes(rest[end + 7..end + 11].try_into().unwrap());
        columns.push((name, oid));
        rest = &rest[end + 19..];
    }
    columns
}

fn values_of(body: &[u8]) -> Vec<Option<String>> {
    let mut values = Vec::new();
    let mut rest = &body[2..];
    while !rest.is_empty() {
        let length = i32::from_be_bytes(rest[..4].try_into().unwrap());
        let end = 4 + length.max(0) as usize;
        values.push((length >= 0).then(|| String::from_utf8_lossy(&rest[4..end]).into_owned()));
        rest = &rest[end..];
    }
    values
}

fn error_of(body: &[u8]) -> (String, String) {
    let field = |kind: u8| {
        let found = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&kind));
        found.map_or(String::new(), |field| String::from_utf8_lossy(&field[1..]).into_owned())
    };
    (field(b'C'), field(b'M'))
}
