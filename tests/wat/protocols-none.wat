;; Supports no protocol.
(func (export "assignor:strategy/strategy@0.1.0#supported-protocols") (result i32)
  (i32.store (i32.const 4) (i32.const 0))
  (i32.const 0))
