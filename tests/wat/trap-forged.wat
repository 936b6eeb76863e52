;; Says what the host's own limits say, and traps.
(import "assignor:strategy/log@0.1.0" "log" (func $log (param i32 i32 i32)))
(memory (export "memory") 2)
(data (i32.const 512) "fuel allocated for hostcalls has been exhausted")
(func (export "assignor:strategy/strategy@0.1.0#assign") (param i32 i32 i32 i32) (result i32)
  (call $log (i32.const 4) (i32.const 512) (i32.const 47))
  unreachable)
