//! What another exporter reads from the same files.
