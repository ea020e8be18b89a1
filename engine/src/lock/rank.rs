//! The ranks of locks, from the first that is taken to the last. `docs/threads-and-locks.md` says what each
//! protects; a test compares the two lists.

/// A rank.
pub trait Rank: 'static {
    /// Its place in the order.
    const PLACE: usize;
    /// Its name, as `docs/threads-and-locks.md` has it.
    const NAME: &'static str;
    /// Whether a thread may hold several of them, those that belong together with rising numbers.
    const SEVERAL: bool = false;
}

macro_rules! ranks {
    ($($rank:ident $name:literal $($several:ident)?,)*) => {
        enum Order {
            $($rank),*
        }

        $(
            #[doc = concat!("The rank \"", $name, "\".")]
            #[derive(Debug)]
            pub enum $rank {}

            impl Rank for $rank {
                const PLACE: usize = Order::$rank as usize;
                const NAME: &'static str = $name;
                $(const SEVERAL: bool = ranks!($several);)?
            }
        )*

        /// The names of all, in their order.
        pub const NAMES: &[&str] = &[$($name),*];
    };
    (several) => { true };
}

ranks! {
    Declarations "declarations",
    WantedIndexes "wanted indexes",
    CompactorTurn "compactor's turn",
    GoneBlocks "gone blocks",
    CheckpointTurn "checkpoint's turn",
    ReplayedTables "replayed tables",
    Gate "gate" several,
    Outcome "outcome",
    Configuration "configuration",
    ViewEnd "end of a view",
    Views "views",
    Growth "growth",
    Segment "segments" several,
    Shutdown "shutdown",
    Checkpoints "checkpoints",
    Backups "backups",
    OpenLog "open log",
    Tracking "tracking",
    Channels "channels",
    Preparations "preparations",
    Appender "appender",
    Estimates "estimates",
    Compactions "compactions",
    Certificates "certificates",
    Leaf "leaf",
    Messages "messages",
}

#[cfg(test)]
mod tests {
    use super::NAMES;

    #[test]
    fn the_page_has_the_same_ranks_in_the_same_order() {
        let page = include_str!("../../../docs/threads-and-locks.md");
        let order = page.split("## Order of locks").nth(1).and_then(|rest| rest.split("\n## ").next());
        let order = order.expect("the page says in which order locks are taken");
        let bold = order.split("**").skip(1).step_by(2).map(|name| name.replace('\n', " "));
        assert_eq!(bold.collect::<Vec<_>>(), NAMES);
    }
}
