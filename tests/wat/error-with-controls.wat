;; err("\u{1b}[2Jboom\n\u{7}"): clears a terminal that prints it as it is.
(data (i32.const 128) "\1b[2Jboom\0a\07")
(func (export "assignor:strategy/strategy@0.1.0#assign") (param i32 i32 i32 i32) (result i32)
  (i32.store (i32.const 0) (i32.const 1))
  (i32.store (i32.const 4) (i32.const 128))
  (i32.store (i32.const 8) (i32.const 10))
  (i32.const 0))
