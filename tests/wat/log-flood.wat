;; Writes 1,000 lines of 64 KiB, and then decides.
(import "assignor:strategy/log@0.1.0" "log" (func $log (param i32 i32 i32)))
(memory (export "memory") 4)
(func (export "assignor:strategy/strategy@0.1.0#assign") (param i32 i32 i32 i32) (result i32)
  (local $i i32)
  (memory.fill (i32.const 0x20000) (i32.const 0x78) (i32.const 0x10000))
  (loop $again
    (call $log (i32.const 4) (i32.const 0x20000) (i32.const 0x10000))
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $i) (i32.const 1000))))
  (call $first-takes-all (local.get 0) (local.get 1) (local.get 2) (local.get 3)))
