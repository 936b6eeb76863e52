    ;; Every member gets every partition.
    (local $last i32) (local $partitions i32) (local $numbers i32) (local $entries i32) (local $entry i32) (local $i i32)
    ;; A topic has 16 bytes: name, first, count. The last one tells how many partitions there are.
    (local.set $last
      (i32.add (local.get $topics) (i32.mul (i32.const 16) (i32.sub (local.get $topic-count) (i32.const 1)))))
    (local.set $partitions
      (i32.add (i32.load offset=8 (local.get $last)) (i32.load offset=12 (local.get $last))))
    (local.set $numbers (call $alloc (i32.mul (i32.const 4) (local.get $partitions))))
    (loop $number
      (i32.store (i32.add (local.get $numbers) (i32.mul (i32.const 4) (local.get $i))) (local.get $i))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $number (i32.lt_u (local.get $i) (local.get $partitions))))
    ;; An assignment has 20 bytes: partitions, user data (none).
    (local.set $entries (call $alloc (i32.mul (i32.const 20) (local.get $member-count))))
    (local.set $entry (local.get $entries))
    (local.set $i (i32.const 0))
    (loop $member
      (call $pair (local.get $entry) (local.get $numbers) (local.get $partitions))
      (i32.store offset=8 (local.get $entry) (i32.const 0))
      (local.set $entry (i32.add (local.get $entry) (i32.const 20)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $member (i32.lt_u (local.get $i) (local.get $member-count))))
    (i32.store (i32.const 0) (i32.const 0))
    (call $pair (i32.const 4) (local.get $entries) (local.get $member-count))
    (i32.const 0)
