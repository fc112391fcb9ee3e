//! Enumerations whose words are spelled in one place.

pub trait Words: Copy + 'static {
    fn all() -> &'static [Self];

    fn word(self) -> &'static str;
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not one of: {}", words.join(", "))]
pub struct NotAWord {
    pub text: String,
    pub words: &'static [&'static str],
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$about:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$about])* $variant,)* }

        impl $name {
            /// Every word of the list.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word in the API.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl $crate::domain::words::Words for $name {
            fn all() -> &'static [Self] {
                Self::ALL
            }

            fn word(self) -> &'static str {
                self.as_str()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::domain::words::NotAWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                const WORDS: &[&str] = &[$($word),*];
                match text {
                    $($word => Ok(Self::$variant),)*
                    _ => Err(Self::Err { text: text.to_owned(), words: WORDS }),
                }
            }
        }
    };
}
pub(crate) use words;
