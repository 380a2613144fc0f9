#!/bin/bash
# Installs the node agent from a HyperPod life-cycle script. Call it from on_create.sh, with these in the environment:
#   FAULTBRIDGE_CLUSTER, FAULTBRIDGE_QUEUE_URL, FAULTBRIDGE_BUCKET   where to send (outputs of the stack)
#   FAULTBRIDGE_PACKAGE                                               an s3:// or file path of the wheel, or a requirement
# It never fails the creation of a node: an agent that cannot be installed is worth less than the node.
set -u

readonly VENV=/opt/faultbridge STATE=/etc/faultbridge
readonly RESOURCES=${FAULTBRIDGE_RESOURCES:-/opt/ml/config/resource_config.json}

log() { echo "faultbridge agent: $*"; }

python_at_hand() {
  for candidate in python3.13 python3.12 python3.11 python3; do
    if command -v "$candidate" >/dev/null &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

# HyperPod knows the instance behind an address; the metadata service is asked by the agent where this finds none.
instance_id() {
  "$1" - "$RESOURCES" <<'PYTHON'
import json, subprocess, sys
try:
    own = set(subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split())
    groups = json.load(open(sys.argv[1], encoding="utf-8"))["InstanceGroups"]
    found = [one.get("InstanceId", "") for group in groups for one in group["Instances"] if one["CustomerIpAddress"] in own]
    print(found[0] if found and found[0].startswith("i-") else "")
except (OSError, ValueError, KeyError, subprocess.SubprocessError):
    print("")
PYTHON
}

install_agent() {
  local python package=${FAULTBRIDGE_PACKAGE:-faultbridge}
  python=$(python_at_hand) || { log "there is no Python 3.11 or newer"; return 1; }
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

  sed "s|^ExecStart=.*|ExecStart=$VENV/bin/python -m faultbridge.agent|" \
    "$(dirname "$0")/faultbridge-agent.service" >/etc/systemd/system/faultbridge-agent.service || return 1
  systemctl daemon-reload && systemctl enable --now faultbridge-agent.service
}

if [ -z "${FAULTBRIDGE_CLUSTER:-}" ] || [ -z "${FAULTBRIDGE_QUEUE_URL:-}" ]; then
  log "not installed: FAULTBRIDGE_CLUSTER and FAULTBRIDGE_QUEUE_URL are not set"
elif install_agent; then
  log "installed"
else
  log "not installed; the node goes on without it"
fi
exit 0
