;; Wants an interface that the contract never had.
(import "assignor:strategy/teleport@0.1.0" "jump" (func (result i32)))
