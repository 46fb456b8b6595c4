"""The same elements elsewhere: dims moved, parts taken, tensors joined, repeated, reshaped."""
