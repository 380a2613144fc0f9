"""Delivery: keeps records on disk until the queue has accepted them.

Reading order: `records` (the stored form of a record), `spool` (records on disk), `outbox` (between both threads),
`sender` (waiting, backoff, quarantine), `postponed` (records that are sent again later), `messages` (records that share
a message), `quarantine_notice`, `transport` (SQS and S3 over HTTP), `service_clock`, `signing` (role credentials and
Signature Version 4).
"""
