//! What a strategy may use. Always on; every limit can be set; each is enforced as written.

use std::time::Duration;

/// Bounds on components and on their calls.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a component. Checked before anything else is done with it. 32 MiB.
    pub component_bytes: u64,
    /// Functions in all its modules, with those that cross between host and guest. 50,000.
    pub functions: u32,
    /// Bytes of one function's body. 1 MiB.
    pub body_bytes: u32,
    /// Locals of one function, parameters included. 5,000.
    pub locals: u32,
    /// Blocks (`block`, `loop`, `if`, `else`) of one function. 10,000: the compiler's memory grows with their square.
    pub blocks: u32,
    /// Locals, and 8 more, times branches of one function. 2 million, which takes a second to compile; interpreters
    /// written in C have half a million.
    pub locals_times_branches: u64,
    /// The same summed over all functions. 60 million; interpreters have 12 million.
    pub total_locals_times_branches: u64,
    /// Time for compiling. A compile can't be cancelled: past this the load counts as failed, and no second compile
    /// starts while it runs on. 60 s; CPython, the slowest known, takes 6 s on an idle core and 22 s on a busy machine.
    pub compile_time: Duration,
    /// Bytes of memory of one instance, summed over all its memories. 64 MiB.
    pub memory_bytes: u64,
    /// Elements of tables of one instance, summed over all its tables. 20,000.
    pub table_elements: u64,
    /// Core instances (and tables) in one component instance. 100.
    pub instances: usize,
    /// Memories in one component instance. 20.
    pub memories: usize,
    /// Guest time of one call of `assign`. 2 s.
    pub assign_time: Duration,
    /// Guest time of any other call, and of instantiation. 100 ms.
    pub call_time: Duration,
    /// Time that one call may wait for answers of the consumer; later questions are answered "unavailable". Also the time
    /// that all other host functions of one call may take, past which it is ended. 2 s.
    pub host_wait: Duration,
    /// Bytes of WebAssembly stack. 512 KiB.
    pub stack_bytes: usize,
    /// Bytes that cross to the host at a time: a result, or the arguments of one host call. 16 MiB.
    pub host_bytes: usize,
    /// Bytes of log text in one call; what is beyond is dropped, and said so once. 1 MiB.
    pub log_bytes: usize,
    /// Calls of host functions in one call. 10,000.
    pub host_calls: u64,
    /// Bytes of one member's user data, in a subscription or an assignment. 1 MiB.
    pub user_data_bytes: usize,
    /// Bytes kept of a text that a guest gives: an error, a trap's backtrace, a line of log. 8 KiB.
    pub text_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            component_bytes: 32 << 20,
            functions: 50_000,
            body_bytes: 1 << 20,
            locals: 5_000,
            blocks: 10_000,
            locals_times_branches: 2_000_000,
            total_locals_times_branches: 60_000_000,
            compile_time: Duration::from_secs(60),
            memory_bytes: 64 << 20,
            table_elements: 20_000,
            instances: 100,
            memories: 20,
            assign_time: Duration::from_secs(2),
            call_time: Duration::from_millis(100),
            host_wait: Duration::from_secs(2),
            stack_bytes: 512 << 10,
            host_bytes: 16 << 20,
            log_bytes: 1 << 20,
            host_calls: 10_000,
            user_data_bytes: 1 << 20,
            text_bytes: 8 << 10,
        }
    }
}

impl Limits {
    /// A guest's text, fit for a log: cut at [`text_bytes`](Self::text_bytes), control characters but line breaks replaced.
    pub(crate) fn text(&self, text: &str) -> String {
        let cut = text.floor_char_boundary(self.text_bytes);
        let (kept, rest) = text.split_at(cut);
        let mut clean: String =
            kept.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect();
        if !rest.is_empty() {
            clean.push_str(" … (cut)");
        }
        clean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_guests_is_cut_at_a_character_and_carries_no_control_characters() {
        let limits = Limits { text_bytes: 4, ..Limits::default() };
        assert_eq!(limits.text("aéü"), "aé … (cut)");
        assert_eq!(limits.text("\u{1b}[m"), "\u{fffd}[m");
    }
}
