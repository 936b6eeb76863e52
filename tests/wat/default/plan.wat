;; ok(every partition for the first member, none for the others). An assignment takes 20 bytes: where the partitions are,
;; how many, and no user data.
(func $first-takes-all
  (param $topics i32) (param $topic-count i32) (param $members i32) (param $member-count i32) (result i32)
  (local $numbers i32) (local $count i32) (local $i i32) (local $last i32)
  ;; The numbers end where the last topic's end: {name: 8 bytes, first, count}.
  (if (local.get $topic-count)
    (then
      (local.set $last
        (i32.add
          (local.get $topics)
          (i32.mul (i32.sub (local.get $topic-count) (i32.const 1)) (i32.const 16))))
      (local.set $count
        (i32.add (i32.load offset=8 (local.get $last)) (i32.load offset=12 (local.get $last))))))
  (local.set $numbers
    (call $alloc (i32.add (i32.mul (local.get $count) (i32.const 4))
                          (i32.mul (local.get $member-count) (i32.const 20)))))
  (block $done
    (loop $next
      (br_if $done (i32.ge_u (local.get $i) (local.get $count)))
      (i32.store
        (i32.add (local.get $numbers) (i32.mul (local.get $i) (i32.const 4)))
        (local.get $i))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next)))
  (local.set $i (i32.add (local.get $numbers) (i32.mul (local.get $count) (i32.const 4))))
  (memory.fill (local.get $i) (i32.const 0) (i32.mul (local.get $member-count) (i32.const 20)))
  (if (local.get $member-count)
    (then
      (i32.store (local.get $i) (local.get $numbers))
      (i32.store offset=4 (local.get $i) (local.get $count))))
  (i32.store (i32.const 0) (i32.const 0))
  (i32.store (i32.const 4) (local.get $i))
  (i32.store (i32.const 8) (local.get $member-count))
  (i32.const 0))
