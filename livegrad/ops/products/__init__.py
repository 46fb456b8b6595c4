"""Sums of products: matrices, contractions, distances."""
