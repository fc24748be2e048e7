"""`pushpop serve`."""

from pushpop.errors import InputError


def serve(models: list[str] | None = None, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Show models, and a playground, in a browser.

    Args:
        models: shipped models by name, or folders; by default all shipped ones
        host: the address to listen at; only this machine can reach the default
        port: the port to listen at; 0 takes a free one

    Examples:
        pushpop serve
        pushpop serve reverse-stack runs/copy-queue-seed0 --port 0
    """
    from pushpop.viewer.listening import listen

    if not 0 <= port < 2**16:
        raise InputError(f"port {port}: expected a number from 0 to 65535")
    listen(models or [], host, port)
