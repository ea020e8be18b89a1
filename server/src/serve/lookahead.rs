//! Looking ahead in a pipeline, so that the processor fetches the entries of several requests side by side.
//!
//! Running a request on a large table waits for memory two or three times, and the latches in between keep
//! the processor from beginning the next request meanwhile. So the first keys of the next few requests are
//! looked for side by side before; what that brings into the cache is there when the requests run. It changes
//! nothing and may skip what it likes.

use tarn_engine::KeyHash;
use tarn_engine::session::Session;
use tarn_resp::{Limits, RequestDecoder};

/// Requests looked at in a row: as many cache misses as a core can have under way.
const REQUESTS: usize = 16;

/// Looks ahead in the input of one connection after the other.
pub(super) struct Lookahead {
    decoder: RequestDecoder,
    found: Vec<KeyHash>,
}

impl Default for Lookahead {
    fn default() -> Lookahead {
        Lookahead { decoder: RequestDecoder::new(Limits::default()), found: Vec::with_capacity(REQUESTS) }
    }
}

impl Lookahead {
    /// Fetches the entries of the first keys of the requests that `bytes` begins with. Returns for how many
    /// requests that will do.
    pub(super) fn fetch(&mut self, session: &Session<'_>, db: u8, bytes: &[u8]) -> usize {
        if !session.is_beyond_cache(db) {
            return usize::MAX;
        }
        self.decoder.reset();
        self.found.clear();
        let (mut at, mut requests) = (0, 0);
        while requests < REQUESTS {
            // What is wrong or incomplete, the connection's own decoder will find in its turn.
            let Ok(Some(args)) = self.decoder.decode(bytes, &mut at) else { break };
            requests += 1;
            self.found.extend(args.get(1).map(KeyHash::of));
        }
        if self.found.len() > 1 {
            session.fetch(db, self.found.iter().copied());
        }
        requests.max(1)
    }
}
