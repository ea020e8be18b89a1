//! Enums whose variants have names.

/// Defines an enum, each variant with its name on the command line, in lines and in tables. One that has a
/// second name has that on the command line, and in lines the first as it is; else lines have it in kebab
/// case.
macro_rules! named {
    (
        $(#[$outer:meta])*
        pub enum $name:ident { $($(#[$inner:meta])* $variant:ident = $text:literal $(| $cli:literal)?,)+ }
    ) => {
        $(#[$outer])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
            clap::ValueEnum,
        )]
        #[serde(rename_all = "kebab-case")]
        pub enum $name {
            $(
                $(#[$inner])*
                #[value(name = $text)]
                $(#[serde(rename = $text)] #[value(name = $cli)])?
                $variant,
            )+
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
