//! A socket that refuses messages that are too long, and messages with missing parts (`forms.rs`). The
//! library would buffer up to 1 GB of the first kind before a client has shown a password, and panic on the
//! second.
//!
//! ```text
//!   start-up:  | length: 4 | code: 4 | …      then:  | type: 1 | length: 4 | …
//! ```

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::forms::{Form, Kind};

/// Bytes of a message before the client may ask anything.
const STARTING_BYTES_MAX: usize = 10_000;
/// Bytes of a message.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Bytes before the rest of a start-up message: its length and what it wants.
const UNTYPED_HEAD: usize = 8;
/// Bytes before the rest of any other: its type and its length.
const TYPED_HEAD: usize = 5;
/// The codes of requests before a start-up message: for encryption, in two ways.
const ENCRYPTION_CODES: [u32; 2] = [80_877_103, 80_877_104];
/// The code of a cancel request, which comes instead of one.
const CANCEL_CODE: u32 = 80_877_102;

/// Bytes of an encrypted write: a record's.
const RECORD_BYTES: usize = 16 << 10;
/// Encrypted writes of a connection whose keys are never renewed. One is two records at most, and rustls
/// drops what comes after 2^24 of them, without an error.
const WORN_AFTER: u64 = 1 << 22;

/// How long a message may be now, and which answer a question for a password has.
#[derive(Clone, Debug, Default)]
pub(super) struct Bound(Arc<Expected>);

#[derive(Debug)]
struct Expected {
    bytes_max: AtomicUsize,
    /// The client sends its password as it is.
    password: AtomicBool,
}

impl Default for Expected {
    fn default() -> Expected {
        Expected { bytes_max: AtomicUsize::new(STARTING_BYTES_MAX), password: AtomicBool::new(false) }
    }
}

impl Bound {
    /// The client may ask from now on.
    pub(super) fn widen(&self) {
        self.0.bytes_max.store(MESSAGE_BYTES_MAX, Ordering::Relaxed);
    }

    /// The client is asked to send its password.
    pub(super) fn expect_password(&self) {
        self.0.password.store(true, Ordering::Relaxed);
    }

    /// Whether the client was asked to send its password.
    pub(super) fn expects_password(&self) -> bool {
        self.0.password.load(Ordering::Relaxed)
    }
}

/// A socket of a client.
pub(super) struct Bounded<S> {
    inner: S,
    bound: Bound,
    heads: Heads,
    /// How long a client may take nothing of what it has asked for: what is read for it lasts that long.
    patience: Duration,
    /// Ends the wait for a client that takes nothing now.
    waits: Option<Pin<Box<Sleep>>>,
    /// Writes that its keys may still encrypt, if they are never renewed.
    writes_left: Option<u64>,
}

impl<S> Bounded<S> {
    /// A socket of which nothing was read yet.
    pub(super) fn new(inner: S, bound: Bound, patience: Duration) -> Bounded<S> {
        Bounded { inner, bound, heads: Heads::default(), patience, waits: None, writes_left: None }
    }

    /// The same, encrypted by keys that are never renewed: those of TLS 1.2.
    pub(super) fn with_one_key(self) -> Bounded<S> {
        Bounded { writes_left: Some(WORN_AFTER), ..self }
    }

    /// The socket itself.
    pub(super) fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The socket alone.
    pub(super) fn into_inner(self) -> S {
        self.inner
    }

    /// Gives up a client that has taken nothing for too long.
    fn unless_stalled<T>(
        &mut self,
        polled: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waits = None;
            return polled;
        }
        let patience = self.patience;
        let waits = self.waits.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(waits.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing of its answer")))
    }
}

