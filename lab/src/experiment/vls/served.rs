//! The paper's load, over a server process and in this process: ten writers at an attempted rate, and a
//! thread and a connection for each query.
//!
//! ```text
//!   this process    writers: sleep ── HSET ── sleep ── HSET …   each at its intended moment
//!   load's core     queries: SQL ─────── waits ──────── SQL …   a connection each
//!   the server      worker ┈ HSET ┈ HSET …    threads of SQL ┈ a part of a query ┈ a part …
//! ```
//!
//! The server keeps off the generator's core, except the threads of SQL, which give way to all others. So the
//! writers sleep: writers that poll the clock would leave the queries nothing.

use rand::rngs::SmallRng;
use tarn_resp::client::{self, Client};
use tempfile::TempDir;

use super::cell::{Cell, Figures, Variant};
use super::measure::{self, Running, Subject, Turn, in_turns};
use super::references::{self, PATIENCE};
use super::store::{self, Store, Update};
use crate::error::Result;
use crate::server::{self, Persistence, Product, Server, Subject as OnTrial};
use crate::setting::Setting;

/// Updates alone and beside queries, by turns: of the engine in this process, and of Tarn as a server if it
/// is among those on trial.
pub(super) fn measure(store: &Store, setting: &Setting, cell: &Cell) -> Result<Figures> {
    let tarn = setting.servers.iter().find(|own| own.product == Product::Tarn);
    let served = tarn.map(|subject| Served::start(subject, setting, cell)).transpose()?;
    let mut variants = vec![Variant::None, Variant::Live, Variant::Vls];
    if served.is_some() {
        variants.extend([Variant::ServedNone, Variant::Served]);
    }
    let goes_on = |round| round < setting.repeats();
    in_turns(&variants, goes_on, |variant, round| match (&served, variant) {
        (Some(served), Variant::ServedNone) => Turn::new(served, setting, cell, 0, true).run(round),
        (Some(served), Variant::Served) => Turn::new(served, setting, cell, cell.queries, true).run(round),
        _ => measure::turn(store, setting, cell, variant, round),
    })
}

/// A server with the records, and the query.
struct Served {
    server: Server,
    _dir: TempDir,
    sql: String,
    /// The number that the query answers.
    expected: u64,
}

impl Served {
    fn start(subject: &OnTrial, setting: &Setting, cell: &Cell) -> Result<Served> {
        let (mut plan, _dir) = setting.plan_of(subject, Persistence::None)?;
        setting.keep_off_the_generator(&mut plan);
        plan.sql_port = server::free_port()?;
        let server = plan.start()?;
        references::fill(&server, cell, setting.seed)?;
        let mut client = Client::connect(server.address(), PATIENCE)?;
        references::declare(&mut client)?;
        let mut sql = "SELECT count(f5) FROM record".to_owned();
        let expected = cell.records * u64::from(cell.share_percent) / 100;
        if !cell.is_full() {
            client.call(&["SQL", "CREATE INDEX ON record (f0)"])?;
            references::wait_for_index(&mut client)?;
            sql += &format!(" WHERE f0 >= {}", cell.records - expected);
        }
        Ok(Served { server, _dir, sql, expected })
    }
}

impl Subject for Served {
    fn begin(&self) -> Result<Running<'_>> {
        let mut client = Client::connect(self.server.address(), PATIENCE)?;
        Ok(Box::new(move || {
            let counted = references::number_of(&mut client, &self.sql)?;
            // No update removes a record or moves one in the index.
            references::check("a query beside updates", counted, self.expected)?;
            Ok((counted, false))
        }))
    }

    fn writer(&self, _: usize) -> impl Update {
        ByProtocol { served: self, client: None }
    }

    fn writer_cores<'s>(&self, setting: &'s Setting) -> &'s [usize] {
        &setting.load_cores
    }

    /// A server does not tell.
    fn kept(&self) -> u64 {
        0
    }

    fn left(&self) -> u64 {
        0
    }
}

/// A client that updates, one request at a time. It connects with its first one, which is not measured.
struct ByProtocol<'s> {
    served: &'s Served,
    client: Option<Client>,
}

impl ByProtocol<'_> {
    fn call(&mut self, words: &[&[u8]]) -> Result<()> {
        let client = match &mut self.client {
            Some(client) => client,
            none => none.insert(Client::connect(self.served.server.address(), PATIENCE)?),
        };
        client::integer(&client.call(words)?)?;
        Ok(())
    }

    fn put(&mut self, number: u64, (field, value): (&[u8], Vec<u8>)) -> Result<()> {
        self.call(&[b"HSET", &store::key(number), field, &value])
    }
}

impl Update for ByProtocol<'_> {
    fn update(&mut self, number: u64, rng: &mut SmallRng) -> Result<()> {
        self.put(number, store::change(rng))
    }

    fn move_to(&mut self, number: u64, value: u64) -> Result<()> {
        self.put(number, store::indexed(value))
    }

    fn remove(&mut self, number: u64) -> Result<()> {
        self.call(&[b"DEL", &store::key(number)])
    }

    fn insert(&mut self, number: u64, rng: &mut SmallRng) -> Result<()> {
        store::fields(number, rng).into_iter().try_for_each(|own| self.put(number, own))
    }
}
