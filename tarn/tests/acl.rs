//! Users and their rules: they survive a start, in the configuration or in a file of their own, wrong ones
//! stop the start, and nothing that was refused shows a secret.

#![allow(clippy::unwrap_used)]

mod running;

use running::{Client, Connection, Folder, free_port};

/// Serves on a port with these arguments beside it.
fn serve(folder: &Folder, port: u16, args: &[&str]) -> running::Server {
    let port = port.to_string();
    let all: Vec<&str> = ["--port", &port].into_iter().chain(args.iter().copied()).collect();
    folder.serve(&all)
}

/// The rules of a user, as `ACL LIST` shows them.
fn rules_of(client: &mut Connection, name: &str) -> String {
    let list = client.whole("ACL LIST");
    let line = list.split("$user ").find_map(|user| user.strip_prefix(&format!("{name} ")));
    line.unwrap_or_default().trim_end_matches([' ', ']']).to_owned()
}

#[test]
fn a_file_of_users_is_read_at_the_start_loaded_and_saved() {
    let (folder, port) = (Folder::new(), free_port());
    let path = folder.path("users.acl");
    let lines = "user default on nopass ~* &* +@all\nuser alice on >secret ~a* +@read (+set ~b)\n";
    std::fs::write(&path, lines).unwrap();
    let server = serve(&folder, port, &["--aclfile", "users.acl"]);
    let mut client = Client::tcp("127.0.0.1", port);
    let alice = rules_of(&mut client, "alice");
    assert!(alice.contains("~a* resetchannels -@all +@read (~b resetchannels -@all +set)"), "{alice}");
    assert_eq!(Client::tcp("127.0.0.1", port).ask("AUTH alice secret"), "+OK");
    let mut other = Client::tcp("127.0.0.1", port);
    assert_eq!(other.ask("AUTH alice secret"), "+OK");
    assert_eq!(client.ask("ACL SETUSER bob on >s3cret +get"), "+OK");
    assert_eq!(client.ask("ACL SAVE"), "+OK");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("user bob on ") && !text.contains("s3cret"), "{text}");
    // A file with mistakes changes nothing.
    std::fs::write(&path, "user alice on +nothing\nuser bob on >s3cret #x\n").unwrap();
    let refusal = client.ask("ACL LOAD");
    assert!(
        refusal.contains("+nothing") && refusal.contains("no change to the previously active"),
        "{refusal}"
    );
    assert!(!refusal.contains("s3cret"), "{refusal}");
    assert_eq!(rules_of(&mut client, "alice"), alice);
    // The clients of users that the file has no longer are closed.
    std::fs::write(&path, "user carol on nopass +@all ~*\n").unwrap();
    assert_eq!(client.ask("ACL LOAD"), "+OK");
    assert!(other.try_ask("PING").is_none());
    assert_eq!(client.ask("ACL WHOAMI"), "default");
    assert!(server.terminate().success());
    std::fs::write(&path, "user carol on +nothing\n").unwrap();
    let refusal = folder.refusal(&["--port", &port.to_string(), "--aclfile", "users.acl"]);
    assert!(refusal.contains("cannot load the users") && refusal.contains("+nothing"), "{refusal}");
    std::fs::remove_file(&path).unwrap();
    let refusal = folder.refusal(&["--port", &port.to_string(), "--aclfile", "users.acl"]);
    assert!(refusal.contains("make it, or remove 'aclfile'"), "{refusal}");
    let both = ["--port", &port.to_string(), "--aclfile", "users.acl", "--user", "alice", "on"];
    assert!(folder.refusal(&both).contains("use one of both"));
}

#[test]
fn users_of_the_configuration_survive_a_rewrite_and_a_start() {
    let (folder, port) = (Folder::new(), free_port());
    let (path, port_text) = (folder.path("tarn.conf"), port.to_string());
    let lines = "# Users.\nuser alice on >secret ~a* +get\nuser default on nopass ~* &* +@all\n";
    std::fs::write(&path, lines).unwrap();
    let dir = folder.path("");
    let start = || {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tarn"));
        command.arg("serve").arg(&path).arg("--dir").arg(&dir).args([
            "--port",
            &port_text,
            "--sql-port",
            "0",
        ]);
        command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        running::Server::new(command.spawn().unwrap())
    };
    let server = start();
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!(client.ask("ACL SETUSER alice +set '~b\"c' (+del ~d)"), "+OK");
    assert_eq!(client.ask("ACL SETUSER bob on nopass %R~x &y +@all -@admin db=0"), "+OK");
    let rules = (rules_of(&mut client, "alice"), rules_of(&mut client, "bob"));
    assert_eq!(client.ask("CONFIG REWRITE"), "+OK");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("# Users.\n") && text.matches("user alice").count() == 1, "{text}");
    assert!(!text.contains("secret"), "{text}");
    drop(client);
    assert!(server.terminate().success());
    let server = start();
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!((rules_of(&mut client, "alice"), rules_of(&mut client, "bob")), rules);
    // A password of the user default that is set later outranks its line.
    assert_eq!(client.ask("CONFIG SET requirepass other"), "+OK");
    assert_eq!(client.ask("CONFIG REWRITE"), "+OK");
    drop(client);
    assert!(server.terminate().success());
    let _server = start();
    let mut client = Client::tcp("127.0.0.1", port);
    assert!(client.ask("PING").starts_with("-NOAUTH"));
    assert_eq!(client.ask("AUTH other"), "+OK");
}

