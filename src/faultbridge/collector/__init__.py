"""The collector: sends node conditions, node events and jobs of a Kubernetes cluster to the queue.

One collector process runs per cluster. After a restart, the process lists all objects again, so it needs no stored
state. Ingest discards repeated events and job reports.

Read in this order:

- `node_records`: converts nodes and events to records
- `sent_states`: stores which records were sent for each node
- `handlers`: stores the records of listed and changed nodes and events
- `job_pods`: reads which job and node a pod has, its position in the job, and whether it ended
- `job_handler`: reports the start and end of jobs from their pods
- `follower`: lists and watches one kind of object, and continues after every failure
- `collector`: runs the followers, and sends the records by the sender of the node agent
"""
