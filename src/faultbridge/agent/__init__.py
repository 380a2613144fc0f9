"""The node agent: follows the kernel log, looks at the GPUs and the network, and sends what it sees.

It runs on the node whose trouble it reports, so it must never be one: see `limits`. It needs nothing
but the standard library.
"""
