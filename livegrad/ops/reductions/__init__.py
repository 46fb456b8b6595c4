"""Dims folded into values: sums, statistics, orders, running folds, counts."""
