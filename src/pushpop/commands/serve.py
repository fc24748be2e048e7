"""`pushpop serve`."""

from pushpop.devices import read_device
from pushpop.errors import InputError


def serve(
    models: list[str] | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    device: str = "cpu",
) -> None:
    """Show models, and a playground, in a browser.

    Args:
        models: shipped models by name, or folders; by default all shipped ones
        host: the address to listen at; only this machine can reach the default
        port: the port to listen at; 0 takes a free one
        device: where models run: cpu, cuda or cuda:N (a GPU), mps (Apple's), auto: cuda or else cpu
    """
    read_device("device", device)
    from pushpop.viewer.listening import listen

    if not 0 <= port < 2**16:
        raise InputError(f"port {port}: expected a number from 0 to 65535")
    listen(models or [], host, port, device)
