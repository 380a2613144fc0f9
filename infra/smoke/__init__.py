"""A smoke test on a real AWS account: deploy, break a node, replace it, page, audit, verify, remove everything.

Modules in reading order: `plan` states what is created, called and paid before anything happens, `run` has what every
step uses, `steps` lists the steps, `fleet` creates the instances and the page queue, `cleanup` removes everything by
name, and `__main__` is the command (docs/deploy.md).
"""
