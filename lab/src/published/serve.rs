//! The thread that serves: one event loop, as redis-server's.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};

use super::commands::{self, Next, Service};
use super::dump;
use super::options::Settings;
use crate::error::{IoContext, Result};
use crate::interrupt;
use crate::process::Pinned;
use tarn_resp::{Limits, Protocol, RequestDecoder, Writer};
use tarn_study::paired::{SnapRow, Snapshot};

const LISTENER: Token = Token(0);
const DUMPED: Token = Token(1);
/// Tokens of connections begin here.
const FIRST: usize = 2;
/// Events that are taken at once.
const EVENTS: usize = 1024;
/// Bytes that are read at once.
const READ_BYTES: usize = 16 << 10;
/// While more than this waits to be sent, a connection's requests wait.
const OUTPUT_BYTES: usize = 1 << 20;
/// Reads of a connection before the others have their turn.
const READS_AT_MOST: usize = 16;

/// Serves until it is asked to end.
pub(super) fn serve<R: SnapRow>(settings: &Settings) -> Result<()> {
    let poll = Poll::new().doing(|| "begin an event loop".to_owned())?;
    let waker = Waker::new(poll.registry(), DUMPED).doing(|| "make a waker".to_owned())?;
    let (to_dump, snapshots) = mpsc::channel::<Snapshot<R>>();
    let (ended, dumped) = mpsc::channel();
    let service = Service::new(settings.dir.clone(), to_dump, dumped);
    std::thread::scope(|scope| {
        scope.spawn(move || dump::dump_all(settings, snapshots, ended, &waker));
        let _pinned = Pinned::to(&settings.serving_cores)?;
        // Dropping the service ends the thread that dumps.
        Loop::new(poll, settings.port, service)?.run()
    })
}

struct Loop<R: SnapRow> {
    poll: Poll,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    /// Connections that had not done all when their turn ended: there will be no event for them.
    unfinished: Vec<usize>,
    service: Service<R>,
}

impl<R: SnapRow> Loop<R> {
    fn new(poll: Poll, port: u16, service: Service<R>) -> Result<Loop<R>> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut listener = TcpListener::bind(address).doing(|| format!("listen at {address}"))?;
        let registered = poll.registry().register(&mut listener, LISTENER, Interest::READABLE);
        registered.doing(|| format!("listen at {address}"))?;
        Ok(Loop { poll, listener, connections: Vec::new(), unfinished: Vec::new(), service })
    }

    fn run(&mut self) -> Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        while !interrupt::asked() {
            let wait = (!self.unfinished.is_empty()).then_some(Duration::ZERO);
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                polled => polled.doing(|| "wait for events".to_owned())?,
            }
            for place in std::mem::take(&mut self.unfinished) {
                if self.turn(place) == Next::Shutdown {
                    return Ok(());
                }
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    DUMPED => self.service.note_dumps(),
                    Token(token) => {
                        if self.turn(token - FIRST) == Next::Shutdown {
                            return Ok(());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) {
        // Until there is none: events come at the edge.
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error)
                    if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) =>
                {
                    continue;
                }
                Err(error) => return tell!("a connection was not accepted: {error}"),
            };
            let free = self.connections.iter().position(Option::is_none);
            let place = free.unwrap_or(self.connections.len());
            let both = Interest::READABLE | Interest::WRITABLE;
            let registered = self.poll.registry().register(&mut stream, Token(FIRST + place), both);
            if registered.and_then(|()| stream.set_nodelay(true)).is_err() {
                continue;
            }
            if place == self.connections.len() {
                self.connections.push(None);
            }
            self.connections[place] = Some(Connection::new(stream));
        }
    }

    /// Reads, executes and replies. A connection that ended is dropped.
    fn turn(&mut self, place: usize) -> Next {
        let Some(connection) = &mut self.connections[place] else { return Next::Continue };
        let next = connection.turn(&mut self.service).unwrap_or(Next::Close);
        match next {
            Next::Continue => {}
            Next::Again if self.unfinished.contains(&place) => {}
            Next::Again => self.unfinished.push(place),
            Next::Close | Next::Shutdown => self.connections[place] = None,
        }
        next
    }
}

struct Connection {
    stream: TcpStream,
    decoder: RequestDecoder,
    /// Bytes that were read, and how many of them were executed.
    input: Vec<u8>,
    executed: usize,
    output: Vec<u8>,
}

impl Connection {
    fn new(stream: TcpStream) -> Connection {
        let decoder = RequestDecoder::new(Limits::default());
        Connection { stream, decoder, input: Vec::new(), executed: 0, output: Vec::new() }
    }

    fn turn<R: SnapRow>(&mut self, service: &mut Service<R>) -> io::Result<Next> {
        let mut reads = 0;
        loop {
            self.write()?;
            if self.output.len() > OUTPUT_BYTES {
                // The socket took no more: it tells when it does.
                return Ok(Next::Continue);
            }
            let next = self.execute(service);
            if next != Next::Continue {
                let wrote = self.write();
                return if next == Next::Shutdown { Ok(next) } else { wrote.map(|()| next) };
            }
            if self.output.len() > OUTPUT_BYTES {
                continue;
            }
            reads += 1;
            if reads > READS_AT_MOST {
                self.write()?;
                return Ok(Next::Again);
            }
            match self.read()? {
                Some(true) => {}
                Some(false) => return Ok(Next::Close),
                None => {
                    self.write()?;
                    return Ok(Next::Continue);
                }
            }
        }
    }

    /// Reads once. `None` if there is nothing more for now, `Some(false)` if the client has gone.
    fn read(&mut self) -> io::Result<Option<bool>> {
        self.input.drain(..self.executed);
        self.executed = 0;
        let len = self.input.len();
        self.input.resize(len + READ_BYTES, 0);
        let read = self.stream.read(&mut self.input[len..]);
        self.input.truncate(len + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(count) => Ok(Some(count > 0)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Executes what was read, until too much waits to be sent.
    fn execute<R: SnapRow>(&mut self, service: &mut Service<R>) -> Next {
        while self.output.len() <= OUTPUT_BYTES {
            let mut reply = Writer::new(&mut self.output, Protocol::Resp2);
            match self.decoder.decode(&self.input, &mut self.executed) {
                Ok(None) => return Next::Continue,
                Ok(Some(args)) => match commands::execute(service, args, &mut reply) {
                    Next::Continue => {}
                    end => return end,
                },
                Err(error) => {
                    reply.protocol_error(&error);
                    return Next::Close;
                }
            }
        }
        Next::Continue
    }

    /// Writes what the socket takes; the rest waits for the next event.
    fn write(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.output.len() {
            match self.stream.write(&self.output[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.output.drain(..sent);
        Ok(())
    }
}
