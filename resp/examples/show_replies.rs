//! Shows the replies in a stream of bytes as redis-cli would, for instance the replies of a server to netcat:
//!
//! ```sh
//! printf 'hello 3\r\nhgetall key\r\n' | nc -q 1 127.0.0.1 6379 |
//!     cargo run -p tarn-resp --example show_replies
//! ```

use std::error::Error;
use std::io::{self, Read};

use tarn_resp::FrameDecoder;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut decoder, mut buf, mut input) = (FrameDecoder::default(), Vec::new(), io::stdin().lock());
    loop {
        let received = input.by_ref().take(16 * 1024).read_to_end(&mut buf)?;
        let mut pos = 0;
        while let Some(reply) = decoder.decode(&buf, &mut pos)? {
            println!("{reply}");
        }
        // The rest is the beginning of a reply: more is appended to it.
        buf.drain(..pos);
        if received == 0 {
            return Ok(());
        }
    }
}
