//! Runs one look at a machine to its end, for the subcommands that look once and print.

use crate::failure::Failure;
use std::future::Future;

/// What the look gives; a [`Failure`] with `code` where the program cannot be set up.
pub(crate) fn finished<T>(code: u8, look: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(code, format!("the program cannot be set up: {error}")))?;
    let seen = runtime.block_on(look);
    // A thread may be stuck in the kernel with a broken device; waiting for it would never end.
    runtime.shutdown_background();
    Ok(seen)
}
