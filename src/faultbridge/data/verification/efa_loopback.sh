# A ping-pong over each EFA device of this instance with itself, with a check of the data. Output: that of fi_pingpong.
PATH="$PATH:/opt/amazon/efa/bin"
command -v fi_info >/dev/null && command -v fi_pingpong >/dev/null || { echo "libfabric's tools are not installed"; exit 127; }
export FI_EFA_ENABLE_SHM_TRANSFER=0 # otherwise shared memory would be tested
for domain in $(fi_info -p efa -t FI_EP_RDM | sed -n 's/^ *domain: *//p' | sort -u); do
  echo "domain: $domain"
  timeout 15 fi_pingpong -p efa -e rdm -d "$domain" -c -I 100 -S 1048576 >/dev/null 2>&1 &
  sleep 1
  timeout 10 fi_pingpong -p efa -e rdm -d "$domain" -c -I 100 -S 1048576 127.0.0.1
  echo "exit: $?"
  wait
done
