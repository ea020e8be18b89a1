//! A TCP connection that speaks TLS, by rustls.
//!
//! ```text
//!   socket ──one read──> the thread's buffer ──decrypted──> what the caller reads into
//!   what the caller writes ──encrypted──> records ──one write──> socket
//!                                            └─ what the socket does not take waits here
//! ```
//!
//! An idle connection keeps its session and 4 KB, or what has come of a record that is not whole: 18 KB at
//! most, 64 KB of a message of the handshake. No more is encrypted before the socket has taken the records of
//! before, so that they stay bounded.

use std::cell::RefCell;
use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::CertificateDer;
use rustls::{HandshakeKind, ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use super::keys_left::KeysLeft;

/// Bytes that are encrypted at once, at most; rustls keeps no more.
const WRITE_BYTES_MAX: usize = 64 << 10;
/// Bytes read from the socket at once, at most.
const READ_BYTES_MAX: usize = 64 << 10;
/// Bytes of a record that may have come before: they are decrypted with what is read next.
const RECORD_BYTES_MAX: usize = 18 << 10;
/// Bytes that are read at once however little room the caller has.
const READ_BYTES_MIN: usize = 4 << 10;
/// Reads without a byte for the caller before others have their turn: who sends empty records costs no more.
const READS_MAX: usize = 16;

thread_local! {
    /// Where records are read into. Nothing stays in it: what is no whole record yet is in the session.
    static RECORDS: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES_MAX].into_boxed_slice());
}

/// A TCP connection that speaks TLS. Dropped, it says goodbye if the socket has room.
#[derive(Debug)]
pub struct Encrypted {
    socket: TcpStream,
    session: ServerConnection,
    /// Bytes of the caller whose records the socket has not taken whole.
    unsent: usize,
    keys: KeysLeft,
    /// Records have come since the session's buffer for them was made small.
    has_read: bool,
}

