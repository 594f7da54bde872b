;; A filter: deliver the messages whose first property is `tier` with the value `gold`.
(module
  (memory (export "memory") 2)
  (data (i32.const 0) "tier\01gold\02")          ;; 10 bytes: as RocketMQ stores a property

  ;; One buffer from address 1024 on; memory grows to hold the largest message.
  (func (export "alloc") (param $size i32) (result i32)
    (local $pages i32)
    (local.set $pages (i32.sub (i32.add (i32.const 1) (i32.div_u (i32.add (local.get $size) (i32.const 1024))
      (i32.const 65536))) (memory.size)))
    (if (i32.gt_s (local.get $pages) (i32.const 0))
      (then (if (i32.eq (memory.grow (local.get $pages)) (i32.const -1)) (then unreachable))))
    (i32.const 1024))

  (func (export "filter") (param $at i32) (param $size i32) (result i32)
    (local $n i32)
    (if (i32.lt_u (i32.load offset=4 (local.get $at)) (i32.const 10)) (then (return (i32.const 0))))
    (loop $next
      (if (i32.ne (i32.load8_u (local.get $n)) (i32.load8_u offset=12 (i32.add (local.get $at) (local.get $n))))
        (then (return (i32.const 0))))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $n) (i32.const 10))))
    (i32.const 1)))
