;; Wants 128 MiB before it has done anything.
(memory (export "memory") 2048)
