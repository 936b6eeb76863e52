;; A strategy by hand, in the canonical ABI's names and layouts; {{...}} is filled in. It does everything right but `assign`.
(module
  (memory (export "memory") 2)
  ;; 0..24: what a function returns. 64..66: the protocols. 128..192: the name.
  (data (i32.const 64) "{{protocols}}")
  (data (i32.const 128) "{{name}}")

  ;; Memory is given out from here upwards and never taken back: an instance lives for a few calls.
  (global $free (mut i32) (i32.const 256))
  (func $alloc (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
    (global.set $free (i32.add (local.get $at) (local.get $size)))
    (block $enough
      (br_if $enough (i32.le_u (global.get $free) (i32.shl (memory.size) (i32.const 16))))
      (br_if $enough
        (i32.ne (i32.const -1)
          (memory.grow (i32.add (i32.shr_u (local.get $size) (i32.const 16)) (i32.const 1)))))
      unreachable)
    (local.get $at))

  ;; The host asks for fresh memory only: strings and lists arrive whole.
  (func (export "cabi_realloc") (param $old i32) (param $had i32) (param $align i32) (param $size i32) (result i32)
    (call $alloc (local.get $size)))

  ;; Writes a pair of words at `at`.
  (func $pair (param $at i32) (param $first i32) (param $second i32)
    (i32.store (local.get $at) (local.get $first))
    (i32.store offset=4 (local.get $at) (local.get $second)))

  ;; -> string
  (func (export "assignor:strategy/strategy@0.1.0#name") (result i32)
    (call $pair (i32.const 0) (i32.const 128) (i32.const {{name-length}}))
    (i32.const 0))

  ;; -> list<protocol>
  (func (export "assignor:strategy/strategy@0.1.0#supported-protocols") (result i32)
    (call $pair (i32.const 0) (i32.const 64) (i32.const {{protocols-length}}))
    (i32.const 0))

  ;; list<string> -> result<interest, string>: all topics as they came, no user data
  (func (export "assignor:strategy/strategy@0.1.0#subscription") (param $topics i32) (param $count i32) (result i32)
    (i32.store (i32.const 0) (i32.const 0))
    (call $pair (i32.const 4) (local.get $topics) (local.get $count))
    (i32.store (i32.const 12) (i32.const 0))
    (i32.const 0))

  ;; list<topic-partitions>, option<list<u8>>, s32 -> result<_, string>: ok
  (func (export "assignor:strategy/strategy@0.1.0#on-assignment") (param i32 i32 i32 i32 i32 i32) (result i32)
    (i32.store (i32.const 0) (i32.const 0))
    (i32.const 0))

  ;; list<topic>, list<member> -> result<list<assignment>, string>
  (func (export "assignor:strategy/strategy@0.1.0#assign")
    (param $topics i32) (param $topic-count i32) (param $members i32) (param $member-count i32) (result i32)
    {{assign}})
)
