"""Losses: what training makes small."""
