//! `CLIENT LIST` shows the true descriptors and buffers.

#![allow(clippy::unwrap_used)]

mod own_process;

use std::io::Write;

use own_process::{Connection, Own, eventually, serve_if_told};

#[test]
fn serves() {
    serve_if_told();
}

/// The line of `CLIENT LIST` for a client.
fn told(asker: &mut Connection, id: &str, name: &str) -> String {
    let line = asker.ask(&format!("CLIENT LIST ID {id}"));
    let value = line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {name} in {line}")).to_owned()
}

fn number(asker: &mut Connection, id: &str, name: &str) -> usize {
    told(asker, id, name).parse().unwrap()
}

/// The server's end of a connection, as the system names it.
fn server_end(client: &Connection) -> String {
    let stream = client.0.get_ref();
    let [server, client] = [stream.peer_addr().unwrap().port(), stream.local_addr().unwrap().port()];
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let mut fields = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let ends = [format!("0100007F:{server:04X}"), format!("0100007F:{client:04X}")];
    let found = fields.find(|fields| fields[1..3] == ends).expect("it is connected");
    format!("socket:[{}]", found[9])
}

#[test]
fn the_descriptor_of_a_client_is_that_of_its_socket() {
    let mut own = Own::new();
    let mut asker = own.start(&["--appendonly", "no"]);
    let mut clients: Vec<_> = (0..5).map(|_| own.connect()).collect();
    for client in &mut clients {
        let id = client.ask("CLIENT ID").split_off(1);
        let descriptor = told(&mut asker, &id, "fd");
        let target = std::fs::read_link(format!("/proc/{}/fd/{descriptor}", own.pid())).unwrap();
        assert_eq!(target.to_str().unwrap(), server_end(client));
    }
}

#[test]
fn buffers_are_as_large_as_what_waits_in_them() {
    let mut own = Own::new();
    let mut asker = own.start(&["--appendonly", "no"]);
    let mut client = own.connect();
    let id = client.ask("CLIENT ID").split_off(1);
    // A worker counts its buffers once it has written, when the client may have read already.
    eventually(|| (["qbuf", "omem"].map(|name| number(&mut asker, &id, name)) == [0, 0]).then_some(()));
    // Half of a request, in pieces: what holds it has grown beyond it.
    let head = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n";
    client.0.get_mut().write_all(head).unwrap();
    let mut sent = 0;
    for len in [10_000, 1, 1, 1] {
        client.0.get_mut().write_all(&vec![b'x'; len]).unwrap();
        sent += len;
        // Each piece is read on its own: only then there is more room than bytes.
        eventually(|| (number(&mut asker, &id, "qbuf") == head.len() + sent).then_some(()));
    }
    assert!(number(&mut asker, &id, "qbuf-free") > 0);
    assert!(number(&mut asker, &id, "tot-mem") > sent);
    client.0.get_mut().write_all(&vec![b'x'; 1_000_000 - sent]).unwrap();
    client.0.get_mut().write_all(b"\r\n").unwrap();
    assert_eq!(client.reply(), "+OK");
    // Replies that nobody reads.
    (0..20).for_each(|_| client.send("GET k"));
    eventually(|| {
        let [waiting, buffers, memory] = ["obl", "rbs", "omem"].map(|name| number(&mut asker, &id, name));
        let is_awaited = told(&mut asker, &id, "events").contains('w');
        (waiting > 0 && buffers >= waiting && memory > 0 && is_awaited).then_some(())
    });
    (0..20).for_each(|_| assert_eq!(client.reply().len(), 1_000_000));
    eventually(|| (number(&mut asker, &id, "obl") == 0).then_some(()));
}
