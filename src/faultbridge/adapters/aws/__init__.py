"""Access to AWS: clients, credentials, error conversion, stack data, and the assembly of all adapters.

Read in this order:

- `clients`: clients of AWS services with time-outs, retries and endpoints
- `credentials`: roles in other accounts, and the ARN of the caller
- `errors`: AWS errors converted to `FaultbridgeError`
- `adapters.hyperpod.cluster`: checks for operations that the installed boto3 may lack
- `stack`: outputs and secrets of the deployed stack
- `ports`: builds the adapters that reach the instances of a cluster. `AwsPorts`, which builds every adapter on first
  use
"""
