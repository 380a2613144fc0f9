"""The gateway: accepts records of senders that cannot write to the queue, and puts them on the queue.

Webhooks arrive through API Gateway, batches of log lines through a CloudWatch Logs subscription. The gateway checks
the sender and the size, keeps the body as it is, and decodes nothing. Read in this order:

- `webhooks`: accepts posts of configured senders: Alertmanager, Grafana, gpud and others.
- `senders`: who may post, and how each sender proves itself.
- `signature`: signs webhook bodies and checks their signatures.
- `authorization`: checks bearer tokens and passwords of senders that cannot sign.
- `log_subscription`: accepts batches of CloudWatch Logs, one record a batch.
- `forward`: puts messages on the queue; large bodies go to the object store.

`entrypoints.intake` is the Lambda function that calls these.

Tests: tests/gateway.
"""
