;; Writes one line of 32 MiB.
(import "assignor:strategy/log@0.1.0" "log" (func $log (param i32 i32 i32)))
(memory (export "memory") 513)
(func (export "assignor:strategy/strategy@0.1.0#assign") (param i32 i32 i32 i32) (result i32)
  (memory.fill (i32.const 0) (i32.const 0x78) (i32.const 0x2000000))
  (call $log (i32.const 4) (i32.const 0) (i32.const 0x2000000))
  unreachable)
