;; Reads a clock that isn't the host's.
(import "wasi:clocks/monotonic-clock@0.2.0" "now" (func (result i64)))
