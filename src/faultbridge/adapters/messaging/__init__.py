"""The event bus, the queues, executions of repair attempts, and delivery receipts.

Read in this order:

- `eventbridge`: publishes events
- `sqs`: sends and receives raw records, and reads the age of the oldest message
- `step_functions`: starts, reads and resumes executions
- `receipts`: log of records sent and of their outcomes
- `batches`: splits a sequence into batches within the limits of one call
"""
