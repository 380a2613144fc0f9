"""Delivery: keeps records on disk until the queue has accepted them.

Read in this order:

- `records`: the stored form of a record
- `spool`: records on disk
- `outbox`: passes records from the main loop to the sender thread
- `sender`: when records are sent, sent again or put into quarantine
- `postponed`: records that are sent again later
- `final_send`: sends what is stored before a process ends
- `messages`: several records in one queue message
- `quarantine_notice`: reports a record that cannot be sent
- `transport_contract`, `transport`: SQS and S3 over HTTP
- `service_clock`: the time of AWS
- `signing`: role credentials and Signature Version 4
"""
