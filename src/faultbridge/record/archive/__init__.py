"""The archive: keeps entries longer than the table does, and makes changes of entries detectable.

The archive is a bucket in which each published entry is one line. After the end of a day, the day is sealed. Lines that
the archive lacks are added. A manifest lists the objects and the entries of the day. A copy of the manifest is locked
in the vault, a bucket whose objects cannot be changed. Only sealed entries expire from the table. Every hour, an anchor
in the vault stores the hash of the last entry of every stream. Read in this order:

- `write`: delivers published entries to the archive.
- `seal`: what a sealed day contains: archive objects, and ranges of entries by stream. Completes a day in the
  archive, checks it by reading it back, and locks its manifest. Sets the expiry time of sealed entries in the table.
  The hourly run, which anchors each cluster and seals the last complete day.
- `anchor`: stores the head (epoch, sequence number and hash of the last entry) of each stream of a cluster in the
  vault, and records the anchor as an entry.
- `verification`: collects the hashes of a cluster that are stored in the vault. Reads entries from an archive,
  without a deployed stack. Verifies an archive against its manifests and the vault, without a deployed stack.

Tests: tests/archive.
"""
