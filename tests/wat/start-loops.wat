;; Its start function never ends: making an instance must be bounded, too.
(func $start (loop $again (br $again)))
(start $start)
