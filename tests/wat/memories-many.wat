;; One memory more than may be, each of one page.
(memory (export "memory") 2)
(memory 1) (memory 1) (memory 1) (memory 1) (memory 1)
(memory 1) (memory 1) (memory 1) (memory 1) (memory 1)
(memory 1) (memory 1) (memory 1) (memory 1) (memory 1)
(memory 1) (memory 1) (memory 1) (memory 1) (memory 1)
