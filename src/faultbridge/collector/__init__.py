"""The collector: sends the conditions and events of all nodes of a Kubernetes cluster, and its jobs, to the queue.

It is one process for one cluster, and keeps no state that a restart loses: it lists all objects again, and ingest
removes what it already has.

Read in this order:

- `node_records`: which records an object becomes
- `sent_states`: what was sent of each node
- `handlers`: stores the records of listed and changed objects
- `job_pods`: the job, node, order and end of a pod
- `job_handler`: reports the start and end of jobs from their pods
- `follower`: lists and watches one kind of object, and continues after every failure
- `collector`: the followers and the sender of the node agent
"""
