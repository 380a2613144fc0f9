"""The collector: sends node conditions, node events and jobs of a Kubernetes cluster to the queue.

It is one process per cluster. It needs no state from before a restart, because it then lists all objects again. Ingest
discards the events and job reports that it has already received.

Read in this order:

- `node_records`: converts nodes and events to records
- `sent_states`: stores which records were sent for each node
- `handlers`: stores the records of listed and changed nodes and events
- `job_pods`: reads which job and node a pod has, its position in the job, and whether it ended
- `job_handler`: reports the start and end of jobs from their pods
- `follower`: lists and watches one kind of object, and continues after every failure
- `collector`: runs the followers, and sends the records by the sender of the node agent
"""
