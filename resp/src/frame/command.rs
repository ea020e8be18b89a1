//! Commands as clients send them.

use crate::wire;

/// Appends a command, its name first, as an array of bulk strings.
///
/// ```
/// let mut out = Vec::new();
/// tarn_resp::encode_command(&mut out, ["GET", "key"]);
/// assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
/// ```
pub fn encode_command<I>(out: &mut Vec<u8>, args: I)
where
    I: IntoIterator<IntoIter: ExactSizeIterator, Item: AsRef<[u8]>>,
{
    let args = args.into_iter();
    wire::header(out, b'*', args.len() as u64);
    for arg in args {
        wire::blob(out, b'$', arg.as_ref());
    }
}
