"""What networks are made of: activations, attention, recurrence, dropout."""
