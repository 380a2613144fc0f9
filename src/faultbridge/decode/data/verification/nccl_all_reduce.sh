# NCCL all-reduce over all GPUs of this instance, with a check of the results. Output: that of nccl-tests.
tool=$(command -v all_reduce_perf || ls /opt/nccl-tests/build/all_reduce_perf /usr/local/cuda*/efa/test-cuda*/all_reduce_perf 2>/dev/null | head -n 1)
[ -n "$tool" ] || { echo "all_reduce_perf is not installed"; exit 127; }
gpus=$(nvidia-smi -L | grep -c '^GPU')
exec "$tool" -b 1G -e 8G -f 2 -g "$gpus" -n 20 -c 1
