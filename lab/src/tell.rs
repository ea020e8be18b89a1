//! Words for who looks on.

/// Writes a line to the terminal. One that has closed takes none: the words are lost, and nothing ends.
macro_rules! tell {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

/// Writes a line to the standard output. A reader that has gone, such as `head`, takes none: the words are
/// lost, and nothing ends.
macro_rules! show {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        if let Err(error) = writeln!(std::io::stdout(), $($words)*)
            && error.kind() != std::io::ErrorKind::BrokenPipe
        {
            tell!("cannot write to the standard output: {error}");
        }
    }};
}
