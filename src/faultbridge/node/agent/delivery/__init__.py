"""Delivery: keeps records on disk until the queue has accepted them.

Read `records` (the stored form), `outbox` (records on disk), `sender` (when they are sent, again, or put into
quarantine) and `transport` (SQS and S3 over HTTP, with the role of the node).
"""
