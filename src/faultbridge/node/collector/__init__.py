"""The collector: sends node conditions, node events and jobs of a Kubernetes cluster to the queue.

One collector process runs per cluster. After a restart, the process lists all objects again, so it needs no stored
state. Ingest discards repeated events and job reports.

Read in this order:

- `handlers`: converts nodes and events to records. Stores which records were sent for each node. Stores the records
  of listed and changed nodes and events
- `jobs`: reads which job and node a pod has, its position in the job, and whether it ended. Reports the start and end
  of jobs from their pods
- `collector`: lists and watches one kind of object, and continues after every failure. Runs the followers, and sends
  the records by the sender of the node agent
"""
