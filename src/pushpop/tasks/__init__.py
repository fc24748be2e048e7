"""Transduction tasks: pairs of sequences drawn at random, and the tensors made of them."""
