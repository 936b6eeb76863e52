;; Lets the host's own strategy split the group for ever: the time is the host's, and bounded all the same.
(import "assignor:strategy/built-in@0.1.0" "assign" (func $built-in (param i32 i32 i32 i32 i32 i32 i32)))
(data (i32.const 128) "keep")
(func (export "assignor:strategy/strategy@0.1.0#assign")
  (param $topics i32) (param $topic-count i32) (param $members i32) (param $member-count i32) (result i32)
  (local $heap i32)
  (local.set $heap (global.get $heap))
  (loop $again
    (global.set $heap (local.get $heap))
    (call $built-in
      (i32.const 128) (i32.const 4)
      (local.get $members) (local.get $member-count)
      (i32.const 0) (i32.const 0)
      (i32.const 256))
    (br $again))
  unreachable)
