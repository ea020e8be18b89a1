//! Detects a client that disconnects while its statement runs, when nothing reads its socket.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits until the other end of a socket is closed; for ever if there is none to look at. It is looked for
/// once in an interval.
pub(super) async fn hung_up(socket: Option<OwnedFd>, interval: Duration) {
    let Some(socket) = socket else { return std::future::pending().await };
    loop {
        tokio::time::sleep(interval).await;
        let mut looked = [PollFd::new(&socket, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut looked, Some(&now)).is_ok_and(|events| events > 0) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_client_that_has_sent_more_is_there_and_one_that_closed_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut client =
            TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (served, _) = listener.accept().expect("a connection");
        client.write_all(b"the next statement").expect("it is open");
        let interval = Duration::from_millis(1);
        let mut gone = Box::pin(hung_up(Some(OwnedFd::from(served)), interval));
        for _ in 0..10 {
            assert!((&mut gone).now_or_never().is_none());
            tokio::time::sleep(2 * interval).await;
        }
        drop(client);
        gone.await;
    }
}
