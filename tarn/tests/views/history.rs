//! Random commands of every kind, one after the other, while up to eight views are open. Each view must have
//! the store of the moment when it was opened, by a digest.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_engine::view::{View, ViewOptions};
use tarn_engine::{END, Entry};
use tarn_server::commands::digest::{Digest, of_entry};

use super::Server;
use super::commands::{any, large};
use super::running::{Connection, eventually};

/// An open view, its expected content, and the content read so far.
struct Watched {
    view: View,
    expected: String,
    pinned: bool,
    entries: Vec<(u8, Digest)>,
}

impl Watched {
    /// Opens one; there are no writes meanwhile.
    fn open(server: &Server, client: &mut Connection, rng: &mut SmallRng) -> Watched {
        let expected = client.whole("DEBUG DIGEST");
        let pinned = rng.random_bool(0.3);
        let options = if pinned { ViewOptions::pinned("test") } else { ViewOptions::once("test") };
        Watched { view: server.view(options), expected, pinned, entries: Vec::new() }
    }

    /// Reads on; at the end compares. `false`: it is over.
    fn read_on(&mut self, about: &str) -> bool {
        let entries = &mut self.entries;
        if self.pinned {
            for db in 0..self.view.databases() as u8 {
                let mut from = Some(0);
                while let Some(at) = from {
                    let mut visit = |entry: &Entry| entries.push((db, of_entry(entry, 0, true)));
                    from = self.view.read_at(db, at..END, &mut visit).unwrap();
                }
            }
        } else if let Some(db) = self.view.next_db() {
            self.view.step(&mut |entry: &Entry| entries.push((db, of_entry(entry, 0, true)))).unwrap();
            return true;
        }
        let mut all = Digest::default();
        for db in 0..self.view.databases() as u8 {
            let mut of_db = entries.iter().filter(|(of, _)| *of == db).peekable();
            if of_db.peek().is_some() {
                all.mix(&u32::from(db).to_be_bytes());
                of_db.for_each(|(_, digest)| all.merge(digest));
            }
        }
        assert_eq!(format!("+{all}"), self.expected, "{about}, pinned {}", self.pinned);
        entries.clear();
        // One that is pinned can be read again.
        self.pinned
    }
}

/// Something that the random commands do not do: the table grows, or keys expire by themselves.
fn do_more(client: &mut Connection, rng: &mut SmallRng) {
    let number = rng.random_range(0..1_000);
    match rng.random_range(0..4) {
        0 => {
            let pairs: Vec<String> = (0..400).map(|key| format!("more:{number}:{key} {key}")).collect();
            client.whole(&format!("MSET {}", pairs.join(" ")));
        }
        1 => {
            client.whole(&format!("SET short:{number} x PX 1"));
            eventually(|| (client.ask(&format!("EXISTS short:{number}")) == ":0").then_some(()));
        }
        2 => {
            let before = client.ask("DBSIZE");
            client.whole(&format!("SET unseen:{number} x PX 1"));
            eventually(|| (client.ask("DBSIZE") == before).then_some(()));
        }
        _ => {
            client.whole(&format!("SETRANGE k5 {} changed", 100 * number));
            client.whole(&format!("APPEND k5 {}", "y".repeat(number)));
        }
    }
}

#[test]
fn a_view_has_what_the_store_had_when_it_was_opened_whatever_clients_do() {
    let seed = std::env::var("TARN_VIEWS_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    let histories = 15;
    let server = Server::start(&["--threads", "1", "--databases", "4"]);
    let mut client = server.connect();
    let mut rng = SmallRng::seed_from_u64(seed);
    let (mut opened, mut closed_early) = (0, 0);
    for history in 0..histories {
        let about = format!("TARN_VIEWS_SEED={seed}, history {history}");
        client.whole("FLUSHALL");
        client.whole("SELECT 0");
        large().iter().for_each(|command| _ = client.whole(command));
        let views_max = rng.random_range(1..=8);
        let mut views: Vec<Watched> = Vec::new();
        for step in 0..600 {
            match rng.random_range(0..20) {
                0 if views.len() < views_max => {
                    views.push(Watched::open(&server, &mut client, &mut rng));
                    opened += 1;
                }
                1 if !views.is_empty() && rng.random_bool(0.3) => {
                    views.swap_remove(rng.random_range(0..views.len()));
                    closed_early += 1;
                }
                2..6 if !views.is_empty() => {
                    let at = rng.random_range(0..views.len());
                    if !views[at].read_on(&format!("{about}, step {step}")) {
                        views.swap_remove(at);
                    }
                }
                6 => do_more(&mut client, &mut rng),
                _ => _ = client.whole(&any(&mut rng)),
            }
        }
        for mut view in views.drain(..) {
            while view.read_on(&about) && !view.pinned {}
        }
        server.assert_nothing_kept();
    }
    // Of one history, with one view at a time, all may be closed early.
    assert!(opened > closed_early, "TARN_VIEWS_SEED={seed}: some were read to the end");
}
