//! The header of the PROXY protocol, version 2, by which a proxy says for whom it connects.
//!
//! ```text
//!   12 bytes   1                 1            2            length bytes
//!   signature  version, command  family       length       addresses, then more that is skipped
//! ```
//!
//! Its numbers are big-endian. <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt> describes it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use thiserror::Error;
use tokio::net::TcpStream;

/// The first bytes of a header.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes before the addresses.
const HEAD_BYTES: usize = 16;
/// Bytes of a whole header, at most: proxies send some hundred.
const HEADER_BYTES_MAX: usize = 4 << 10;
/// The time that a proxy has to send it.
const HEADER_TIME_MAX: Duration = Duration::from_secs(5);

/// For whom a proxy connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// For itself, to see whether the server is there; or for a client that has no address, as one of a Unix
    /// socket.
    Itself,
    /// For a client with this address; the unspecified one, if the proxy does not know it.
    Client(SocketAddr),
}

/// A header, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// As many bytes are needed, from the beginning, before more is known.
    Needs(usize),
    /// It is whole, and has so many bytes.
    Whole(usize, Origin),
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// It begins otherwise; version 1 does.
    #[error("the connection does not begin with a header of the PROXY protocol, version 2")]
    Signature,
    /// Another version or command.
    #[error("the header of the PROXY protocol has a version or a command that is not known")]
    Command,
    /// Another protocol than TCP, or none that is known.
    #[error("the header of the PROXY protocol tells of another protocol than TCP")]
    Family,
    /// The addresses do not fit, or what follows is too long.
    #[error("the header of the PROXY protocol has an impossible length")]
    Length,
}

/// Reads the header at the beginning of `bytes`.
pub fn parse(bytes: &[u8]) -> Result<Header, HeaderError> {
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        return Err(HeaderError::Signature);
    }
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
        return Ok(Header::Needs(HEAD_BYTES));
    };
    let [.., command, family, high, low] = *head;
    let len = usize::from(u16::from_be_bytes([high, low]));
    let is_local = match command {
        0x20 => true,
        0x21 => false,
        _ => return Err(HeaderError::Command),
    };
    let addresses = match family {
        _ if is_local => 0,
        // Unspecified, and streams of Unix sockets: there is a client, and no address of it.
        0x00 | 0x31 => 0,
        0x11 => 12,
        0x21 => 36,
        _ => return Err(HeaderError::Family),
    };
    if len < addresses || HEAD_BYTES + len > HEADER_BYTES_MAX {
        return Err(HeaderError::Length);
    }
    let Some(body) = rest.get(..len) else {
        return Ok(Header::Needs(HEAD_BYTES + len));
    };
    let origin = match family {
        _ if is_local => Origin::Itself,
        0x11 => Origin::Client(source_v4(body).ok_or(HeaderError::Length)?),
        0x21 => Origin::Client(source_v6(body).ok_or(HeaderError::Length)?),
        _ => Origin::Client(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))),
    };
    Ok(Header::Whole(HEAD_BYTES + len, origin))
}

/// Two addresses, then two ports.
fn source_v4(body: &[u8]) -> Option<SocketAddr> {
    let address: [u8; 4] = *body.first_chunk()?;
    let port: [u8; 2] = *body.get(8..)?.first_chunk()?;
    Some(SocketAddr::from((Ipv4Addr::from(address), u16::from_be_bytes(port))))
}

fn source_v6(body: &[u8]) -> Option<SocketAddr> {
    let address: [u8; 16] = *body.first_chunk()?;
    let port: [u8; 2] = *body.get(32..)?.first_chunk()?;
    let address = IpAddr::V6(Ipv6Addr::from(address)).to_canonical();
    Some(SocketAddr::new(address, u16::from_be_bytes(port)))
}

/// Reads the header of a connection, and nothing behind it.
pub async fn read(stream: &TcpStream) -> io::Result<Origin> {
    let read = tokio::time::timeout(HEADER_TIME_MAX, read_header(stream)).await;
    read.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn read_header(stream: &TcpStream) -> io::Result<Origin> {
    let (mut bytes, mut have) = (Vec::new(), 0);
    loop {
        let parsed =
            parse(&bytes[..have]).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let needed = match parsed {
            Header::Whole(_, origin) => return Ok(origin),
            Header::Needs(needed) => needed,
        };
        bytes.resize(needed, 0);
        stream.readable().await?;
        match stream.try_read(&mut bytes[have..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => have += len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let len = u16::try_from(body.len()).expect("it is short").to_be_bytes();
        [&SIGNATURE[..], &[command, family], &len, body].concat()
    }

    fn v4() -> Vec<u8> {
        header(0x21, 0x11, &[192, 0, 2, 7, 10, 0, 0, 1, 0x30, 0x39, 0x18, 0xeb])
    }

    #[test]
    fn a_client_is_named_whatever_follows() {
        let client = |text: &str| Origin::Client(text.parse().expect("an address"));
        assert_eq!(parse(&v4()), Ok(Header::Whole(28, client("192.0.2.7:12345"))));
        let behind = [v4(), b"*1\r\n".to_vec()].concat();
        assert_eq!(parse(&behind), Ok(Header::Whole(28, client("192.0.2.7:12345"))));
        let mut v6 = vec![0; 36];
        (v6[0], v6[15], v6[33]) = (0xfd, 9, 80);
        v6.extend([0x04, 0, 1, 0xff]);
        assert_eq!(parse(&header(0x21, 0x21, &v6)), Ok(Header::Whole(56, client("[fd00::9]:80"))));
    }

    #[test]
    fn a_proxy_may_come_for_itself_or_for_nobody_that_it_knows() {
        assert_eq!(parse(&header(0x20, 0x00, &[])), Ok(Header::Whole(16, Origin::Itself)));
        assert_eq!(parse(&header(0x20, 0x11, &[1; 12])), Ok(Header::Whole(28, Origin::Itself)));
        let nobody = Origin::Client(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        assert_eq!(parse(&header(0x21, 0x00, &[])), Ok(Header::Whole(16, nobody)));
        assert_eq!(parse(&header(0x21, 0x31, &[0; 216])), Ok(Header::Whole(232, nobody)));
    }

    #[test]
    fn no_more_is_asked_for_than_is_needed() {
        let whole = v4();
        for have in 0..whole.len() {
            let needs = if have < HEAD_BYTES { HEAD_BYTES } else { whole.len() };
            assert_eq!(parse(&whole[..have]), Ok(Header::Needs(needs)), "{have}");
        }
    }

    #[test]
    fn other_bytes_are_refused_as_soon_as_that_is_known() {
        assert_eq!(parse(b"P"), Err(HeaderError::Signature));
        assert_eq!(parse(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n"), Err(HeaderError::Signature));
        assert_eq!(parse(b"\r\n\r\n\0\r\nQUIX"), Err(HeaderError::Signature));
        assert_eq!(parse(&header(0x11, 0x11, &[0; 12])), Err(HeaderError::Command));
        assert_eq!(parse(&header(0x22, 0x11, &[0; 12])), Err(HeaderError::Command));
        assert_eq!(parse(&header(0x21, 0x12, &[0; 12])), Err(HeaderError::Family));
        assert_eq!(parse(&header(0x21, 0x11, &[0; 11])), Err(HeaderError::Length));
        assert_eq!(parse(&header(0x21, 0x21, &[0; 35])), Err(HeaderError::Length));
        assert_eq!(parse(&header(0x21, 0x11, &[0; HEADER_BYTES_MAX])[..16]), Err(HeaderError::Length));
    }
}
