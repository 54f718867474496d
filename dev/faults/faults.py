#!/usr/bin/env python3
"""Makes files, memory and processes fail under the program, and checks that nothing is lost.

Each case ends in one of three ways: the program does its work, it says in one line which file failed and why, or it
is killed. After that, every published checkpoint must be whole, and a resumed run must have the bits of an undisturbed
one. The last line counts the cases.

    dev/faults/faults.py build/train_gpt build/preload.so [CAMPAIGN...] [--times N]

--times N: N times as many kills and damaged files.
"""
import csv
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

PROGRAM, PRELOAD = (os.path.abspath(path) for path in sys.argv[1:3])
WANTED = sys.argv[3:]
TIMES = int(WANTED.pop(WANTED.index("--times") + 1)) if "--times" in WANTED else 1
WANTED = [word for word in WANTED if word != "--times"]
SIZES = "--layers 1 --heads 1 --channels 8 --context 16 --batch 2 --threads 2".split()
TRAIN = ["train", "--data", "text.txt", *SIZES, "--steps", "6", "--save-every", "2", "--eval-every", "3",
         "--eval-batches", "2", "--dropout", "0.1", "--diagnostics", "2", "--quiet", "--out", "r"]
RESUME = ["train", "--out", "r", "--resume", "--quiet"]
COMPARE = ["compare", "--data", "text.txt", *SIZES, "--grid", "placement=pre,post", "--steps", "4", "--eval-every", "2",
           "--eval-batches", "2", "--out", "r"]
TIMED = {"elapsed_s", "step_ms", "tokens_per_second", "date"}  # columns of tables
REASONS = ("No space left on device|Input/output error|Too many open files|not enough memory|Out of memory"
           "|Cannot allocate memory|File too large|Permission denied|Read-only file system"
           "|Resource temporarily unavailable")
# System calls that strace makes fail, and how. The loader's calls, before main(), are left out.
SYSTEM_CALLS = {
    "clone,clone3": "EAGAIN", "mmap": "ENOMEM", "mprotect": "ENOMEM", "munmap": "EINVAL", "madvise": "EINVAL",
    "getdents64": "EIO", "stat,lstat,fstat,newfstatat,statx": "EIO", "open,openat": "EIO",
    "read,pread64": "EIO", "lseek": "EIO", "unlink,unlinkat": "EIO", "mkdir,mkdirat": "EIO", "flock": "EIO",
    "fcntl": "EIO", "ftruncate": "EIO", "prlimit64": "EPERM", "sched_getaffinity": "EINVAL", "sysinfo": "EINVAL",
    "getcwd": "EIO"}
HARMLESS = ("elapsed", "val_loss", "best_loss", "best_step", "step", "data", "settings")  # fields of a header
MASK = (1 << 64) - 1
OPENING = b'{"__metadata__":{"checksum":"'  # the beginning of a checkpoint's header
PIECE = 262144  # bytes of a checkpoint that share a checksum
failures = []


# ---- running ---------------------------------------------------------------------------------------------

class Ended:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def crashed(self):  # by a signal that this driver did not send, or by a sanitizer
        return self.status < 0 or self.status > 4 or "Sanitizer" in self.err or "terminate called" in self.err

    def complaint(self):
        lines = [line for line in self.err.splitlines() if line.startswith("train_gpt: ") or "libgomp" in line]
        return lines[0] if len(lines) == 1 else ""


