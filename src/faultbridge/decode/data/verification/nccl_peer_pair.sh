# An NCCL all-reduce over EFA by all GPUs of this instance and of another one, with a check of the results.
# Both run this script; at `server` the ranks meet. The other one prints a line of JSON for each size.
PATH="$PATH:/usr/sbin:/sbin"
for plugin in /opt/amazon/ofi-nccl/lib*/libnccl-net.so /opt/amazon/ofi-nccl/lib/*/libnccl-net.so \
  /opt/aws-ofi-nccl/lib*/libnccl-net.so "$(ldconfig -p | sed -n 's/.*libnccl-net\.so .*=> //p' | head -n 1)"; do
  [ -e "$plugin" ] && break
done
[ -e "$plugin" ] || { echo "AWS's OFI NCCL plugin is not installed"; exit 127; }
libraries="${plugin%/*}:/opt/amazon/efa/lib64:/opt/amazon/efa/lib"
export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" FI_PROVIDER=efa
export NCCL_SOCKET_IFNAME="^lo,docker,veth" # for the set-up; the data use EFA
usable='import sys, torch, torch.distributed as d
torch.cuda.is_available() or sys.exit("PyTorch finds no CUDA device")
d.is_available() and d.is_nccl_available() or sys.exit("PyTorch is built without NCCL")'
python= reason= # the first reason counts: the first two places are those of AWS Deep Learning AMIs
for each in /opt/pytorch/bin/python /opt/conda/envs/pytorch/bin/python python3; do
  command -v "$each" >/dev/null || continue
  if said=$("$each" -c "$usable" 2>&1); then python=$each; break; fi
  reason=${reason:-$said}
done
[ -n "$python" ] || { echo "${reason:-PyTorch is not installed}" | tail -n 1 | cut -c 1-200; exit 127; }
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 124' TERM
cat >"$folder/all_reduce.py" <<'END'
import json, os, re, signal, sys, time
from datetime import timedelta

import torch
import torch.distributed as dist

ALARM, TIMEOUT = 150, 60  # seconds: of this process, and of one collective
SIZES = (1 << 28, 1 << 29, 1 << 30)  # bytes
WARMUPS, ROUNDS = 5, 20
EFA = re.compile(r"(AWS Libfabric|Libfabric|OFI) efa")  # the names of AWS's plugin, with its provider

signal.alarm(ALARM)  # a GPU or a network that hangs cannot keep this process
backend, cuda = sys.argv[1], sys.argv[1] == "nccl"
rank, ranks, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
log = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"nccl.{rank}")
os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,NET", NCCL_DEBUG_FILE=log)
device = torch.device("cuda", local) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(device)
dist.init_process_group(backend, timeout=timedelta(seconds=TIMEOUT))


def wait():
    if cuda:
        torch.cuda.synchronize()


def network():
    """The network of this rank and its libfabric provider by NCCL's own log, such as `Libfabric efa`, or ''."""
    text = open(log, errors="replace").read(1 << 20) if os.path.exists(log) else ""
    used = re.findall(r"NCCL INFO Using network ([\w /.-]{1,32})$", text, re.M)
    provider = re.findall(r"NET/OFI Selected [Pp]rovider is (\w{1,16})", text)
    return " ".join(sorted(set(used)) + sorted(set(provider)))


for step, size in enumerate(SIZES, 1):
    pattern = (torch.arange(size // 4, dtype=torch.int32, device=device) % 251).float()  # the sums are exact in float32
    values = pattern + rank
    for _ in range(WARMUPS):
        dist.all_reduce(values)
    wait()
    start = time.perf_counter()
    for _ in range(ROUNDS):
        dist.all_reduce(values)
    wait()
    seconds = (time.perf_counter() - start) / ROUNDS
    values = pattern + rank
    dist.all_reduce(values)
    wrong = int((values != pattern * ranks + ranks * (ranks - 1) // 2).sum())
    used = network()
    mine = torch.tensor([seconds, wrong, bool(EFA.fullmatch(used))], dtype=torch.float64, device=device)
    every = [torch.empty_like(mine) for _ in range(ranks)]
    dist.all_gather(every, mine)
    times, errors, efa = zip(*(one.tolist() for one in every))
    if local == 0:
        bus = size / max(times) * 2 * (ranks - 1) / ranks / 1e9  # the bus bandwidth of nccl-tests
        found = {"step": step, "steps": len(SIZES), "bytes": size, "ranks": ranks, "gigabytes_per_second": round(bus, 2)}
        print(json.dumps({**found, "wrong": int(sum(errors)), "efa": int(sum(efa)), "network": used[:64]}), flush=True)
dist.destroy_process_group()
END
case " $(hostname -I) " in *" $server "*) node=0 ;; *) node=1 ;; esac
"$python" -m torch.distributed.run --nnodes 2 --node_rank "$node" --nproc_per_node gpu --master_addr "$server" \
  --master_port 47600 --rdzv_conf timeout=120 "$folder/all_reduce.py" nccl >"$folder/results" 2>"$folder/errors"
status=$?
[ "$node" = 1 ] || exit 0
head -c 4096 "$folder/results"
[ "$status" = 0 ] || grep -m 1 -aE '^(\[rank[0-9]+\]: )?[A-Za-z_.]+Error: .| Signal [0-9]+ ' "$folder/errors" | cut -c 1-240
exit "$status"
