"""`pushpop serve`."""

from pushpop.devices import read_device
from pushpop.errors import InputError


def serve(
    models: list[str] | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    allow_host: str = "",
    device: str = "cpu",
) -> None:
    """Show models, and a playground, in a browser.

    Args:
        models: shipped models by name, or folders; by default all shipped ones
        host: the address to listen at; only this machine can reach the default
        port: the port to listen at; 0 takes a free one
        allow_host: more names that the server is asked for by, such as a proxy's, with commas in
            between; requests for other names are refused
        device: where models run: cpu, cuda or cuda:N (a GPU), mps (Apple's), auto: cuda or else cpu

    Examples:
        pushpop serve
        pushpop serve reverse-stack runs/copy-queue-seed0 --port 0
    """
    read_device("device", device)
    from pushpop.viewer.listening import listen

    if not 0 <= port < 2**16:
        raise InputError(f"port {port}: expected a number from 0 to 65535")
    listen(models or [], host, port, [name for name in allow_host.split(",") if name], device)
