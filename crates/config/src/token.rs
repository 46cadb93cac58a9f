//! The shared secret of agents and coordinator: read from a file of its own, never shown.

use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Permission bits that a token file may not have: anything for others, writing for the group, execution.
const MODE_BITS_REFUSED: u32 = 0o137;

/// Shortest token, characters: 16 random hexadecimal ones are 64 bits, too many to guess over a network.
const TOKEN_LENGTH_MIN: usize = 16;

/// Longest token file, bytes: it must fit one HTTP header with room to spare.
const TOKEN_BYTES_MAX: u64 = 4096;

/// The secret itself. Its debug form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file could not be read.
    #[error("token file {path} cannot be read: check the path and that this user may read it")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Others could read or change it.
    #[error("token file {path} has mode {mode:04o}, so others could read or change it: chmod 0640 {path}")]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// What is in it cannot be a token.
    #[error(
        "token file {path} must hold one line of 16 to 4096 visible ASCII characters: make one with \
         openssl rand -hex 32"
    )]
    Content {
        /// The file.
        path: PathBuf,
    },
}

impl Token {
    /// Reads the token from its file; white space around it does not count.
    ///
    /// # Errors
    /// The file cannot be read, is open to others, or does not hold a token.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let unread = |source| TokenError::Read { path: path.to_owned(), source };
        let content = || TokenError::Content { path: path.to_owned() };
        let metadata = std::fs::metadata(path).map_err(unread)?;
        if !metadata.is_file() || metadata.len() > TOKEN_BYTES_MAX {
            return Err(content());
        }
        if let Some(mode) = too_wide(&metadata) {
            return Err(TokenError::Mode { path: path.to_owned(), mode });
        }
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(unread)?;
        file.take(TOKEN_BYTES_MAX).read_to_end(&mut bytes).map_err(unread)?;
        let text = String::from_utf8(bytes).map_err(|_| content())?;
        let token = text.trim();
        if token.len() < TOKEN_LENGTH_MIN || !token.chars().all(|c| c.is_ascii_graphic()) {
            return Err(content());
        }
        Ok(Self(token.to_owned()))
    }

    /// The secret, for an `Authorization` header.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Whether somebody showed the same secret; takes the same time wherever the two differ.
    #[must_use]
    pub fn matches(&self, shown: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let difference = own.iter().zip(shown).fold(0, |sum, (a, b)| sum | (a ^ b));
        own.len() == shown.len() && std::hint::black_box(difference) == 0
    }
}

/// The mode of a token file that others could read or change; `None` where it is tight or cannot be seen.
pub(crate) fn mode_too_wide(path: &Path) -> Option<u32> {
    too_wide(&std::fs::metadata(path).ok()?)
}

fn too_wide(metadata: &std::fs::Metadata) -> Option<u32> {
    let mode = metadata.permissions().mode() & 0o777;
    (mode & MODE_BITS_REFUSED != 0).then_some(mode)
}
