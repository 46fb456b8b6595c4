"""Values from nothing: ranges, fills, random numbers."""
