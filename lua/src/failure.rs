//! The failure of a script.

/// Why a script did not reply a value.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The host has ended it.
    Aborted {
        /// Where it was: the name of the chunk and the line.
        place: Option<(String, usize)>,
    },
    /// It has failed, or could not be compiled.
    Error {
        /// The text, with the code of the error first.
        message: Vec<u8>,
        /// Where: the name of the chunk and the line.
        place: Option<(String, usize)>,
    },
}
