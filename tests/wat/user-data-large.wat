;; Sends 2 MiB of user data with its subscription.
(memory (export "memory") 64)
(func (export "assignor:strategy/strategy@0.1.0#subscription") (param $topics i32) (param $count i32) (result i32)
  (i32.store (i32.const 0) (i32.const 0))
  (i32.store (i32.const 4) (local.get $topics))
  (i32.store (i32.const 8) (local.get $count))
  ;; Only where it wants something, so that it can be loaded.
  (i32.store (i32.const 12) (i32.ne (local.get $count) (i32.const 0)))
  (i32.store (i32.const 16) (i32.const 0x10000))
  (i32.store (i32.const 20) (i32.const 0x200000))
  (i32.const 0))
