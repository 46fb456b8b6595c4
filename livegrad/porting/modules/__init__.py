"""Modules that only torch has, or that mean something else there."""
