#!/bin/bash
# PrologSlurmctld and EpilogSlurmctld for Slurm: reports to Faultbridge when each job starts and how it ends.
#   slurm.conf:  PrologSlurmctld=/opt/faultbridge/slurm-job.sh
#                EpilogSlurmctld=/opt/faultbridge/slurm-job.sh
# Slurm runs it on the host of slurmctld, as SlurmUser. It needs the command `faultbridge`, credentials that may record
# jobs, and /etc/faultbridge/slurm-job.env with FAULTBRIDGE_CLUSTER, and AWS_REGION if the host has no other setting.
# It always exits with 0, after at most 20 s: Slurm would requeue a job whose prolog fails.
set -u

readonly SETTINGS=${FAULTBRIDGE_SETTINGS:-/etc/faultbridge/slurm-job.env}
if [ -r "$SETTINGS" ]; then
  set -a
  # shellcheck source=/dev/null
  . "$SETTINGS"
  set +a
fi
readonly COMMAND=${FAULTBRIDGE_COMMAND:-/opt/faultbridge/bin/faultbridge}
readonly CLUSTER=${FAULTBRIDGE_CLUSTER:-${SLURM_CLUSTER_NAME:-}}

report() {
  timeout --kill-after=2 18 "$COMMAND" job "$@" --cluster "$CLUSTER" 2>&1 >/dev/null | logger -t faultbridge-slurm-job
}

# A job is COMPLETING until its epilog has ended; only then Slurm states how it ended. The exit code does not: it is 0:0
# for jobs that a user or the scheduler ended too.
final_state() {
  local state
  for _ in $(seq 60); do
    state=$(scontrol --oneliner show job "$SLURM_JOB_ID" 2>/dev/null | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p')
    [ "$state" = COMPLETING ] || break
    sleep 1
  done
  echo "${state:-unknown}"
}

report_end() {
  local state outcome
  state=$(final_state)
  case "$state" in
    COMPLETED) outcome=succeeded ;;
    CANCELLED) outcome=${state,,} ;;
    FAILED | OUT_OF_MEMORY | BOOT_FAIL | NODE_FAIL) outcome=failed ;;
    *) outcome=unreported ;; # a time limit or a preemption, or Slurm has requeued the job or does not answer
  esac
  report end "$SLURM_JOB_ID" --outcome "$outcome" --reason "$state, exit code ${SLURM_JOB_EXIT_CODE2:-unknown}" --at "$1"
}

case "${SLURM_SCRIPT_CONTEXT:-}" in
  prolog_slurmctld)
    report start "$SLURM_JOB_ID" --node "$SLURM_JOB_NODELIST" --name "$SLURM_JOB_NAME" --again
    ;;
  epilog_slurmctld)
    # In a session of its own, because Slurm ends the processes of the epilog with it.
    SLURM_SCRIPT_CONTEXT=ended setsid "$0" "$(date -u +%FT%TZ)" </dev/null >/dev/null 2>&1 &
    ;;
  ended)
    report_end "$1"
    ;;
esac
exit 0
