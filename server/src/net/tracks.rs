//! The way in which a client wants to be told that keys have changed (`CLIENT TRACKING`).

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Options of `CLIENT TRACKING`, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackFlags(pub u8);

impl TrackFlags {
    /// It tracks keys.
    pub const ON: TrackFlags = TrackFlags(1);
    /// It is told of all keys with its prefixes, and nobody remembers what it has read.
    pub const BCAST: TrackFlags = TrackFlags(1 << 1);
    /// Only the keys that it reads right after `CLIENT CACHING YES` are remembered.
    pub const OPTIN: TrackFlags = TrackFlags(1 << 2);
    /// The keys that it reads right after `CLIENT CACHING NO` are not remembered.
    pub const OPTOUT: TrackFlags = TrackFlags(1 << 3);
    /// It is not told of its own changes.
    pub const NOLOOP: TrackFlags = TrackFlags(1 << 4);
    /// The client that is told in its stead has gone.
    pub const BROKEN: TrackFlags = TrackFlags(1 << 5);
    /// `CLIENT CACHING` was said for the next command.
    pub const CACHING: TrackFlags = TrackFlags(1 << 6);

    /// Whether all flags of `other` are in this set.
    pub const fn has(self, other: TrackFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union.
    pub const fn with(self, other: TrackFlags) -> TrackFlags {
        TrackFlags(self.0 | other.0)
    }

    /// Whether what the client reads now is remembered.
    pub const fn remembers(self) -> bool {
        let is_said = self.has(TrackFlags::CACHING);
        self.has(TrackFlags::ON)
            && !self.has(TrackFlags::BCAST)
            && (is_said || !self.has(TrackFlags::OPTIN))
            && !(is_said && self.has(TrackFlags::OPTOUT))
    }
}

/// How a client tracks keys, as all threads see it. Its own thread switches it; others only note that who is
/// told in its stead has gone.
#[derive(Debug, Default)]
pub struct Tracks {
    flags: AtomicU8,
    redirect: AtomicU64,
}

impl Tracks {
    /// The flags; none if it does not track.
    #[inline]
    pub fn flags(&self) -> TrackFlags {
        TrackFlags(self.flags.load(Ordering::Relaxed))
    }

    /// Whether it tracks.
    pub fn is_on(&self) -> bool {
        self.flags().has(TrackFlags::ON)
    }

    /// Whose id is told in its stead; 0: none.
    pub fn redirect(&self) -> u64 {
        self.redirect.load(Ordering::Relaxed)
    }

    /// Sets how it tracks; no flags: not at all.
    pub fn set(&self, flags: TrackFlags, redirect: u64) {
        self.redirect.store(redirect, Ordering::Relaxed);
        self.flags.store(flags.0, Ordering::Relaxed);
    }

    /// Sets a flag, or takes it away.
    pub fn set_flag(&self, flag: TrackFlags, holds: bool) {
        if holds {
            self.flags.fetch_or(flag.0, Ordering::Relaxed);
        } else {
            self.flags.fetch_and(!flag.0, Ordering::Relaxed);
        }
    }
}
