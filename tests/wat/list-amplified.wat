;; ok(100,000 assignments, each of the same 250,000 partitions): 3 MiB of memory that would take the host 100 GB.
(memory (export "memory") 64)
(func (export "assignor:strategy/strategy@0.1.0#assign") (param i32 i32 i32 i32) (result i32)
  (local $at i32)
  (local.set $at (i32.const 0x100000))
  (loop $next
    (i32.store (local.get $at) (i32.const 0x10000))
    (i32.store offset=4 (local.get $at) (i32.const 250000))
    (local.set $at (i32.add (local.get $at) (i32.const 20)))
    (br_if $next (i32.lt_u (local.get $at) (i32.const 3048576))))
  (i32.store (i32.const 0) (i32.const 0))
  (i32.store (i32.const 4) (i32.const 0x100000))
  (i32.store (i32.const 8) (i32.const 100000))
  (i32.const 0))
