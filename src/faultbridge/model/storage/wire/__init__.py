"""Wire: text formats outside the table, encoded and decoded without I/O.

- `message`: raw records, one or several, as a message on the SQS queue. How the bytes of a record become text in a
  message.
- `decode_message`: a message of the queue, or an EventBridge event that arrives on it, as raw records.
- `archive_lines`: timeline entries as lines of the S3 archive, and the keys of its objects.

Tests: tests/storage/test_message.py, tests/storage/test_shared_message.py and tests/archive.
"""
