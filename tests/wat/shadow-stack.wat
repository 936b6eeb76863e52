;; C and Rust keep what has an address on a stack of their own within memory, here 64 KiB that grow down to 0. A deep
;; recursion leaves the memory at its lower end, long before the real stack is used up.
(global $stack (mut i32) (i32.const 65536))
(func $deeper
  (global.set $stack (i32.sub (global.get $stack) (i32.const 4096)))
  (i32.store (global.get $stack) (i32.const 1))
  (call $deeper)
  (i32.store (global.get $stack) (i32.const 2)))
(func (export "assignor:strategy/strategy@0.1.0#assign") (param i32 i32 i32 i32) (result i32)
  (call $deeper)
  unreachable)
