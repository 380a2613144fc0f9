"""The repair of one node: an attempt's steps, one module a step, each a call that may be repeated at any time."""
