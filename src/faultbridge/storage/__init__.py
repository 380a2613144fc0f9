"""The one table, described without AWS: items, keys, indexes and conditions as values."""
