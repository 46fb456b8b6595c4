"""What is no op: how functions are called and written to, what records of ops are made with."""
