;; Fills its 16 MiB over and over. A single fill runs to its end whatever the clock says.
(memory (export "memory") 256)
(func (export "assignor:strategy/strategy@0.1.0#assign") (param i32 i32 i32 i32) (result i32)
  (loop $again
    (memory.fill (i32.const 65536) (i32.const 1) (i32.const 0xff0000))
    (br $again))
  unreachable)
