"""`python -m pushpop` is the command `pushpop`."""

from pushpop.cli import main

if __name__ == "__main__":
    main()
