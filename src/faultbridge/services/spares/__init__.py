"""The pool of spares: kept full and proven by the sweep, taken from by repairs."""
