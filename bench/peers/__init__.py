"""One table in every peer: the same files and checks, one module per peer, each in a process of its own."""
