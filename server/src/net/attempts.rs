//! Wrong passwords: counted, told in the log, and limited by the address that they come from.
//!
//! An address may be wrong some times at once, and once a second from then on; each that is wrong beyond that
//! costs the connection that it came over. A right password is accepted at once, whatever others have tried
//! from the same address: behind a proxy all clients have one, and who knows the password is not locked out
//! by who does not.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tarn_engine::lock::Mutex;

use crate::net::address::Address;
use crate::net::listen::Service;

/// Wrong passwords that an address may give at once.
const FREE: f64 = 20.0;
/// How many are forgotten in a second.
const FORGOTTEN_PER_SECOND: f64 = 1.0;
/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 4096;
/// How often the log tells of wrong passwords, at most.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// The failed attempts that are remembered.
#[derive(Debug, Default)]
pub struct Attempts {
    state: Mutex<State>,
    wrong: [AtomicU64; Service::ALL.len()],
    excessive: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    by_origin: HashMap<Origin, Record>,
    told: Option<Instant>,
    untold: u64,
}

/// Where attempts come from; none: from a Unix socket. Of an address of IPv6, its network.
type Origin = Option<IpAddr>;

#[derive(Debug)]
struct Record {
    /// Wrong passwords that were not forgotten at `seen`.
    wrong: f64,
    seen: Instant,
}

impl Record {
    fn wrong_at(&self, now: Instant) -> f64 {
        (self.wrong - now.saturating_duration_since(self.seen).as_secs_f64() * FORGOTTEN_PER_SECOND).max(0.0)
    }
}

impl Attempts {
    /// Notes a wrong password at the port of a service. Returns whether it is one too many from there: the
    /// connection is to be closed.
    pub fn note_wrong(&self, peer: &Address, service: Service) -> bool {
        let now = Instant::now();
        let is_excessive = self.note_wrong_at(origin(peer), now);
        self.excessive.fetch_add(u64::from(is_excessive), Ordering::Relaxed);
        self.wrong[service as usize].fetch_add(1, Ordering::Relaxed);
        self.tell(peer, service, now);
        is_excessive
    }

    fn tell(&self, peer: &Address, service: Service, now: Instant) {
        let mut state = self.state.lock();
        state.untold += 1;
        if state.told.is_some_and(|told| now.saturating_duration_since(told) < TOLD_EVERY) {
            return;
        }
        let count = std::mem::take(&mut state.untold);
        state.told = Some(now);
        drop(state);
        let others = if count > 1 { format!(", and {} others before", count - 1) } else { String::new() };
        tracing::warn!("A wrong password came from {peer} at the port of {}{others}", service.name());
    }

    /// Wrong passwords so far at the port of a service.
    pub fn wrong(&self, service: Service) -> u64 {
        self.wrong[service as usize].load(Ordering::Relaxed)
    }

    /// Wrong passwords so far that were too many from their address.
    pub fn excessive(&self) -> u64 {
        self.excessive.load(Ordering::Relaxed)
    }

    fn note_wrong_at(&self, origin: Origin, now: Instant) -> bool {
        let mut state = self.state.lock();
        if state.by_origin.len() >= ADDRESSES_MAX && !state.by_origin.contains_key(&origin) {
            make_room(&mut state.by_origin, now);
        }
        let record = state.by_origin.entry(origin).or_insert(Record { wrong: 0.0, seen: now });
        let wrong = record.wrong_at(now);
        // No further, or it would never be forgotten.
        *record = Record { wrong: (wrong + 1.0).min(2.0 * FREE), seen: now };
        wrong >= FREE
    }
}

/// Forgets the least important origin: one without failed attempts, or else the one with the fewest.
fn make_room(by_origin: &mut HashMap<Origin, Record>, now: Instant) {
    by_origin.retain(|_, record| record.wrong_at(now) > 0.0);
    if by_origin.len() >= ADDRESSES_MAX {
        let weight = |record: &Record| record.wrong_at(now);
        let least = by_origin.iter().min_by(|(_, a), (_, b)| weight(a).total_cmp(&weight(b)));
        if let Some(least) = least.map(|(origin, _)| *origin) {
            by_origin.remove(&least);
        }
    }
}

/// The address that a client counts by, or its network of 64 bits; `None` for those of Unix sockets.
pub(crate) fn origin(peer: &Address) -> Origin {
    let address = peer.tcp()?;
    Some(match address.ip().to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX))),
        ip => ip,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(text: &str) -> Origin {
        origin(&Address::Tcp(format!("{text}:1").parse().expect("an address")))
    }

    #[test]
    fn an_address_is_wrong_some_times_at_once_and_then_once_a_second() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let (here, there) = (from("10.0.0.1"), from("10.0.0.2"));
        assert!((0..20).all(|_| !attempts.note_wrong_at(here, now)));
        assert!(attempts.note_wrong_at(here, now) && !attempts.note_wrong_at(there, now));
        let later = now + Duration::from_secs(4);
        assert_eq!((0..20).take_while(|_| !attempts.note_wrong_at(here, later)).count(), 3);
        // The same network.
        (0..1000).for_each(|_| _ = attempts.note_wrong_at(from("[2001:db8::ffff]"), now));
        assert!(attempts.note_wrong_at(from("[2001:db8::1]"), now));
        let forgotten = now + Duration::from_secs(60);
        assert!(!attempts.note_wrong_at(from("[2001:db8::1]"), forgotten), "however many there were");
    }

    #[test]
    fn no_more_addresses_are_remembered_than_fit_and_the_worst_stay() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let worst = from("10.0.0.1");
        (0..30).for_each(|_| _ = attempts.note_wrong_at(worst, now));
        for number in 0..3 * ADDRESSES_MAX as u32 {
            attempts.note_wrong_at(Some(IpAddr::V4((0x0b00_0000 + number).into())), now);
        }
        assert!(attempts.state.lock().by_origin.len() <= ADDRESSES_MAX);
        assert!(attempts.note_wrong_at(worst, now));
    }
}
