"""pager."""
