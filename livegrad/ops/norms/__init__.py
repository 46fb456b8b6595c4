"""Normalisation by channels and batches, and the statistics it keeps."""
