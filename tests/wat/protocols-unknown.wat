;; A protocol that the contract does not have.
(func (export "assignor:strategy/strategy@0.1.0#supported-protocols") (result i32)
  (i32.store8 (i32.const 32) (i32.const 9))
  (i32.store (i32.const 0) (i32.const 32))
  (i32.store (i32.const 4) (i32.const 1))
  (i32.const 0))
