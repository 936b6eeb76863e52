(func (export "cabi_post_assignor:strategy/strategy@0.1.0#assign") (param i32)
  (global.set $heap (i32.const 1024)))
