"""The archive: keeps entries longer than the table does, and makes changes of entries detectable.

Each published entry is one line in a bucket. A sealed day is complete, and its manifest is locked in the vault, a
bucket whose objects cannot be changed; only sealed entries expire from the table. An hourly anchor in the vault stores
the hash of the last entry of every stream. Read in this order: `write`, `seal`, `anchor`, then `verification`, which
needs no stack. Tests: tests/archive.
"""
