"""Ops that stand for what happens to the graph: writes in place, gradients of graphs, updates."""
