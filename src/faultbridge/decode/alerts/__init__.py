"""The decoders of monitoring systems: `webhooks` for Alertmanager and Grafana, `gpud` for GPUd."""
