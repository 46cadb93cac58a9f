//! Gives memory that is not used any more back to the kernel, for daemons that read much at once and then rest.

/// Gives back what the C library keeps for later. It changes nothing but what the process occupies.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    {
        unsafe extern "C" {
            /// `malloc_trim(3)` of glibc.
            fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        // SAFETY: it takes the locks of the allocator and touches no memory that is in use; any thread may call it at any time.
        unsafe { malloc_trim(0) };
    }
}
