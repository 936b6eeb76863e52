;; A heap that grows while a call runs and is emptied after it. 0..1024 is for constants and results.
(global $heap (mut i32) (i32.const 1024))
(func $alloc (param $size i32) (result i32)
  (local $at i32)
  (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
  (global.set $heap (i32.add (local.get $at) (local.get $size)))
  (block $enough
    (br_if $enough (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
    (br_if $enough
      (i32.ne
        (memory.grow (i32.add (i32.shr_u (local.get $size) (i32.const 16)) (i32.const 1)))
        (i32.const -1)))
    unreachable)
  (local.get $at))
