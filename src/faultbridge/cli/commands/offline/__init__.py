"""Commands that need no stack and no credentials.

Reading order: `decode` (with the list of sources), `catalog`, `schema`, `rule`, `simulate`.
"""
