"""Store objects by key: raw records, evidence, the archive and its anchors.

Read in this order:

- `s3`: buckets, with and without Object Lock
- `firehose`: the delivery stream into the archive
- `folder`: a local copy of the archive, for checks without access to the stack
"""
