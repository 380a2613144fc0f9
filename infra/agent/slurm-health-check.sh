#!/bin/bash
# HealthCheckProgram for Slurm, on nodes without the agent service: runs each probe once and sends the records (45 s).
#   slurm.conf:  HealthCheckProgram=/opt/faultbridge/slurm-health-check.sh
#                HealthCheckInterval=120
#                HealthCheckNodeState=ANY
# Slurm kills it after 60 s. It changes and drains nothing: Faultbridge decides about each fault outside the node. On a
# node with the agent service it exits at once.
set -u

readonly LOCK=${FAULTBRIDGE_LOCK:-/run/faultbridge-agent.lock}
readonly PYTHON=${FAULTBRIDGE_PYTHON:-/opt/faultbridge/bin/python}

if command -v systemctl >/dev/null && systemctl is-active --quiet faultbridge-agent.service; then
  exit 0
fi
if [ -r /etc/faultbridge/agent.env ]; then
  set -a
  # shellcheck source=/dev/null
  . /etc/faultbridge/agent.env
  set +a
fi
exec 9>"$LOCK" || exit 0
flock -n 9 || exit 0
timeout --kill-after=5 50 nice -n 19 "$PYTHON" -m faultbridge.agent --once >/dev/null 2>&1
exit 0
