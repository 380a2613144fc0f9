"""Wire: text formats outside the table, encoded and decoded without I/O.

- `message`: a raw record as a message on the SQS queue.
- `body_encodings`: how the bytes of a record become text in a message.
- `shared_message`: several records of one sender in one message of the queue.
- `cloud_event`: EventBridge events of AWS services, which arrive on the same queue.
- `archive_lines`: timeline entries as lines of the S3 archive, and the keys of its objects.

Tests: tests/storage/test_message.py and tests/archive.
"""
