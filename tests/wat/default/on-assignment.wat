;; ok
(func (export "assignor:strategy/strategy@0.1.0#on-assignment")
  (param i32) (param i32) (param i32) (param i32) (param i32) (param i32) (result i32)
  (global.set $heap (i32.const 1024))
  (i32.store (i32.const 0) (i32.const 0))
  (i32.const 0))
