"""The error a user can act on: the command line prints it without a traceback and exits with 2."""


class InputError(ValueError):
    """Something the user gave is wrong; the message names what was given and what was wanted."""