impl Encrypted {
    /// The server's end, before the handshake.
    pub fn new(socket: TcpStream, config: Arc<ServerConfig>) -> io::Result<Encrypted> {
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Encrypted { socket, session, unsent: 0, keys: KeysLeft::UNLIMITED, has_read: false })
    }

    /// The socket below it.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The certificate that the client has shown, which was verified; `None`: it has shown none.
    pub fn client_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.session.peer_certificates().and_then(<[_]>::first)
    }

    /// Whether the handshake resumed a session.
    pub fn has_resumed(&self) -> bool {
        self.session.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Goes on with the handshake until it is done.
    pub fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if !self.poll_sent(cx)? {
                return Poll::Pending;
            }
            if !self.session.is_handshaking() {
                self.keys = KeysLeft::of(&self.session);
                self.has_read = true;
                return Poll::Ready(Ok(()));
            }
            let read = self.session.read_tls(&mut Reading { socket: &mut self.socket, cx: &mut *cx });
            match read {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => self.process()?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Whether its keys have encrypted nearly all that they may: it is to end. Nothing more is read from it.
    pub fn is_worn(&self) -> bool {
        self.keys.is_low()
    }

    /// Reads what there is; `buf` stays as it was at the end of the stream, and once this is worn.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.is_worn() {
            return Poll::Ready(Ok(()));
        }
        for _ in 0..READS_MAX {
            if self.take_decrypted(buf)? {
                return Poll::Ready(Ok(()));
            }
            // Alerts about what came. The socket wakes this task for either.
            self.poll_sent(cx)?;
            if self.read_records(cx, buf)?.is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes what is decrypted. Whether there was something, or this is the end of the stream.
    fn take_decrypted(&mut self, buf: &mut ReadBuf<'_>) -> io::Result<bool> {
        match self.session.reader().read(buf.initialize_unfilled()) {
            Ok(len) => {
                buf.advance(len);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(!buf.filled().is_empty()),
            // Many clients close the socket alone. Requests say themselves where they end.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Reads from the socket once, and decrypts into `buf`; what does not fit waits in the session.
    fn read_records(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> io::Result<Poll<()>> {
        RECORDS.with_borrow_mut(|records| {
            let room = buf.remaining().saturating_sub(RECORD_BYTES_MAX);
            let mut read = ReadBuf::new(&mut records[..room.clamp(READ_BYTES_MIN, READ_BYTES_MAX)]);
            match Pin::new(&mut self.socket).poll_read(cx, &mut read) {
                Poll::Pending => {
                    self.shrink();
                    return Ok(Poll::Pending);
                }
                Poll::Ready(outcome) => outcome?,
            }
            self.has_read = true;
            let mut bytes = read.filled();
            loop {
                // At the end of the socket's stream it is told so.
                if self.session.read_tls(&mut bytes)? == 0 {
                    break;
                }
                self.process()?;
                if bytes.is_empty() {
                    break;
                }
                if buf.remaining() > 0 {
                    self.take_decrypted(buf)?;
                }
            }
            Ok(Poll::Ready(()))
        })
    }

    /// Has the session give back the buffer that its last records needed: it does so when it is about to
    /// read.
    fn shrink(&mut self) {
        if std::mem::take(&mut self.has_read) {
            // There is nothing. If it must not read now, it says so again when there is.
            let _ = self.session.read_tls(&mut Nothing);
        }
    }

    /// Decrypts what was read. A fault of the client is told to it.
    fn process(&mut self) -> io::Result<()> {
        if let Err(error) = self.session.process_new_packets() {
            let _ = self.flush();
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Ok(())
    }

    /// Encrypts and writes as much as there is room for, at once.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.flush()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let bytes = &bytes[..bytes.len().min(WRITE_BYTES_MAX)];
        if !self.keys.take(bytes.len()) {
            // rustls would drop them, and say nothing.
            return Err(io::Error::other("the keys of the connection may encrypt no more"));
        }
        let len = self.session.writer().write(bytes)?;
        if len == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.unsent = len;
        self.flush()?;
        Ok(len)
    }

    /// Sends the records that wait. Whether all of them have left.
    pub fn flush(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut Writing(&self.socket)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.unsent = 0;
        Ok(true)
    }

    /// The same, and has the task woken when there is room for more.
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        loop {
            if self.flush()? {
                return Ok(true);
            }
            match self.socket.poll_write_ready(cx) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => return Ok(false),
            }
        }
    }

    /// Bytes of the caller whose records the socket has not taken whole.
    pub fn unsent_bytes(&self) -> usize {
        self.unsent
    }
}

impl Drop for Encrypted {
    fn drop(&mut self) {
        self.session.send_close_notify();
        // A client that does not read it learns it from the socket.
        let _ = self.flush();
    }
}

/// Reads from the socket, and has the task woken if there is nothing.
struct Reading<'a, 'cx> {
    socket: &'a mut TcpStream,
    cx: &'a mut Context<'cx>,
}

impl Read for Reading<'_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut read = ReadBuf::new(bytes);
        match Pin::new(&mut *self.socket).poll_read(self.cx, &mut read) {
            Poll::Ready(outcome) => outcome.map(|()| read.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// Has nothing to read yet.
struct Nothing;

impl Read for Nothing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// Writes what the socket has room for.
struct Writing<'a>(&'a TcpStream);

impl Write for Writing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::future::poll_fn;
    use std::net::TcpStream as StdStream;
    use std::task::Waker;
    use std::thread::JoinHandle;

    use rustls::crypto::ring;
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
    use rustls::version::TLS12;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
    use tokio::net::TcpListener;

    /// A client's end.
    type Client = StreamOwned<ClientConnection, StdStream>;

    /// The rules of a server and of a client for this version of TLS.
    fn rules(version: &'static SupportedProtocolVersion) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let certificate = made.cert.der().clone();
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .expect("a version")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .expect("a pair");
        let mut roots = RootCertStore::empty();
        roots.add(certificate).expect("an authority");
        let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .expect("a version")
            .with_root_certificates(roots)
            .with_no_client_auth();
        (Arc::new(server), Arc::new(client))
    }

    /// A server's end after the handshake, and a client that goes on with `talk` on a thread of its own.
    async fn connected<T: Send + 'static>(
        version: &'static SupportedProtocolVersion,
        talk: impl FnOnce(Client) -> T + Send + 'static,
    ) -> (Encrypted, JoinHandle<T>) {
        let (server, client) = rules(version);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it listens");
        let talking = std::thread::spawn(move || {
            let socket = StdStream::connect(address).expect("it listens");
            let name = ServerName::try_from("localhost").expect("a name");
            let session = ClientConnection::new(client, name).expect("a session");
            let mut client = StreamOwned::new(session, socket);
            while client.conn.is_handshaking() {
                client.conn.complete_io(&mut client.sock).expect("a handshake");
            }
            talk(client)
        });
        let (socket, _) = listener.accept().await.expect("a client");
        let mut encrypted = Encrypted::new(socket, server).expect("a session");
        poll_fn(|cx| encrypted.poll_handshake(cx)).await.expect("a handshake");
        (encrypted, talking)
    }

    #[tokio::test]
    async fn a_worn_connection_reads_no_more_and_drops_nothing_that_it_is_given() {
        let (mut server, talking) = connected(&TLS12, |mut client| {
            let mut all = Vec::new();
            client.read_to_end(&mut all).expect("it ends in order");
            all
        })
        .await;
        let mut bytes = [0; 64];
        let mut buf = ReadBuf::new(&mut bytes);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(!server.is_worn() && server.poll_read(&mut cx, &mut buf).is_pending());
        assert!(!server.keys.take(1 << 39), "they have a limit");
        // Two records more.
        server.keys = KeysLeft::within(66);
        assert!(server.is_worn());
        assert!(matches!(server.poll_read(&mut cx, &mut buf), Poll::Ready(Ok(()))));
        assert!(buf.filled().is_empty(), "as at the end of the stream");
        assert_eq!(server.try_write(b"one").expect("there is room"), 3);
        assert_eq!(server.try_write(b"two").expect("there is room"), 3);
        assert!(server.try_write(b"three").is_err(), "rustls would say that it has sent it");
        drop(server);
        assert_eq!(talking.join().expect("it goes well"), b"onetwo");
    }
}
