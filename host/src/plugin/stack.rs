//! Guest calls run on a thread of explicit stack size.

use std::any::Any;

/// What the host itself needs beside the guest's stack.
const HOST_STACK: usize = 1 << 20;

/// Runs a call on a thread whose stack holds the guest's stack and the host's: a wasm stack larger than the real one would
/// end the process, and the caller's own stack is unknown. A panic becomes its message.
pub(super) fn on_own_stack<T: Send>(
    guest_stack: usize,
    call: impl FnOnce() -> T + Send,
) -> Result<T, String> {
    // Who set a subscriber for the caller's thread alone wants to see the guest's log, too.
    let log = tracing::dispatcher::get_default(Clone::clone);
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("assignor-guest".into())
            .stack_size(guest_stack.saturating_add(HOST_STACK))
            .spawn_scoped(scope, move || tracing::dispatcher::with_default(&log, call))
            .map_err(|e| format!("no thread for the call: {e}"))?
            .join()
            .map_err(|panic| panicked(panic.as_ref()))
    })
}

/// What a caught panic says, as "panicked: …".
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.unwrap_or_else(|| "without a message".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_call_becomes_an_error() {
        assert_eq!(on_own_stack(1 << 16, || 7), Ok(7));
        let panicked: Result<(), _> = on_own_stack(1 << 16, || panic!("at the disco"));
        assert_eq!(panicked, Err("panicked: at the disco".into()));
    }
}
