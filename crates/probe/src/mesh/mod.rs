//! UD pings between endpoints: which are sent, how they are answered, and what is made of the answers.

mod words;

pub use words::{MeshCommand, MeshEvent, MeshGrant, MeshHealth};
