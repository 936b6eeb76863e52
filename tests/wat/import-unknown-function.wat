;; Wants a function that a later 0.1 may have, and this host doesn't.
(import "assignor:strategy/control@0.1.0" "from-the-future" (func (result i32)))
