//! Limits on the memory that a client may ask of the decoder's caller, with the names and defaults of Redis
//! 7.0.

/// Longest line that names no length yet: an inline command, or the count after `*` or `$`; in bytes.
pub(super) const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Most arguments a client may send before it has authenticated, where authentication is asked for.
pub(super) const UNAUTHENTICATED_ARGS_MAX: u32 = 10;

/// Longest argument a client may send before it has authenticated, in bytes.
pub(super) const UNAUTHENTICATED_BULK_BYTES_MAX: u64 = 16 * 1024;

/// The configurable limits of a [`RequestDecoder`](super::RequestDecoder).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest argument, in bytes (`proto-max-bulk-len`, 512 MiB).
    pub proto_max_bulk_len: u64,
    /// Longest request, in bytes (`client-query-buffer-limit`, 1 GiB). Requests of 4 GiB and more are refused
    /// whatever is set here, because the decoder counts in 32 bits.
    pub client_query_buffer_limit: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { proto_max_bulk_len: 512 << 20, client_query_buffer_limit: 1 << 30 }
    }
}

impl Limits {
    /// Longest request that may be decoded, in bytes: its offsets fit 32 bits.
    #[inline]
    pub(super) fn request_bytes_max(&self) -> usize {
        self.client_query_buffer_limit.min(u64::from(u32::MAX)) as usize
    }
}
