"""The archive: keeps every entry for years outside the table, and proves that no entry was changed.

Published entries reach the archive bucket as lines. Once a day is complete in the bucket, it is sealed: a manifest
names its objects and its entries, and a locked copy of the manifest is stored in the vault. Only sealed entries expire
from the table. Every hour an anchor stores the last hash of every stream in the vault. Read in this order:

- `write`: delivers published entries to the archive.
- `manifests`: what a sealed day contains: its objects, and a range of entries for each stream.
- `seal`: completes a day in the archive, checks it by reading it back, and locks its manifest.
- `retention`: sets the expiry time of sealed entries in the table.
- `anchor`: stores the heads of a cluster's streams in the vault, and records the anchor as an entry.
- `schedule`: the hourly run: one anchor for each cluster and hour, one seal for each cluster and day.
- `anchor_reader`: collects the hashes of a cluster that are stored in the vault.
- `read`: reads entries from an archive, without a deployed stack.
- `archive_verification`: verifies an archive against its manifests and the vault, without a deployed stack.

Tests: tests/archive.
"""