/// Finds the heads of messages.
#[derive(Default)]
struct Heads {
    /// Whether messages begin with a type, as all do after the start.
    typed: bool,
    head: [u8; UNTYPED_HEAD],
    /// Bytes of the head so far.
    have: usize,
    /// Bytes of the message after its head that are still to come.
    left: usize,
    /// The form that they must have; `None` if no message has begun.
    form: Option<Form>,
    /// Whether a message has come that answers the question for a password.
    has_proof: bool,
    /// Whether that answer is the password itself.
    is_password: bool,
}

impl Heads {
    /// Looks at the next bytes; an error if they begin a message of more than `most` bytes, or if one is not
    /// what it says it is.
    fn look(&mut self, mut bytes: &[u8], most: usize) -> io::Result<()> {
        while !bytes.is_empty() {
            let (body, behind) = bytes.split_at(self.left.min(bytes.len()));
            self.left -= body.len();
            self.check(body)?;
            bytes = behind;
            let wanted = if self.typed { TYPED_HEAD } else { UNTYPED_HEAD };
            let taken = (wanted - self.have).min(bytes.len());
            self.head[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken;
            bytes = &bytes[taken..];
            if self.have == wanted {
                self.begin(wanted, most)?;
                self.check(&[])?;
            }
        }
        Ok(())
    }

    /// Looks at the next bytes of a body.
    fn check(&mut self, body: &[u8]) -> io::Result<()> {
        let Some(form) = &mut self.form else { return Ok(()) };
        if !form.look(body) || self.left == 0 && !form.is_whole() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "invalid message format"));
        }
        if self.left == 0 {
            self.form = None;
        }
        Ok(())
    }

    /// The kind of the message whose head has come.
    fn kind(&mut self) -> Option<Kind> {
        if self.typed {
            let is_answer = self.head[0] == b'p' && !std::mem::replace(&mut self.has_proof, true);
            return Some(match self.head[0] {
                _ if is_answer && self.is_password => Kind::Password,
                _ if is_answer => Kind::Proof,
                other => Kind::Of(other),
            });
        }
        match self.head[4..].try_into().map_or(0, u32::from_be_bytes) {
            code if ENCRYPTION_CODES.contains(&code) => None,
            CANCEL_CODE => Some(Kind::Cancel),
            version => Some(Kind::Start(version)),
        }
    }

    /// A message begins.
    fn begin(&mut self, head: usize, most: usize) -> io::Result<()> {
        let word = |at: usize| self.head[at..at + 4].try_into().map_or(0, u32::from_be_bytes);
        let (length, behind) = if self.typed { (word(1), head - 1) } else { (word(0), head) };
        let length = length as usize;
        if length < behind || length > most {
            let said = format!("a message of {length} bytes, where at most {most} are taken");
            return Err(io::Error::new(io::ErrorKind::InvalidData, said));
        }
        let asks_encryption = ENCRYPTION_CODES.contains(&word(4)) && !self.typed;
        if let Some(kind) = self.kind() {
            let unknown = || io::Error::new(io::ErrorKind::InvalidData, "invalid frontend message type");
            self.form = Some(Form::of(kind).ok_or_else(unknown)?);
        }
        self.left = length - behind;
        self.have = 0;
        self.typed |= !asks_encryption;
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if let Poll::Ready(Ok(())) = polled {
            let most = self.bound.0.bytes_max.load(Ordering::Relaxed);
            self.heads.is_password = self.bound.expects_password();
            self.heads.look(&buffer.filled()[before..], most)?;
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let bytes = match self.writes_left {
            None => bytes,
            Some(0) => {
                tracing::warn!(
                    "closing a client of SQL: it has got as much as one key of TLS 1.2 may encrypt"
                );
                return Poll::Ready(Err(io::Error::other("the keys of the connection may encrypt no more")));
            }
            Some(_) => &bytes[..bytes.len().min(RECORD_BYTES)],
        };
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        if let (Poll::Ready(Ok(_)), Some(left)) = (&polled, &mut self.writes_left) {
            *left -= 1;
        }
        self.unless_stalled(polled, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        self.unless_stalled(polled, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of text.
    fn message(kind: u8, body: usize) -> Vec<u8> {
        let mut bytes = vec![kind];
        bytes.extend((body as u32 + 4).to_be_bytes());
        bytes.resize(bytes.len() + body - 1, b'x');
        bytes.push(0);
        bytes
    }

    /// The bytes that a client sends at its start: a request for encryption, and its name.
    fn start() -> Vec<u8> {
        let mut bytes = [8u32.to_be_bytes(), ENCRYPTION_CODES[0].to_be_bytes()].concat();
        bytes.extend(20u32.to_be_bytes());
        bytes.extend(196_608u32.to_be_bytes());
        bytes.extend(b"user\0someb\0\0");
        bytes
    }

    #[test]
    fn messages_up_to_the_bound_pass_however_they_are_cut() {
        let mut all = start();
        (1..50).for_each(|body| all.extend(message(b'Q', body * 7)));
        for pieces in 1..40 {
            let mut heads = Heads::default();
            assert!(all.chunks(pieces).all(|piece| heads.look(piece, 400).is_ok()), "pieces of {pieces}");
            assert!(heads.look(&message(b'Q', 397), 400).is_err());
        }
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_given_up() {
        use tokio::io::AsyncWriteExt;
        let (near, _far) = tokio::io::duplex(10);
        let mut bounded = Bounded::new(near, Bound::default(), Duration::from_millis(50));
        let error = bounded.write_all(&[0; 100]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn keys_that_are_never_renewed_encrypt_only_so_much() {
        use tokio::io::AsyncWriteExt;
        let (near, _far) = tokio::io::duplex(1 << 20);
        let mut bounded = Bounded::new(near, Bound::default(), Duration::from_secs(60)).with_one_key();
        assert_eq!(bounded.writes_left, Some(WORN_AFTER));
        bounded.writes_left = Some(3);
        assert_eq!(bounded.write(&[0; 3 * RECORD_BYTES]).await.expect("there is room"), RECORD_BYTES);
        assert!(bounded.write_all(&[0; 2 * RECORD_BYTES]).await.is_ok());
        assert!(bounded.write(&[0]).await.is_err(), "rustls would drop it");
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        for head in [[0, 0, 0, 3, 0, 0, 0, 0], [255; 8], [0, 0, 39, 17, 0, 3, 0, 0]] {
            assert!(Heads::default().look(&head, STARTING_BYTES_MAX).is_err(), "{head:?}");
        }
        let mut heads = Heads::default();
        assert!(heads.look(&start(), STARTING_BYTES_MAX).is_ok());
        assert!(heads.look(b"Q\0\0\0\x03", STARTING_BYTES_MAX).is_err());
    }

    #[test]
    fn messages_whose_parts_are_not_there_are_refused() {
        let started = || {
            let mut heads = Heads::default();
            assert!(heads.look(&start(), 400).is_ok());
            heads
        };
        // A text without its end would continue in the next message.
        for message in [
            &b"Q\0\0\0\x05x"[..],
            b"Q\0\0\0\x04",
            b"Q\0\0\0\x07x\0x",
            b"P\0\0\0\x06\0\0",
            b"B\0\0\0\x0c\0\0\0\0\0\x01\0\0",
            b"S\0\0\0\x05x",
            b"p\0\0\0\x0bnot it\0",
            b"!\0\0\0\x04",
        ] {
            assert!(started().look(message, 400).is_err(), "{}", message.escape_ascii());
        }
        let mut heads = started();
        let first = b"p\0\0\0\x17SCRAM-SHA-256\0\0\0\0\x01nS\0\0\0\x04";
        assert!(heads.look(first, 400).is_ok());
        assert!(heads.look(b"p\0\0\0\x0cany text", 400).is_ok());
        let short = [&12_u32.to_be_bytes()[..], &CANCEL_CODE.to_be_bytes(), &[0; 4]].concat();
        assert!(Heads::default().look(&short, 400).is_err());
    }
}
