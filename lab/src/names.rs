//! Enums whose variants have names.

/// Defines an enum, each variant with its name on the command line, in lines and in tables.
macro_rules! named {
    ($(#[$outer:meta])* pub enum $name:ident { $($(#[$inner:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$outer])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
            clap::ValueEnum,
        )]
        #[serde(rename_all = "kebab-case")]
        pub enum $name {
            $($(#[$inner])* #[value(name = $text)] $variant,)+
        }

        impl $name {
            /// All, in the order in which they are measured and shown.
            pub const ALL: [$name; [$($text),+].len()] = [$($name::$variant),+];

            /// The name on the command line, in lines and in tables.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }
        }
    };
}
