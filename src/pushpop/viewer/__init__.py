"""See what a memory does: traces, pictures, pages and a server.

tracing    runs a model and writes down what its memories did, and whether it needs them
recorder   asks each memory, step by step; intervals and positions: where its values lie
layout     where the parts of a picture lie, and their colours
draw       pictures and animations, by matplotlib
export     traces as files: pages (page/ has their script), pictures, numbers; the docs as pages
server     the server: its application, what it refuses, the port
"""

from pushpop.viewer.tracing import Trace, trace
from pushpop.viewer.tracing import generate as generate

__all__ = ["Trace", "trace"]
