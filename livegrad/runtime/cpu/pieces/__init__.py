"""Running what nobody has seen before: one op after the other, in one native call."""
