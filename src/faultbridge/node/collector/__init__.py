"""The collector: sends nodes, events and jobs of a Kubernetes cluster to the queue; one per cluster.

After a restart it lists all objects again, so it needs no stored state; ingest discards what is repeated. Read
`handlers` (nodes and events), `jobs` (jobs from their pods), then `collector` (follows the objects, sends the records).
"""
