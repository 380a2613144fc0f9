#!/bin/bash
# HealthCheckProgram and Epilog for Slurm, on nodes without the agent service: runs each probe once and sends the
# records (45 s).
#   slurm.conf:  HealthCheckProgram=/opt/faultbridge/slurm-health-check.sh
#                HealthCheckInterval=120
#                HealthCheckNodeState=ANY
#                Epilog=/opt/faultbridge/slurm-health-check.sh
# Slurm kills a HealthCheckProgram after 60 s, and drains a node whose epilog fails. It always exits with 0: it changes
# and drains nothing, and Faultbridge decides about each fault outside the node. Slurm gives the node no other job before
# its epilog ends; there it stops after 50 s. On a node with the agent service, or while it runs already, it exits at once.
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
timeout --kill-after=5 50 nice -n 19 "$PYTHON" -m faultbridge.node.agent --once >/dev/null 2>&1
exit 0
