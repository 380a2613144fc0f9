"""From a wheel to a running installation: the packaged template, its deployment, and what it connects to.

- `packaging`: the template and the archives that it deploys, from the wheel or from a checkout.
- `cloudformation`: uploads them and creates, updates or deletes a stack.
"""
