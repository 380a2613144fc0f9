"""Delivery: keeps records on disk until the queue has accepted them.

Read in this order:

- `records`: the stored form of a record
- `outbox`: records on disk. Passes records from the main loop to the sender thread. Reports a record that cannot be
  sent
- `sender`: when records are sent, sent again or put into quarantine. Records that are sent again later. Sends what is
  stored before a process ends. The time of AWS
- `transport`: several records in one queue message. Role credentials and Signature Version 4
- `sender`, `transport`: SQS and S3 over HTTP
"""
