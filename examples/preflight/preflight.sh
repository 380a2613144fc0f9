#!/bin/sh
# May this node serve? A prolog of Slurm, or an init container, asks Faultbridge before work starts.
# Exit code 0: yes, or unknown. 1: no. Settings, from the environment or /etc/faultbridge/preflight.env:
#   FAULTBRIDGE_URL         the output ApiUrl of the stack
#   FAULTBRIDGE_CLUSTER     the cluster
#   FAULTBRIDGE_NODE        the node; default: NODE_NAME, else the short host name
#   FAULTBRIDGE_TOKEN_FILE  a JSON Web Token; without it, the request is signed for IAM (curl 7.75 or newer)
#   FAULTBRIDGE_REGION      the region of the stack, for IAM
#   FAULTBRIDGE_UNKNOWN=refuse   without an answer, refuse; by default the node serves (fail open)
#   FAULTBRIDGE_REFUSE=no   only report; use it on AWS ParallelCluster, which terminates a node whose prolog fails
set -u
settings=${FAULTBRIDGE_SETTINGS:-/etc/faultbridge/preflight.env}
# shellcheck source=/dev/null
[ ! -r "$settings" ] || . "$settings"
node=${FAULTBRIDGE_NODE:-${NODE_NAME:-$(hostname -s)}}
cache=${FAULTBRIDGE_CACHE:-/run/faultbridge-preflight}-$node.json
url=${FAULTBRIDGE_URL%/}/clusters/$FAULTBRIDGE_CLUSTER/nodes/$node/preflight
metadata=http://169.254.169.254/latest

end() { # message, exit code
  echo "faultbridge preflight: $node: $1" >&2
  [ "${FAULTBRIDGE_REFUSE:-yes}" = yes ] || exit 0
  exit "$2"
}

value() { printf %s "$credentials" | tr -d '\n' | sed -n "s/.*\"$1\" *: *\"\([^\"]*\)\".*/\1/p"; }

# The role of a pod (EKS Pod Identity), else of the instance.
read_credentials() {
  if [ -n "${AWS_CONTAINER_CREDENTIALS_FULL_URI:-}" ]; then
    curl -sf -m 2 -H "Authorization: $(cat "$AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")" \
      "$AWS_CONTAINER_CREDENTIALS_FULL_URI"
  else
    session=$(curl -sf -m 2 -X PUT -H "X-aws-ec2-metadata-token-ttl-seconds: 60" $metadata/api/token) || return
    role=$(curl -sf -m 2 -H "X-aws-ec2-metadata-token: $session" $metadata/meta-data/iam/security-credentials/) || return
    curl -sf -m 2 -H "X-aws-ec2-metadata-token: $session" "$metadata/meta-data/iam/security-credentials/$role"
  fi
}

# Secrets go through standard input, because every user can read the arguments of a process.
ask() {
  if [ -n "${FAULTBRIDGE_TOKEN_FILE:-}" ]; then
    printf 'header = "Authorization: Bearer %s"\n' "$(cat "$FAULTBRIDGE_TOKEN_FILE")"
  else
    credentials=$(read_credentials) || return 1
    printf 'aws-sigv4 = "aws:amz:%s:execute-api"\n' "${FAULTBRIDGE_REGION:-${AWS_REGION:-}}"
    printf 'user = "%s:%s"\n' "$(value AccessKeyId)" "$(value SecretAccessKey)"
    printf 'header = "x-amz-security-token: %s"\n' "$(value Token)"
  fi | curl -sf -m 5 -K - "$url"
}

# An answer counts for one minute, so that many jobs on a node ask once.
if [ -n "$(find "$cache" -mmin -1 2>/dev/null)" ]; then
  answer=$(cat "$cache")
else
  answer=$(ask) || answer=
  (umask 077 && printf %s "$answer" >"$cache.new" && mv "$cache.new" "$cache") 2>/dev/null
fi
case $(printf %s "$answer" | tr -d ' \n') in
  *'"serves":true'*) exit 0 ;;
  *'"serves":false'*) end "must not serve: $answer" 1 ;;
esac
[ "${FAULTBRIDGE_UNKNOWN:-serve}" = refuse ] && end "no answer from $url" 1
end "no answer from $url; it serves" 0
