# A ping-pong over each EFA device of this instance with the same device of another one, with a check of the data.
# Both run this script; `server` is the address of the one that answers. The other one prints what fi_pingpong prints.
PATH="$PATH:/opt/amazon/efa/bin"
command -v fi_info >/dev/null && command -v fi_pingpong >/dev/null || { echo "libfabric's tools are not installed"; exit 127; }
pingpong() { # pingpong SECONDS DOMAIN ARGUMENT...; in the foreground, so that the limit of the whole test ends it too
  seconds=$1 domain=$2
  shift 2
  timeout --foreground -k 2 "$seconds" fi_pingpong -p efa -e rdm -d "$domain" -c -I 100 -S 1048576 "$@" 2>&1
}
domains=$(fi_info -p efa -t FI_EP_RDM | sed -n 's/^ *domain: *//p' | LC_ALL=C sort -u)
port=47600
case " $(hostname -I) " in
*" $server "*)
  for domain in $domains; do
    port=$((port + 1))
    # A device that fails is tried once more, so it answers twice.
    { pingpong 500 "$domain" -B "$port" || pingpong 500 "$domain" -B "$port"; } >/dev/null &
  done
  wait
  exit 0
  ;;
esac
until=$(($(date +%s) + 180)) reached= # SSM may start the other instance that much later
for domain in $domains; do
  port=$((port + 1))
  echo "domain: $domain"
  while output=$(pingpong 10 "$domain" -P "$port" "$server"); status=$?; [ "$status" = 111 ]; do # ECONNREFUSED
    [ "$(date +%s)" -lt "$until" ] || break
    sleep 3
  done
  if [ "$status" != 0 ] && [ "$status" != 111 ]; then
    echo "# retried after exit status $status"
    sleep 4
    again=$(pingpong 10 "$domain" -P "$port" "$server")
    retried=$?
    # A server that is still in the first exchange refuses the second one, which shows nothing about the device.
    [ "$retried" = 111 ] || { output=$again status=$retried; }
  fi
  if [ "$status" != 111 ] && [ -z "$reached" ]; then
    reached=1 late=$(($(date +%s) + 30)) # the servers of the other devices may start a moment later
    [ "$late" -le "$until" ] || until=$late
  fi
  echo "$output" | tail -c 480 # SSM returns 24,000 characters, for up to 32 devices
  echo "exit: $status"
done
