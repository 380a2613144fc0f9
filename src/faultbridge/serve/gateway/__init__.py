"""The gateway: accepts records of senders that cannot write to the queue, and puts them on the queue.

Webhooks arrive through API Gateway, batches of log lines through a CloudWatch Logs subscription. The gateway checks the
size of the body and, for a webhook, the identity of the sender. Ingest, not the gateway, reads the faults in the body.
Read in this order:

- `webhooks`: accepts posts of configured senders: Alertmanager, Grafana, gpud and others. Which senders may post, and
  how each proves its identity: by a signature of the body, or by a bearer token or password.
- `log_subscription`: accepts batches of CloudWatch Logs, and makes one record of each batch. Puts messages on the
  queue; large bodies are stored in the object store.

`entrypoints.intake` is the Lambda function that calls these modules.

Tests: tests/gateway.
"""
