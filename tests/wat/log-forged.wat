;; Logs one line that would look like two: the second one the consumer's own.
(import "assignor:strategy/log@0.1.0" "log" (func $log (param i32 i32 i32)))
(memory (export "memory") 2)
(data (i32.const 512) "all is well\nERROR assignor: all is lost")
(func (export "assignor:strategy/strategy@0.1.0#assign") (param i32 i32 i32 i32) (result i32)
  (call $log (i32.const 2) (i32.const 512) (i32.const 39))
  (call $first-takes-all (local.get 0) (local.get 1) (local.get 2) (local.get 3)))
