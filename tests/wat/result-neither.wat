;; Neither ok (0) nor err (1).
(func (export "assignor:strategy/strategy@0.1.0#assign") (param i32 i32 i32 i32) (result i32)
  (i32.store (i32.const 0) (i32.const 7))
  (i32.const 0))
