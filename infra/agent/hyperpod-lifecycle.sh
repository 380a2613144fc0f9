#!/bin/bash
# Installs the node agent from a HyperPod lifecycle script. Call it from on_create.sh with these environment variables:
#   FAULTBRIDGE_CLUSTER, FAULTBRIDGE_QUEUE_URL, FAULTBRIDGE_BUCKET   the destination (outputs of the stack)
#   FAULTBRIDGE_PACKAGE                                               s3:// or file path of the wheel, or a pip requirement
# It always exits with 0: a failed installation of the agent must not fail the creation of the node.
set -u

readonly VENV=/opt/faultbridge STATE=/etc/faultbridge
readonly RESOURCES=${FAULTBRIDGE_RESOURCES:-/opt/ml/config/resource_config.json}

log() { echo "faultbridge agent: $*"; }

find_python() {
  for candidate in python3.13 python3.12 python3.11 python3; do
    if command -v "$candidate" >/dev/null &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

# HyperPod lists the instance id of each IP address; without a match the agent asks the instance metadata service.
instance_id() {
  "$1" - "$RESOURCES" <<'PYTHON'
import json, subprocess, sys
try:
    addresses = set(subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split())
    groups = json.load(open(sys.argv[1], encoding="utf-8"))["InstanceGroups"]
    instances = [instance for group in groups for instance in group["Instances"]]
    found = [one.get("InstanceId", "") for one in instances if one["CustomerIpAddress"] in addresses]
    print(found[0] if found and found[0].startswith("i-") else "")
except (OSError, ValueError, KeyError, subprocess.SubprocessError):
    print("")
PYTHON
}

install_agent() {
  local python package=${FAULTBRIDGE_PACKAGE:-faultbridge}
  python=$(find_python) || { log "Python 3.11 or newer is not installed"; return 1; }
  "$python" -m venv "$VENV" || return 1
  case "$package" in
    s3://*)
      local wheel
      wheel=/tmp/$(basename "$package")
      aws s3 cp --only-show-errors "$package" "$wheel" || return 1
      package=$wheel
      ;;
  esac
  "$VENV/bin/pip" install --quiet --no-deps "$package" || return 1

  install -d -m 0755 "$STATE"
  umask 077
  {
    echo "FAULTBRIDGE_AGENT_CLUSTER=$FAULTBRIDGE_CLUSTER"
    echo "FAULTBRIDGE_AGENT_QUEUE_URL=$FAULTBRIDGE_QUEUE_URL"
    echo "FAULTBRIDGE_AGENT_BUCKET=${FAULTBRIDGE_BUCKET:-}"
    echo "FAULTBRIDGE_AGENT_INSTANCE_ID=$(instance_id "$python")"
  } >"$STATE/agent.env"

  sed "s|^ExecStart=.*|ExecStart=$VENV/bin/python -m faultbridge.node.agent|" \
    "$(dirname "$0")/faultbridge-agent.service" >/etc/systemd/system/faultbridge-agent.service || return 1
  systemctl daemon-reload && systemctl enable --now faultbridge-agent.service
}

if [ -z "${FAULTBRIDGE_CLUSTER:-}" ] || [ -z "${FAULTBRIDGE_QUEUE_URL:-}" ]; then
  log "not installed: FAULTBRIDGE_CLUSTER and FAULTBRIDGE_QUEUE_URL must be set"
elif install_agent; then
  log "installed"
else
  log "not installed: see the errors above; the node starts without the agent"
fi
exit 0
