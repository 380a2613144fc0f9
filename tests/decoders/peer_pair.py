"""Two instances whose tools and PyTorch are fakes, and what the tests between them print."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from faultbridge.decode.verification import DeepResult, PeerChecks, peer_tests, script_of
from faultbridge.model.values import replace
from tests.decoders.deep_checks import DOMAINS, HEADING, ROW, TYPE, loopback

EFA_PASSED = "efa-peer-pair passed: 4 EFA devices; the slowest has 6102 MB/s"
NCCL_PASSED = "nccl-peer-pair passed: 201.3 GB/s bus bandwidth; at least 25 expected"
SERVER = "10.0.0.7"
NEEDED = ("sh", "timeout", "sed", "sort", "cat", "touch", "rm", "head", "tail", "cut", "grep", "mktemp")
NCCL_LOG = """ip-10-0-0-8:8715:9546 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 4 nics)
ip-10-0-0-8:8715:9546 [0] NCCL INFO Using network Libfabric
ip-10-0-0-8:8715:9546 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [send] via NET/Libfabric/0/GDRDMA
"""
FAKE_TORCH = Path(__file__).parent / "fake_torch"
REFUSED = "[error] util/pingpong.c:408 : failed to connect: Connection refused"
LISTENING = f"""all=" $*" domain=$6
for last; do :; done
case "$*" in *" -P "*) ;; *) echo "$domain" > "$SHARED/$last"; exit 0;; esac
while [ "$1" != -P ]; do shift; done
[ -e "$SHARED/$2" ] || {{ echo "{REFUSED}"; exit 111; }}
[ "$(cat "$SHARED/$2")" = "$domain" ] || exit 22
"""
"""The begin of a fake fi_pingpong: a server leaves its domain in a file named after its port."""


class Pair:
    """Two instances whose tools are fakes on the path; they share a folder in place of a network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for host, address in (("server", f"172.17.0.1 {SERVER}"), ("client", "10.0.0.8")):
            (folder / host).mkdir()
            for name in NEEDED:
                (folder / host / name).symlink_to(str(shutil.which(name)))
            self.install(host, "hostname", f'echo "{address} "')
            self.install(host, "sleep", "exit 0")
            self.install(host, "date", 'echo x >> "$SHARED/date"; set -- $(cat "$SHARED/date"); echo $(($# * 20))')
            domains = "\n".join(f"provider: efa\n    domain: {name}\n    type: FI_EP_RDM" for name in DOMAINS)
            self.install(host, "fi_info", f"cat <<'END'\n{domains}\n{domains}\nEND")
            self.install(host, "fi_pingpong", f"{LISTENING}cat <<'END'\n{HEADING}{ROW}END")
            self.install(host, "ldconfig", f'echo "\tlibnccl-net.so (libc6,x86-64) => {folder}/libnccl-net.so"')
            self.install_python(host)
        for name, source in (("", "__init__"), ("distributed", "distributed"), ("distributed", "launcher")):
            package = folder / "site" / "torch" / name
            package.mkdir(parents=True, exist_ok=True)
            target = "run.py" if source == "launcher" else "__init__.py"
            shutil.copy(FAKE_TORCH / f"{source}.py", package / target)
        (folder / "shared").mkdir()
        (folder / "temporary").mkdir()
        (folder / "libnccl-net.so").touch()

    def install(self, host: str, name: str, script: str) -> None:
        tool = self.folder / host / name
        tool.parent.mkdir(parents=True, exist_ok=True)
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)

    def install_python(
        self, host: str, fault: str = "", log: str = NCCL_LOG, gpus: int = 8, name: str = "python3"
    ) -> None:
        """Install Python with a fake PyTorch whose GPUs have this fault and whose NCCL writes this log."""
        self.folder.joinpath(f"{host}.log").write_text(log)
        set_up = f'PYTHONPATH="{self.folder}/site" TORCH_FAULT="{fault}" GPUS={gpus}'
        self.install(host, name, f'{set_up} NCCL_LOG={self.folder}/{host}.log exec {sys.executable} "$@"')

    def run(self, host: str, seconds: int = 60) -> bytes:
        shared, temporary = self.folder / "shared", self.folder / "temporary"
        environment = {"PATH": str(self.folder / host), "SHARED": str(shared), "TMPDIR": str(temporary)}
        tests = [replace(one, script=f"server={SERVER}\n{one.script}", seconds=seconds) for one in peer_tests()]
        script = "\n".join(script_of(tests)).replace("/opt/", f"{self.folder}/{host}/opt/")
        ran = subprocess.run(("/bin/sh", "-c", script), env=environment, capture_output=True, check=False)
        assert ran.stderr == b""
        return ran.stdout

    def serve_nccl(self) -> None:
        """Let the server of the all-reduce answer, without running it."""
        (self.folder / "shared" / f"{SERVER} 47600").touch()

    def result(self, level: int = 4) -> DeepResult:
        self.run("server")
        return self.client(level)

    def client(self, level: int = 4) -> DeepResult:
        """Run the client alone and return its result."""
        return PeerChecks().read(self.run("client"), level, TYPE, len(DOMAINS))


def row(
    step: int, *, steps: int = 3, ranks: int = 16, speed: float = 40.0, wrong: int = 0, efa: int | None = None
) -> str:
    """One line of the program that runs on both instances."""
    counts = {"bytes": 1 << 27 + step, "ranks": ranks, "gigabytes_per_second": speed, "wrong": wrong}
    used = {"efa": ranks if efa is None else efa, "network": "Libfabric efa"}
    return json.dumps({"step": step, "steps": steps, **counts, **used}) + "\n"


def all_reduce(speed: float = 40.0, *, ranks: int = 16, wrong: int = 0, efa: int | None = None) -> str:
    return "".join(row(step, ranks=ranks, speed=speed, wrong=wrong, efa=efa) for step in (1, 2, 3))


def both(efa_text: str = "", nccl_text: str = "", statuses: tuple[int, int] = (0, 0)) -> bytes:
    """The output of the client: both tests."""
    texts = {"efa-peer-pair": efa_text or loopback(), "nccl-peer-pair": nccl_text or all_reduce()}
    return "".join(
        f"\n#faultbridge begin {name}\n{text}\n#faultbridge end {name} {status}\n"
        for (name, text), status in zip(texts.items(), statuses, strict=True)
    ).encode()
