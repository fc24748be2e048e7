"""See what a memory does: traces, pictures, pages and a server."""

from pushpop.viewer.trace import Trace, trace

__all__ = ["Trace", "trace"]
