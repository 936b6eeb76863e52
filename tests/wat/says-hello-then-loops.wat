;; Asks for a rebalance, so that the test knows that it runs, and then loops.
(import "assignor:strategy/control@0.1.0" "request-rebalance" (func $request-rebalance (param i64)))
(func (export "assignor:strategy/strategy@0.1.0#assign") (param i32 i32 i32 i32) (result i32)
  (call $request-rebalance (i64.const 1))
  (loop $again (br $again))
  unreachable)
