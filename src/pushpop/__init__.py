"""Differentiable stacks, queues and deques for PyTorch, and the transducers built on them."""
