;; No instance can be made of it.
(func $start unreachable)
(start $start)
