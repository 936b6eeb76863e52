;; The host asks for room with it; all it asks for is aligned to 8 bytes at most.
(func (export "cabi_realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
  (local $at i32)
  (local.set $at (call $alloc (local.get $size)))
  (memory.copy (local.get $at) (local.get $old) (local.get $old-size))
  (local.get $at))
