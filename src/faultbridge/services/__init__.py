"""What runs the pure stages against the ports: append, ingest, publish, react, sweep, replacement, pager."""
