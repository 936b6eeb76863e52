;; Two pages, so that what the host writes has room before it must grow.
(memory (export "memory") 2)