#[test]
fn wrong_rules_of_the_configuration_stop_the_start_and_show_no_password() {
    let folder = Folder::new();
    let port = free_port().to_string();
    for (rules, told) in [
        (&["alice", "on", ">s3cret", "+nothing"][..], "'+nothing': Unknown command"),
        (&["alice", "on", ">s3cret", "nonsense"], "Syntax error"),
        (&["alice", "#s3cret"], "must be exactly 64 characters"),
        (&["alice", "(+get"], "unmatched parenthesis"),
    ] {
        let args: Vec<&str> = ["--port", &port, "--user"].into_iter().chain(rules.iter().copied()).collect();
        let tested: Vec<&str> = ["--test-config"].into_iter().chain(args.iter().copied()).collect();
        for args in [args, tested] {
            let refusal = folder.refusal(&args);
            assert!(refusal.contains(told) && !refusal.contains("s3cret"), "{refusal}");
        }
    }
    let refusal = folder.refusal(&["--test-config", "--rename-command", "FOO", "BAR"]);
    assert!(refusal.contains("FOO"), "{refusal}");
    let refusal = folder.refusal(&["--test-config", "--aclfile", "users.acl", "--user", "alice", "on"]);
    assert!(refusal.contains("use one of both"), "{refusal}");
}

#[test]
fn a_password_beside_a_file_without_the_user_default_is_not_written_down() {
    let (folder, port) = (Folder::new(), free_port());
    let (users, path) = (folder.path("users.acl"), folder.path("tarn.conf"));
    std::fs::write(&users, "user alice on >secret ~* &* +@all\n").unwrap();
    let lines =
        format!("port {port}\ndir \"{}\"\naclfile users.acl\nsql-port 0\n", folder.path("").display());
    std::fs::write(&path, &lines).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tarn"));
    command.arg("serve").arg(&path).stdin(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let server = running::Server::new(command.spawn().unwrap());
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!(client.ask("CONFIG SET requirepass other"), "+OK");
    let refusal = client.ask("CONFIG REWRITE");
    assert!(refusal.contains("would not start the server"), "{refusal}");
    assert!(refusal.contains("no line of the user 'default'"), "{refusal}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), lines);
    // A file with all users goes with it.
    assert_eq!(client.ask("ACL SAVE"), "+OK");
    assert_eq!(client.ask("CONFIG REWRITE"), "+OK");
    drop(client);
    assert!(server.terminate().success());
    let test = std::process::Command::new(env!("CARGO_BIN_EXE_tarn"))
        .args(["serve", "--test-config"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(test.status.success(), "{}", String::from_utf8_lossy(&test.stderr));
}

#[test]
fn the_log_of_refusals_names_the_command_that_was_refused() {
    let (folder, port) = (Folder::new(), free_port());
    let _server = serve(&folder, port, &[]);
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!(client.ask("ACL SETUSER alice on nopass ~own:* +get +subscribe +multi"), "+OK");
    let mut other = Client::tcp("127.0.0.1", port);
    assert_eq!(other.ask("AUTH alice any"), "+OK");
    for (request, named) in
        [("GET own:1", ""), ("SUBSCRIBE news", "cmd=subscribe "), ("MULTI", ""), ("GET foreign", "cmd=get ")]
    {
        let reply = other.whole(request);
        if !named.is_empty() {
            let log = client.whole("ACL LOG 1");
            assert!(reply.starts_with("-NOPERM") && log.contains(named), "{request}: {reply}: {log}");
        }
    }
}

#[test]
fn no_secret_of_a_user_is_shown() {
    let (folder, port) = (Folder::new(), free_port());
    let _server = serve(&folder, port, &["--loglevel", "debug", "--slowlog-log-slower-than", "0"]);
    let (mut client, mut monitor) = (Client::tcp("127.0.0.1", port), Client::tcp("127.0.0.1", port));
    assert_eq!(monitor.ask("MONITOR"), "+OK");
    assert_eq!(client.ask("ACL SETUSER alice on >s3cret ~a +get"), "+OK");
    let mut other = Client::tcp("127.0.0.1", port);
    assert_eq!(other.ask("AUTH alice s3cret"), "+OK");
    assert!(other.ask("AUTH alice s3cret2").starts_with("-WRONGPASS"));
    assert!(other.ask("SET hidden-key hidden-value").starts_with("-NOPERM"));
    for command in ["SLOWLOG GET 100", "INFO everything", "ACL LOG", "ACL LIST", "CLIENT LIST"] {
        let shown = client.whole(command);
        assert!(!shown.contains("s3cret") && !shown.contains("hidden-value"), "{command}: {shown}");
    }
    assert_eq!(client.ask("PING"), "+PONG");
    loop {
        let line = monitor.reply();
        assert!(!line.contains("s3cret") && !line.contains("hidden"), "{line}");
        if line.to_ascii_lowercase().contains("ping") {
            break;
        }
    }
    let messages = folder.messages();
    assert!(!messages.contains("s3cret") && !messages.contains("hidden"), "{messages}");
}

#[test]
fn the_program_takes_the_password_of_a_user_from_the_environment() {
    let (folder, port) = (Folder::new(), free_port());
    let _server = serve(&folder, port, &[]);
    let mut client = Client::tcp("127.0.0.1", port);
    // Users can be made while the data is still being loaded, and SQL is refused then.
    assert_eq!(client.ask("PING"), "+PONG");
    assert_eq!(client.ask("ACL SETUSER alice on >s3cret ~* +sql +hello"), "+OK");
    let ask = |password: Option<&str>| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tarn"));
        command.args(["sql", "-p", &port.to_string(), "--user", "alice", "--format", "csv", "SELECT 7 AS n"]);
        command.env_remove("REDISCLI_AUTH").envs(password.map(|password| ("REDISCLI_AUTH", password)));
        let output = command.output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.code(), told)
    };
    assert_eq!(ask(Some("s3cret")), (Some(0), "n\n7\n".to_owned()));
    let (code, told) = ask(Some("other"));
    assert!(code == Some(1) && told.starts_with("tarn: WRONGPASS"), "{told}");
    let (code, told) = ask(None);
    assert!(code == Some(1) && told.starts_with("tarn: --user needs a password"), "{told}");
}

#[test]
fn a_password_is_not_undone_by_a_file_of_users_in_silence() {
    let (folder, port) = (Folder::new(), free_port());
    let (path, port_text) = (folder.path("users.acl"), port.to_string());
    let args = ["--aclfile", "users.acl", "--requirepass", "s3cret", "--loglevel", "notice"];
    let no_default = "user alice on >secret ~a* +@read\n";
    std::fs::write(&path, no_default).unwrap();
    let all: Vec<&str> = ["--port", &port_text].into_iter().chain(args).collect();
    let refusal = folder.refusal(&all);
    assert!(refusal.contains("no line of the user 'default'") && !refusal.contains("s3cret"), "{refusal}");
    std::fs::write(&path, format!("user default on >s3cret ~* &* +@all\n{no_default}")).unwrap();
    let server = serve(&folder, port, &args);
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!(client.ask("AUTH s3cret"), "+OK");
    std::fs::write(&path, no_default).unwrap();
    let refusal = client.ask("ACL LOAD");
    assert!(refusal.starts_with("-ERR") && refusal.contains("no line of the user 'default'"), "{refusal}");
    assert!(Client::tcp("127.0.0.1", port).ask("PING").starts_with("-NOAUTH"));
    assert!(!folder.messages().contains("outrank"), "{}", folder.messages());
    // It says so itself: then it is done, and told.
    std::fs::write(&path, "user default on nopass ~* &* +@all\n").unwrap();
    assert_eq!(client.ask("ACL LOAD"), "+OK");
    assert!(folder.messages().contains("No client needs a password"), "{}", folder.messages());
    assert!(server.terminate().success());
}

#[test]
fn a_warning_of_an_open_server_looks_at_the_users() {
    for (rules, is_open) in [("on nopass ~* &* +@all", true), ("off >s3cret", false)] {
        let (folder, port) = (Folder::new(), free_port());
        std::fs::write(folder.path("users.acl"), format!("user default {rules}\n")).unwrap();
        let args = ["--aclfile", "users.acl", "--bind", "0.0.0.0", "--protected-mode", "no"];
        let _server = serve(&folder, port, &args);
        Client::tcp("127.0.0.1", port).ask("PING");
        let messages = folder.messages();
        assert_eq!(messages.contains("Whoever reaches these addresses"), is_open, "{messages}");
    }
}

#[test]
fn a_start_in_a_directory_that_is_gone_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let script = "cd \"$1\" && rmdir \"$1\" && exec \"$2\" serve --port 0";
    let output = std::process::Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(folder.path())
        .arg(env!("CARGO_BIN_EXE_tarn"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && told.contains("start from another"), "{told}");
}