def run(folder, words, fault="", limit=None, **more):
    environment = dict(os.environ, **({"FAULT": fault, "LD_PRELOAD": PRELOAD} if fault else {}), **more.pop("env", {}))

    def prepare():
        if limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    more.setdefault("stdout", subprocess.PIPE)
    try:
        p = subprocess.run([PROGRAM, *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, timeout=120, preexec_fn=prepare, **more)
    except subprocess.TimeoutExpired:
        return Ended(-1, "", "took more than two minutes")
    text = lambda b: (b or b"").decode(errors="replace")
    return Ended(p.returncode, text(p.stdout), text(p.stderr))


def start(folder, words, fault=""):
    environment = dict(os.environ, **({"FAULT": fault, "LD_PRELOAD": PRELOAD} if fault else {}))
    return subprocess.Popen([PROGRAM, *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end(process):
    out, err = process.communicate(timeout=120)
    return Ended(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


class Folder:
    """A folder with the text in it, or a copy of another folder."""

    def __init__(self, like=None):
        self.path = tempfile.mkdtemp(prefix="faults-")
        if like:
            shutil.copytree(like, self.path, dirs_exist_ok=True, symlinks=True)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        os.chmod(self.path, 0o700)
        shutil.rmtree(self.path, ignore_errors=True)


# ---- checkpoints -----------------------------------------------------------------------------------------

def chain(data):
    state = 0x243F6A8885A308D3
    for (word,) in struct.iter_unpack("<Q", data + bytes(-len(data) % 8)):
        state = ((((state << 29) | (state >> 35)) & MASK) ^ word) * 0x9E3779B97F4A7C15 & MASK
    return state ^ (state >> 32)


def checksum(data):
    sums = [chain(data[at:at + PIECE]) for at in range(0, len(data), PIECE)]
    return b"%016x" % (sums[0] if len(sums) == 1 else chain(struct.pack(f"<{len(sums)}Q", *sums)))


def with_checksum(data):
    at = 8 + len(OPENING)
    zeroed = data[:at] + b"0" * 16 + data[at + 16:]
    return data[:at] + checksum(zeroed) + data[at + 16:]


def split(data):
    """Header and numbers of a checkpoint; raises ValueError if it is not whole."""
    if data[8:8 + len(OPENING)] != OPENING or data != with_checksum(data):
        raise ValueError("not whole")
    length = struct.unpack("<Q", data[:8])[0]
    return data[8:8 + length], data[8 + length:]


def forge(header, numbers):
    """A checkpoint with this header and a correct checksum."""
    header += b" " * (-(8 + len(header)) % 64)
    data = struct.pack("<Q", len(header)) + header + numbers
    return with_checksum(data) if header.startswith(OPENING) else data


def numbers_in(path):
    return split(pathlib.Path(path).read_bytes())[1]


def fields_in(path):
    """The fields of a run, which are JSON in the metadata of its checkpoint."""
    return json.loads(json.loads(split(pathlib.Path(path).read_bytes())[0])["__metadata__"]["train_gpt"])


def table_in(path):
    """The rows of a CSV file, without the columns that depend on time."""
    with open(path, newline="") as file:
        return [{key: value for key, value in row.items() if key not in TIMED} for row in csv.DictReader(file)]


def results(folder):
    """Weights, moments, and metrics.csv."""
    found = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".safetensors":
            found[name] = numbers_in(path)
        elif path.name == "metrics.csv":
            found[name] = table_in(path)
    return found


def whole_checkpoints(folder):
    for path in pathlib.Path(folder).rglob("*.safetensors"):
        try:
            numbers_in(path)
        except (ValueError, struct.error):
            return f"{path.name} is not whole"
    return ""


# ---- cases -----------------------------------------------------------------------------------------------

class Campaign:
    def __init__(self, name):
        self.name, self.cases, self.failed = name, 0, 0

    def skip(self, reason):
        print(f"{self.name}: skipped, because {reason}", flush=True)
        self.name += ", skipped"
        return self

    def check(self, case, *complaints):
        self.cases += 1
        wrong = [text for text in complaints if text]
        if wrong:
            self.failed += 1
            failures.append(f"{self.name}: {case}: {'; '.join(wrong)}")
            print("FAILED", failures[-1], flush=True)


def no_crash(ended):
    return f"crashed with {ended.status}: {ended.err[-300:]}" if ended.crashed() else ""


def says_why(ended, pattern=REASONS):
    if ended.status == 0:
        return ""
    line = ended.complaint()
    return "" if re.search(pattern, line) else f"does not say what failed: {ended.err[-300:]!r}"


def names_file(ended):
    known = r"(memory|r/|r:|folder r|text\.txt|standard output|runs|threads|Thread creation)"
    if ended.status == 0 or re.search(known, ended.complaint()):
        return ""
    return f"names no file: {ended.err[-300:]!r}"


def goes_on(folder, reference, command):
    """Resumes after the fault, or starts again if nothing was saved."""
    if command[0] == "compare":
        words = command + (["--resume"] if os.path.exists(f"{folder}/r/comparison.toml") else [])
    else:
        words = RESUME if os.path.exists(f"{folder}/r/checkpoint.safetensors") else TRAIN + ["--force"]
        if finished(folder, 6):
            words = None
    if words:
        ended = run(folder, words)
        if ended.status != 0:
            return f"cannot go on: {ended.err[-300:]!r}"
    leftovers = [p.name for p in pathlib.Path(folder).rglob("*.partial")]
    if leftovers:
        return f"leaves {leftovers}"
    return whole_checkpoints(folder) or ("" if results(folder) == reference else "other bits than an undisturbed run")


def finished(folder, steps):
    outcome = pathlib.Path(folder, "r/outcome.json")
    return outcome.exists() and json.loads(outcome.read_text())["step"] == steps


def count_of(kind, before, words):
    with Folder(before) as folder:
        counts = pathlib.Path(folder, "counts")
        run(folder, words, f"{kind}:0", env={"FAULT_COUNT": str(counts)})
        return max((int(line) for line in counts.read_text().split()), default=0)


def injected(kind, name, before, words, reference):
    """Makes the n-th call of a kind fail, for every n. Of the thousands of allocations, about 60 are chosen."""
    campaign = Campaign(f"{kind} fails in {name}")
    calls = count_of(kind, before, words)
    for n in range(1, calls + 1, max(1, calls // 60) if kind == "malloc" else 1):
        with Folder(before) as folder:
            ended = run(folder, words, f"{kind}:{n}")
            campaign.check(n, no_crash(ended), says_why(ended), names_file(ended), whole_checkpoints(folder),
                           goes_on(folder, reference, words))
    return campaign


def traced(folder, words, *options):
    log = f"{folder}.strace"
    try:
        p = subprocess.run(["strace", "-f", "-qq", "-o", log, *options, PROGRAM, *words], cwd=folder,
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        return (Ended(p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")),
                pathlib.Path(log).read_text(errors="replace").splitlines())
    except subprocess.TimeoutExpired:
        return Ended(-1, "", "took more than two minutes"), []
    finally:
        pathlib.Path(log).unlink(missing_ok=True)


def can_trace():
    return shutil.which("strace") and not subprocess.run(["strace", "-qq", "-o", os.devnull, "true"],
                                                         capture_output=True).returncode


def refused_call(calls, name, before, words, reference):
    """The n-th system call of a kind fails in each thread that makes so many, for up to 40 n from main on."""
    campaign = Campaign(f"{calls.split(',')[0]} is refused in {name}")
    with Folder(before) as folder:
        _, log = traced(folder, words, "-e", f"trace={calls},prctl")
    counts, first = {}, 1
    for line in log:
        thread, call = line.split(maxsplit=1)
        if call.startswith("prctl(PR_SET_NAME"):
            first = counts.get(thread, 0) + 1
        elif not call.startswith("prctl") and "resumed>" not in call:
            counts[thread] = counts.get(thread, 0) + 1
    last = max(counts.values(), default=0)
    for n in range(first, last + 1, max(1, (last - first) // 40)):
        with Folder(before) as folder:
            ended, _ = traced(folder, words, "-e", f"trace={calls}", "-e",
                              f"inject={calls}:error={SYSTEM_CALLS[calls]}:when={n}")
            campaign.check(n, no_crash(ended), says_why(ended), whole_checkpoints(folder),
                           goes_on(folder, reference, words))
    return campaign


def little_space(before, reference):
    campaign = Campaign("files limited in size (train)")
    largest = os.path.getsize(f"{reference['folder']}/r/checkpoint.safetensors") + 2000
    for limit in range(0, largest, largest // 12):
        with Folder(before) as folder:
            ended = run(folder, TRAIN, limit=limit)
            campaign.check(limit, no_crash(ended), says_why(ended), names_file(ended), whole_checkpoints(folder),
                           goes_on(folder, reference["train"], TRAIN))
    return campaign


NOBODY = 65534


def reaches_program(user):
    """True if this user may run the program. A folder above it may be closed to others."""
    return subprocess.run(["test", "-x", PROGRAM], user=user).returncode == 0


def read_only(reference):
    """Folders without write permission. Root can write anywhere, so it runs the program as nobody."""
    campaign = Campaign("read-only folder")
    user = {"user": NOBODY} if os.geteuid() == 0 else {}
    if user and not reaches_program(NOBODY):
        return campaign.skip(f"other users may not reach {PROGRAM}")
    for name in ("new run", "resume", "compare"):
        with Folder(reference["folder"]) as folder:
            words = {"new run": TRAIN[:-1] + ["new"], "resume": RESUME + ["--steps", "8"],
                     "compare": COMPARE[:-1] + ["new"]}[name]
            for path in [folder, *map(str, pathlib.Path(folder).rglob("*"))]:
                os.chmod(path, 0o555 if os.path.isdir(path) else 0o444)
            ended = run(folder, words, **user)
            campaign.check(name, no_crash(ended), says_why(ended, "Permission denied"),
                           "" if ended.status == 1 else f"ends with {ended.status}", whole_checkpoints(folder))
            for path in [folder, f"{folder}/r"]:
                os.chmod(path, 0o700)
    return campaign


COMMANDS = (["sample", "r", "--prompt", "A", "--length", "40"], ["eval", "r", "--data", "text.txt"], ["info", "r"],
            ["info", "--cost"], ["--help"], ["train", "--help"], ["corpus", "--bytes", "9k", "--out", "new.txt"],
            TRAIN[:-1] + ["new"], ["train", "--data", "text.txt", "--dry-run"], COMPARE[:-1] + ["new"])


def output(reference):
    campaign = Campaign("full and closed output")
    for words in COMMANDS:
        with Folder(reference["folder"]) as folder, open("/dev/full", "wb") as full:
            ended = run(folder, words, stdout=full)
            campaign.check("full: " + " ".join(words[:2]), no_crash(ended),
                           "" if ended.status == 1 else f"ends with {ended.status}", says_why(ended), names_file(ended))
        for stream in (0, 1, 2):
            with Folder(reference["folder"]) as folder:
                before = numbers_in(f"{folder}/r/checkpoint.safetensors")
                shell = f"exec {PROGRAM} \"$@\" {stream}{'<' if stream == 0 else '>'}&-"
                p = subprocess.run(["bash", "-c", shell, "-", *words], cwd=folder, capture_output=True, timeout=120,
                                   stdin=subprocess.DEVNULL)
                ended = Ended(p.returncode, "", p.stderr.decode(errors="replace"))
                campaign.check(f"{stream} closed: " + " ".join(words[:2]), no_crash(ended),
                               "" if ended.status == 0 else f"ends with {ended.status}: {ended.err[-200:]!r}",
                               "" if numbers_in(f"{folder}/r/checkpoint.safetensors") == before else "other numbers",
                               *("text in " + str(p) for p in pathlib.Path(folder).rglob("metrics.csv")
                                 if not all(line[:1].isdigit() for line in p.read_text().splitlines()[1:])))
    return campaign


def kills(before, reference):
    campaign = Campaign("killed and resumed")
    dice = random.Random(1)
    began = time.monotonic()
    with Folder(before) as folder:
        run(folder, TRAIN)
    whole = time.monotonic() - began
    for case in range(40 * TIMES):
        with Folder(before) as folder:
            process = start(folder, TRAIN)
            time.sleep(dice.uniform(0, whole))
            process.kill()
            end(process)
            campaign.check(case, whole_checkpoints(folder), goes_on(folder, reference, TRAIN))
    return campaign


def interleaved(before, reference):
    """One process pauses before its n-th write, another works on the same run, and the first continues."""
    campaign = Campaign("two processes on one run")
    others = [TRAIN + ["--force"], RESUME, TRAIN]
    for n in range(1, count_of("stop", before, TRAIN) + 1):
        with Folder(before) as folder:
            first = start(folder, TRAIN, f"stop:{n}")
            os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            second = run(folder, others[n % 3])
            first.send_signal(signal.SIGCONT)
            ended = end(first)
            campaign.check(n, no_crash(ended), no_crash(second), f"fails: {ended.err[-200:]!r}" if ended.status else "",
                           says_why(second, f"in use by process {first.pid} on "), whole_checkpoints(folder),
                           goes_on(folder, reference, TRAIN))
    return campaign


def together(before):
    """Runs that start at the same time without --out."""
    campaign = Campaign("started together")
    for case in range(10):
        with Folder(before) as folder:
            words = [TRAIN[:-2] + ["--seed", str(seed)] for seed in range(1, 5)]
            ended = [end(process) for process in [start(folder, w) for w in words]]
            seeds = []
            for run_folder in pathlib.Path(folder, "runs").iterdir():
                if not run_folder.is_dir():
                    continue
                seed = str(fields_in(run_folder / "checkpoint.safetensors")["settings"]["seed"])
                config = re.search(r"^seed = (\d+)", (run_folder / "config.toml").read_text(), re.M).group(1)
                seeds.append(seed if seed == config else "another's config.toml")
            campaign.check(case, *map(no_crash, ended), "" if all(e.status == 0 for e in ended) else "one failed",
                           "" if sorted(seeds) == ["1", "2", "3", "4"] else f"runs of seeds {seeds}")
    return campaign


def workers(before):
    """Three processes share a comparison, and one is killed. The others must train its runs too."""
    campaign = Campaign("one of three compare --join killed")
    dice = random.Random(7)
    shared = COMPARE + ["--steps", "60", "--threads", "1", "--grid", "seed=1,2,3,4,5,6"]
    tables = lambda folder: {path.name: table_in(path) for path in pathlib.Path(folder, "r").glob("*.csv")}
    with Folder(before) as alone:
        began = time.monotonic()
        run(alone, shared + ["--jobs", "2"])
        whole, bits, wanted = time.monotonic() - began, results(alone), tables(alone)
    for case in range(10 * TIMES):
        with Folder(before) as folder:
            processes = [start(folder, shared + ["--join"]) for _ in range(3)]
            time.sleep(dice.uniform(0, whole))
            processes[dice.randrange(3)].kill()
            ended = [end(process) for process in processes]
            states = [e.status for e in ended]
            campaign.check(case, *map(no_crash, (e for e in ended if e.status != -signal.SIGKILL)),
                           "" if states.count(0) >= 2 else f"ends with {states}: {ended[0].err[-200:]!r}",
                           "" if results(folder) == bits else "other bits than one process",
                           "" if tables(folder) == wanted else "other tables than one process")
    return campaign


def ranks(before):
    """A random rank is killed at a random moment, and the run resumes on another number of ranks."""
    campaign = Campaign("one of several ranks killed")
    if not (os.path.exists(PROGRAM + "-mpicxx") and shutil.which("mpirun")):
        return campaign.skip("there is no build with MPI or no mpirun: make MPI=1")
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                      OMPI_MCA_rmaps_base_oversubscribe="1")
    words = ["train", "--data", "text.txt", *SIZES, "--threads", "1", "--accumulate", "4", "--lanes", "4", "--dropout",
             "0.1", "--steps", "2000", "--save-every", "50", "--eval-every", "500", "--eval-batches", "2", "--quiet",
             "--out", "r"]
    on_ranks = lambda folder, n, words: subprocess.Popen(["mpirun", "-n", str(n), PROGRAM + "-mpicxx", *words],
                                                         cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                                         stderr=subprocess.PIPE)
    dice = random.Random(8)
    with Folder(before) as alone:
        run(alone, words)
        bits = results(alone)
    with Folder(before) as folder:
        began = time.monotonic()
        end(on_ranks(folder, 3, words))
        whole = time.monotonic() - began
    for case in range(20 * TIMES):
        with Folder(before) as folder:
            process = on_ranks(folder, dice.choice((2, 3)), words)
            time.sleep(dice.uniform(.2, .8) * whole)
            alive = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True).stdout.split()
            killed = alive and not subprocess.run(["kill", "-9", dice.choice(alive)], capture_output=True).returncode
            first = end(process)
            torn = whole_checkpoints(folder)
            begun = os.path.exists(f"{folder}/r/config.toml")
            again = first
            if killed and not finished(folder, 2000):
                again = end(on_ranks(folder, dice.choice((1, 2, 3)), words + ["--resume"] * begun))
            campaign.check(case, torn, "survived" if killed and first.status == 0 else "",
                           f"cannot go on: {again.complaint()}" if again is not first and again.status else "",
                           "" if results(folder) == bits else "other bits than one rank")
    return campaign


# ---- limits of a container -------------------------------------------------------------------------------

class Container:
    """A control group below this process's group, or None if none can be made."""

    def __init__(self, controller, limits):
        self.path = None
        groups = dict(line.split(":", 2)[1:] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines())
        own = next((path for names, path in groups.items() if controller in names.split(",")), groups.get("", "/"))
        for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
            fields, (kind, _, options) = line.split(" - ")[0].split(), line.split(" - ")[1].split()
            mine = kind == "cgroup" and controller in options.split(",") or kind == "cgroup2" and "" in groups
            if not mine or self.path:
                continue
            path = pathlib.Path(fields[4] + own.removeprefix(fields[3].rstrip("/")), f"train_gpt-faults-{os.getpid()}")
            try:
                path.mkdir()
                for name, value in limits[kind].items():
                    (path / name).write_text(str(value))
                self.path = path
            except OSError:
                if path.is_dir():
                    path.rmdir()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.path:
            self.path.rmdir()

    def run(self, folder, words):
        enter = f"echo $$ > '{self.path}/cgroup.procs' && exec \"$@\""
        p = subprocess.run(["sh", "-c", enter, "-", PROGRAM, *words], cwd=folder, capture_output=True, timeout=300,
                           stdin=subprocess.DEVNULL)
        return Ended(p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace"))


def memory_limit(megabytes):
    return Container("memory", {"cgroup": {"memory.limit_in_bytes": megabytes << 20},
                                "cgroup2": {"memory.max": megabytes << 20, "memory.swap.max": 0}})


def containers(before):
    """A container's limits count as the machine's: nothing is killed, and threads follow the processor time."""
    campaign = Campaign("limits of a container")
    large = ["train", "--data", "text.txt", "--layers", "8", "--channels", "512", "--heads", "8", "--context", "32",
             "--batch", "2", "--steps", "4", "--save-every", "2", "--eval-every", "0", "--quiet", "--out", "r"]
    for megabytes in (64, 560):
        with Folder(before) as folder, memory_limit(megabytes) as group:
            if not group.path:
                print("containers: memory is skipped, because no control group can be made")
                break
            for words in (large + ["--dry-run"], large):
                ended = group.run(folder, words)
                wanted = "of memory and this container (cgroup) has " if megabytes == 64 else ""
                campaign.check(f"{megabytes} MB: {' '.join(words[-2:])}", no_crash(ended),
                               "" if wanted in ended.complaint() else f"does not say: {ended.err[-300:]!r}",
                               "" if ended.status == (1 if wanted else 0) else f"ends with {ended.status}",
                               whole_checkpoints(folder))
    quotas = {"cgroup": {"cpu.cfs_period_us": 100000, "cpu.cfs_quota_us": 50000},
              "cgroup2": {"cpu.max": "50000 100000"}}
    with Folder(before) as folder, Container("cpu", quotas) as group:
        if group.path:
            ended = group.run(folder, ["train", "--data", "text.txt", "--dry-run", "--quiet"])
            campaign.check("half a processor", no_crash(ended), "" if "  1 thread," in ended.out else ended.out[-300:])
        else:
            print("containers: processor time is skipped, because no control group can be made")
    return campaign


# ---- links, pipes, devices -------------------------------------------------------------------------------

PLACES = {
    "a link to a file": lambda path, other: os.symlink(other, path),
    "a link to nothing": lambda path, other: os.symlink("nothing", path),
    "a link to itself": lambda path, other: os.symlink(os.path.basename(path), path),
    "a pipe": lambda path, other: os.mkfifo(path),
    "a folder": lambda path, other: os.makedirs(f"{path}/x"),
    "a link to a full device": lambda path, other: os.symlink("/dev/full", path),
    "a link to an endless device": lambda path, other: os.symlink("/dev/zero", path),
    "an empty file": lambda path, other: pathlib.Path(path).touch(),
}
INTERNAL = "filesystem error|json.exception|basic_string|std::|terminate called"


def places(reference):
    """Something else is where a file of the run, or the text, is expected. Nothing hangs, crashes, or writes to it."""
    campaign = Campaign("links, pipes, devices")
    commands = [RESUME + ["--steps", "8"], TRAIN + ["--force"], ["info", "r"], ["eval", "r", "--data", "text.txt"],
                ["sample", "r", "--length", "5", "--prompt", "A"], ["export", "r", "--out", "hf"],
                ["tokenizer", "text.txt", "--vocab", "260", "--out", "tok.json"],
                ["tokenize", "text.txt", "--tokenizer", "tok.json", "--out", "tokens"]]
    files = [str(path.relative_to(reference["folder"])) for path in
             sorted(pathlib.Path(reference["folder"]).rglob("*")) if path.is_file()]
    for file in files:
        for what, make in PLACES.items():
            for words in commands:
                with Folder(reference["folder"]) as folder:
                    run(folder, commands[-2] + ["--force"]) if words == commands[-1] else None
                    other = pathlib.Path(folder, "other")
                    other.write_text("not yours")
                    os.unlink(f"{folder}/{file}")
                    make(f"{folder}/{file}", str(other))
                    ended = run(folder, words)
                    device = os.path.exists("/dev/full") and os.path.exists("/dev/zero")
                    campaign.check(f"{what} for {file}: {' '.join(words[:2])}", no_crash(ended),
                                   f"says {ended.err[-200:]!r}" if re.search(INTERNAL, ended.err) else "",
                                   "" if other.read_text() == "not yours" else "another file is overwritten",
                                   "" if ended.status == 0 or ended.complaint() else f"says {ended.err[-300:]!r}",
                                   "" if device else "a device is gone")
    return campaign


# ---- random options --------------------------------------------------------------------------------------

def options_of(command):
    """Each option of a command, from its help, with values that it may accept or not."""
    text = run("/", [command, "--help", "all"]).out
    found = {}
    for name, kind, described in re.findall(r"^  --(\S+) ?([A-Z]+|)(.*(?:\n {20,}.*)*)", text, re.M):
        described = " ".join(described.split())
        listed = re.search(r": ((?:[\w-]+, )+[\w-]+)", described)
        values = (listed.group(1).split(", ") if kind == "NAME" and listed else
                  ["0", "1", "2", "3", "4", "8", "16", "-1", "1000000000"] if kind == "N" else
                  ["0", "1", "0.1", "0.5", "0.9", "2", "-1", "1e-8", "1e308", "nan"] if kind == "X" else
                  [] if kind else [None])
        for spelled in ([name[5:], "no-" + name[5:]] if name.startswith("[no-]") else [name]):
            if values:
                found[spelled] = values
    for name in ("help", "json", "interactive", "dry-run", "out", "threads", "resume", "steps", "jobs", "length"):
        found.pop(name, None)
    return found


def options(reference):
    """Random options. What is not refused in one line works, and whatever it wrote can be read."""
    campaign = Campaign("random options")
    dice = random.Random(9)
    tiny = ["--layers", "1", "--heads", "2", "--channels", "8", "--context", "8", "--batch", "2", "--steps", "3"]
    commands = {"train": (40, ["text.txt", *tiny, "--quiet", "--out", "new"]), "compare":
                (5, ["text.txt", *tiny, "--grid", "seed=1,2", "--out", "new"]),
                "init-report": (10, ["text.txt", *tiny[:-2]]),
                "sample": (10, ["r", "--prompt", "A"]), "eval": (10, ["r", "--data", "text.txt"]),
                "export": (5, ["r", "--out", "hf"]), "info": (10, []), "corpus": (10, ["--out", "c.txt"]),
                "tokenizer": (5, ["text.txt", "--out", "tok.json"])}

    def limits():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
        resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))

    def limited(folder, words):
        p = subprocess.run([PROGRAM, *words], cwd=folder, capture_output=True, stdin=subprocess.DEVNULL,
                           preexec_fn=limits, env=dict(os.environ, OMP_NUM_THREADS="1"))
        return Ended(p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace"))

    for command, (cases, fixed) in commands.items():
        known = options_of(command)
        for _ in range(cases * TIMES):
            words = [command, *fixed]
            for name in dice.sample(sorted(known), min(len(known), dice.choice((1, 2, 3)))):
                value = dice.choice(known[name])
                words += ["--" + name] + ([value] if value else [])
            with Folder(reference["folder"]) as folder:
                ended = limited(folder, words)
                complaints = [no_crash(ended), "" if ended.status in (0, 3) or ended.complaint() else
                              f"says {ended.err[-300:]!r}",
                              f"says {ended.err[-200:]!r}" if re.search(INTERNAL, ended.err) else "",
                              whole_checkpoints(f"{folder}/new")]
                if command == "train" and ended.status == 0:
                    for again in (["info", "new"], ["eval", "new", "--data", "text.txt"],
                                  ["train", "--out", "new", "--resume", "--steps", "5", "--quiet"]):
                        second = limited(folder, again)
                        complaints.append(no_crash(second) or ("" if second.status in (0, 3) else
                                                               f"{again[0]} refuses it: {second.err[-300:]!r}"))
                campaign.check(" ".join(words), *complaints)
    return campaign


# ---- damaged and forged files ------------------------------------------------------------------------------

def reads(folder, data, name, campaign, accepted=False):
    """`data` must be refused quickly, in one line that names the file. With `accepted` it may also be used."""
    pathlib.Path(folder, "bad").write_bytes(data)

    def limits():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))

    for words in (["info", "bad"], ["eval", "bad", "--data", "text.txt", "--threads", "1"]):
        p = subprocess.run([PROGRAM, *words], cwd=folder, capture_output=True, stdin=subprocess.DEVNULL,
                           preexec_fn=limits)
        ended = Ended(p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace"))
        refused = ended.status == 1 and "bad" in ended.complaint() and not ended.out
        campaign.check(f"{name} ({words[0]})", no_crash(ended),
                       "" if refused or (accepted and ended.status == 0) else f"{ended.status}: {ended.err[-200:]!r}",
                       "an escape reaches the terminal" if "\x1b" in ended.out + ended.err else "")


def damaged(reference):
    campaign = Campaign("damaged checkpoints")
    dice = random.Random(3)
    good = pathlib.Path(reference["folder"], "r/checkpoint.safetensors").read_bytes()
    with Folder(reference["folder"]) as folder:
        for _ in range(70 * TIMES):
            data, at = bytearray(good), dice.randrange(len(good))
            data[at] ^= 1 << dice.randrange(8)
            reads(folder, bytes(data), f"bit flipped in byte {at}", campaign)
        for _ in range(49 * TIMES):
            length = dice.randrange(len(good))
            reads(folder, good[:length], f"truncated to {length}", campaign)
        for _ in range(21 * TIMES):
            a, b = sorted(dice.sample(range(0, len(good) - 64, 8), 2))
            data = good[:a] + good[b:b + 8] + good[a + 8:b] + good[a:a + 8] + good[b + 8:]
            if data != good:
                reads(folder, data, f"words {a} and {b} swapped", campaign)
    return campaign


def damage(text, dice):
    """Text with one fault: a changed byte, or a piece that is missing, doubled or replaced."""
    a, b = sorted(dice.randrange(len(text)) for _ in range(2))
    b = min(b, a + 40)
    new = bytes(dice.choice(b'0123456789-.,="\'[]#\n\\ e\x00\xff') for _ in range(dice.choice((1, 1, 3, 20))))
    return dice.choice((text[:a] + new + text[a + 1:], text[:a] + new + text[a:], text[:a] + text[b:],
                        text[:b] + text[a:], text[:a]))


def configs(reference):
    """A damaged config file must be read, or refused in one line that names it."""
    campaign = Campaign("damaged config files")
    dice = random.Random(5)
    good = pathlib.Path(reference["folder"], "r/config.toml").read_bytes()
    with Folder(reference["folder"]) as folder:
        for case in range(60 * TIMES):
            pathlib.Path(folder, "bad.toml").write_bytes(damage(good, dice))
            ended = run(folder, ["train", "--config", "bad.toml", "--data", "text.txt", "--out", "new",
                                 "--steps", "2", "--dry-run"])
            named = re.search("bad.toml|memory", ended.complaint())
            campaign.check(case, no_crash(ended),
                           "" if ended.status == 0 or named else f"names no file: {ended.err[-300:]!r}",
                           "an escape reaches the terminal" if "\x1b" in ended.out + ended.err else "")
    return campaign


def tables(reference):
    """A run with a damaged metrics.csv must resume with a repaired table, or be refused in one line that names it."""
    campaign = Campaign("damaged tables")
    dice = random.Random(6)
    good = pathlib.Path(reference["folder"], "r/metrics.csv").read_bytes()
    for case in range(30 * TIMES):
        with Folder(reference["folder"]) as folder:
            path = pathlib.Path(folder, "r/metrics.csv")
            path.write_bytes(damage(good, dice))
            ended = run(folder, RESUME + ["--steps", "8"])
            rows = [line.split(",") for line in path.read_text(errors="replace").splitlines()]
            steps = [row[0] for row in rows[1:]]
            equal = all(len(row) == len(rows[0]) for row in rows)
            campaign.check(case, no_crash(ended), says_why(ended, "metrics.csv"),
                           "" if ended.status or equal else "rows of unequal length",
                           "" if ended.status or steps[-2:] == ["7", "8"] else f"ends with steps {steps[-2:]}")
    return campaign


def places_in(value, path=()):
    """Every place in a JSON value, as a path of keys."""
    yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places_in(value[key], path + (key,))


def replaced(value, path, by):
    if not path:
        return by
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], by)
    return copy


def forged(reference):
    campaign = Campaign("forged headers")
    dice = random.Random(4)
    header, numbers = split(pathlib.Path(reference["folder"], "r/checkpoint.safetensors").read_bytes())
    outer = json.loads(header)
    h = json.loads(outer["__metadata__"]["train_gpt"])
    dump = lambda x: json.dumps(x, separators=(",", ":")).encode()
    with_fields = lambda text: forge(dump(replaced(outer, ("__metadata__", "train_gpt"), text)), numbers)
    setting = lambda name, value: dict(h, settings=dict(h["settings"], **{name: value}))
    alphabet = lambda points: dict(h, tokenizer={"kind": "char", "codepoints": points})
    by_hand = {
        "more tokens than the vocabulary": alphabet(list(range(32, 900))), "an empty alphabet": alphabet([]),
        "an alphabet out of order": alphabet([66, 65]), "a surrogate": alphabet([0xD800]),
        "beyond Unicode": alphabet([0x110000]), "step -1e308": dict(h, step=-1e308), "step -1": dict(h, step=-1),
        "best_step after step": dict(h, best_step=10**9),
        "layers = 10000": setting("layers", 10000), "channels = 1048576": setting("channels", 1 << 20),
        "help = true": setting("help", True), "an escape": setting("\x1b[2J\x1b]0;owned\x07", 1),
        "a byte of 256": setting("data", [[256]]), "no settings": dict(h, settings={}),
    }
    with Folder(reference["folder"]) as folder:
        for name, forgery in by_hand.items():
            reads(folder, with_fields(json.dumps(forgery)), name, campaign)
        for text in ("[" * 100000, '{"a":' * 100000, "", "null", "[]", "{}", '"' * 999):
            reads(folder, forge(text.encode(), numbers), f"header {text[:5]!r}", campaign)
            reads(folder, forge(OPENING + b'0123456789abcdef"},"a":' + text.encode(), numbers), f"row {text[:5]!r}",
                  campaign)
            reads(folder, with_fields(text), f"fields {text[:5]!r}", campaign)
        for before, cases in (h, 60), (outer, 60):
            places = list(places_in(before))
            for _ in range(cases * TIMES):
                path = dice.choice(places)
                by = dice.choice([None, True, -1, 0, 1 << 63, 1e308, -1e308, "", "\x1b[31m", [], {}, "x" * 5000, [[]],
                                  2**31])
                forgery = replaced(before, path, by)
                harmless = path[:1] and path[0] in HARMLESS or path[-1:] in (("format",), ("program",))
                if dump(forgery) != dump(before) and path[-1:] != ("checksum",):
                    data = forge(dump(forgery), numbers) if before is outer else with_fields(json.dumps(forgery))
                    reads(folder, data, f"{path} = {by!r}"[:70], campaign, bool(harmless))
    return campaign


# ---- all -------------------------------------------------------------------------------------------------

def main():
    began = time.monotonic()
    with Folder() as empty, Folder() as folder, Folder() as half, Folder() as compared:
        assert run(empty, ["corpus", "--bytes", "6k", "--seed", "3", "--out", "text.txt"]).status == 0
        for other in (folder, half, compared):
            shutil.copytree(empty, other, dirs_exist_ok=True)
        assert run(folder, TRAIN).status == 0
        assert run(compared, COMPARE).status == 0
        trained = results(folder)
        steps = 0
        for n in range(1, 100):  # make a run that stopped between its first save and its end
            if 0 < steps < 6:
                break
            shutil.rmtree(f"{half}/r", ignore_errors=True)
            run(half, TRAIN, f"fsync:{n}")
            saved = pathlib.Path(half, "r/checkpoint.safetensors")
            steps = fields_in(saved)["step"] if saved.exists() else 0
        reference = {"folder": folder, "train": trained}
        campaigns = {}
        for kind in ("write", "short", "fsync", "rename", "open", "malloc", "thread", "list"):
            campaigns[f"{kind}-train"] = lambda kind=kind: injected(kind, "train", empty, TRAIN, trained)
            campaigns[f"{kind}-resume"] = lambda kind=kind: injected(kind, "resume", half, RESUME, trained)
            if kind == "thread":
                continue  # the run's log has the reason
            campaigns[f"{kind}-compare"] = lambda kind=kind: injected(kind, "compare", empty, COMPARE,
                                                                           results(compared))
        if can_trace():
            for calls in SYSTEM_CALLS:
                for name, start, words, bits in (("train", empty, TRAIN, trained), ("resume", half, RESUME, trained)):
                    campaigns[f"call-{calls}-{name}"] = (
                        lambda calls=calls, name=name, start=start, words=words, bits=bits:
                        refused_call(calls, name, start, words, bits))
        else:
            print("system calls: skipped, because strace is missing or may not trace")
        campaigns |= {
            "space": lambda: little_space(empty, reference), "read-only": lambda: read_only(reference),
            "output": lambda: output(reference), "kills": lambda: kills(empty, trained),
            "interleaved": lambda: interleaved(empty, trained), "together": lambda: together(empty),
            "workers": lambda: workers(empty), "ranks": lambda: ranks(empty),
            "containers": lambda: containers(empty), "places": lambda: places(reference),
            "options": lambda: options(reference), "damaged": lambda: damaged(reference),
            "forged": lambda: forged(reference),
            "configs": lambda: configs(reference), "tables": lambda: tables(reference)}
        rows = [campaign() for name, campaign in campaigns.items() if not WANTED or any(w in name for w in WANTED)]
    print(f"\n| {'campaign':36} | cases | failed |\n|{'-' * 38}|------:|-------:|")
    for row in rows:
        print(f"| {row.name:36} | {row.cases:5} | {row.failed:6} |")
    cases, failed = sum(r.cases for r in rows), sum(r.failed for r in rows)
    print(f"\n{time.monotonic() - began:.0f} s\n{cases - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
