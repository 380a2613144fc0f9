"""Find the stack that a command uses, and create its services.

Reading order: `command` adds the stack options to a command, `locate` finds the stack, `session` creates its services,
`known_names` reads which names exist, `waiting` implements `--wait`, `loopback_server` serves the console on this host,
`archive_copy` reads a copied archive if no stack is needed.
"""
