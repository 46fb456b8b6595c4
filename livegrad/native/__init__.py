"""The functions every training step runs through, compiled from their own Python source."""
