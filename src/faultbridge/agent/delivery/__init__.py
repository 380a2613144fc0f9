"""Delivery: keeps records on disk until the queue has accepted them.

Reading order: `records` (the stored form of a record), `spool` (records on disk, and the outbox between both threads),
`sender` (batches, backoff), `transport` (SQS and S3 over HTTP), `signing` (role credentials and Signature Version 4).
"""
