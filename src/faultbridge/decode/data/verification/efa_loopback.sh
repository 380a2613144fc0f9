# A ping-pong over each EFA device of this instance with itself, with a check of the data. Output: that of fi_pingpong.
PATH="$PATH:/opt/amazon/efa/bin"
command -v fi_info >/dev/null && command -v fi_pingpong >/dev/null || { echo "libfabric's tools are not installed"; exit 127; }
export FI_EFA_ENABLE_SHM_TRANSFER=0 # otherwise shared memory would be tested
try() { # try DOMAIN SECONDS: the seconds that the server has to start
  timeout -k 2 30 fi_pingpong -p efa -e rdm -d "$1" -c -I 100 -S 1048576 >/dev/null 2>&1 &
  sleep "$2"
  timeout -k 2 10 fi_pingpong -p efa -e rdm -d "$1" -c -I 100 -S 1048576 127.0.0.1 2>&1
  status=$?
  kill $! 2>/dev/null # a server that no client reached
  wait
  return $status
}
for domain in $(fi_info -p efa -t FI_EP_RDM | sed -n 's/^ *domain: *//p' | sort -u); do
  echo "domain: $domain"
  # A device fails only if it fails twice: the server may have started late.
  output=$(try "$domain" 1) || { echo "# retried after exit status $?"; output=$(try "$domain" 4); }
  status=$?
  echo "$output" | tail -c 480 # SSM returns 24,000 characters, for up to 32 devices
  echo "exit: $status"
done
