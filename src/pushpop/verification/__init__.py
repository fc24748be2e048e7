"""Whether the implementations agree on this machine, and how fast each is here."""
