;; Wants a million table elements before it has done anything.
(table 1000000 funcref)
