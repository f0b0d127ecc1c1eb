# SPDX-License-Identifier: GPL-2.0-only
"""Feed every parser with damaged and made-up inputs: ``python tests/fuzz.py --inputs 20000``.

Each input must end in a value or a `GroupCpusError`, within a second of processor time and 200 MB.
Four kinds are made: real files changed by their structure, fixtures that are damaged, texts by
hypothesis that look like the formats, and a few that are large.  The same seed gives the same
inputs.
"""

import argparse
import gzip
import io
import json
import random
import re
import resource
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from groupcpus.errors import GroupCpusError
from groupcpus.sources import Loaded, capture, load
from groupcpus.sources.assembled import machine_of
from tests.large import large
from tests.sources import shapes
from tests.structured import changed_json, changed_table, changed_xml, pasted, real_files

SECONDS = 1.0
MEGABYTES = 200

TOKENS = [
    *("0-3", "0-8191", "0-8191:2", "8192", "99999999999", "-1", "1-0", ",", "0,0", "", " ", "\n"),
    *("\0", "yes", "oui", "CPU", "node", "0x", "ffffffff", "\u00e9", "\ud7ff", "4294967296", "1e9"),
    *(
        '"',
        "{",
        "}",
        "[",
        "]",
        "null",
        "true",
        "<",
        "/>",
        "&a;",
        "=",
        "<!DOCTYPE a [",
        ":",
        "-",
        "#",
    ),
]


@contextmanager
def limited_memory() -> Iterator[None]:
    """Let the process grow by no more than 200 MB meanwhile."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    most = pages * resource.getpagesize() + MEGABYTES * 1_000_000
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


class Report:
    """What became of the inputs, and those that broke a rule."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "input"
        self.counts: Counter[tuple[str, str]] = Counter()
        self.slowest: dict[str, float] = {}
        self.broken: list[str] = []

    def check(self, kind: str, data: bytes) -> None:
        """Load one input and note how it ended."""
        self.file.write_bytes(data)
        ending, seconds = self._load()
        for _ in range(3):
            # On a busy machine: only what is slow every time is slow.
            if seconds > SECONDS:
                ending, again = self._load()
                seconds = min(seconds, again)
        self.slowest[kind] = max(seconds, self.slowest.get(kind, 0.0))
        if seconds > SECONDS:
            ending = f"{seconds:.2f} s"
        self.counts[kind, ending] += 1
        if ending not in ("loaded", "refused"):
            self.broken.append(f"{kind}: {ending}: {data[:300]!r}")

    def _load(self) -> tuple[str, float]:
        start = time.process_time()
        try:
            with limited_memory():
                loaded = load(self.file)
                if isinstance(loaded, Loaded) and loaded.topology is not None:
                    machine_of(loaded)
            said = " ".join(loaded.notes) if isinstance(loaded, Loaded) else "\n"
            ending = "loaded" if said.isprintable() else "something else"
        except GroupCpusError as error:
            good = 0 < len(str(error)) <= 500 and str(error).isprintable()
            ending = "refused" if good else f"no sentence of 500 characters: {str(error)[:100]}"
        except MemoryError:
            ending = "too much memory"
        except Exception as error:
            ending = f"{type(error).__name__}: {error}"[:200]
        return ending, time.process_time() - start

    def table(self) -> str:
        kinds = sorted({kind for kind, _ in self.counts})
        lines = [f"{'kind':24}{'inputs':>8}{'loaded':>8}{'refused':>9}{'broken':>8}{'slowest':>10}"]
        for kind in kinds:
            counts = {end: number for (of, end), number in self.counts.items() if of == kind}
            loaded, refused = counts.get("loaded", 0), counts.get("refused", 0)
            total = sum(counts.values())
            lines.append(
                f"{kind:24}{total:8}{loaded:8}{refused:9}{total - loaded - refused:8}"
                f"{self.slowest[kind] * 1000:7.0f} ms"
            )
        return "\n".join([*lines, f"{'all':24}{self.counts.total():8}"])


def fixtures() -> dict[str, list[bytes]]:
    """Give good inputs of every format."""
    made: dict[str, list[bytes]] = {"interrupts": [shapes.INTERRUPTS.encode()]}
    made["dump"] = [shapes.DUMP.encode()]
    for shape in shapes.SHAPES.values():
        files = shapes.sysfs(shape)
        texts = {
            "lscpu -p": shapes.lscpu_p(shape),
            "lscpu -e": shapes.lscpu_e(shape),
            "lscpu --json": shapes.lscpu_json(shape),
            "lscpu": shapes.summary(shape),
            "numactl": shapes.numactl(shape),
            "hwloc": shapes.hwloc(shape),
            "dump": shapes.grep(files),
        }
        for kind, text in texts.items():
            made.setdefault(kind, []).append(text.encode())
        made.setdefault("tar.gz", []).append(shapes.archive(files))
        with tempfile.TemporaryDirectory() as folder:
            files |= {"proc/interrupts": shapes.INTERRUPTS, "proc/irq/24/smp_affinity_list": "0-3"}
            files["sys/block/nvme0n1/mq/0/cpu_list"] = "0, 1"
            document = capture.capture(str(shapes.directory(files, Path(folder))))
        made.setdefault("capture", []).append(json.dumps(document, indent=1).encode())
    return made


def mutated(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Damage an input in a few places."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 1, 2, 8, 64, 512)))
        token = rng.choice(TOKENS).encode("utf-8", "surrogatepass")
        choice = rng.randrange(9)
        if choice == 0:
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        elif choice == 1:
            data = data[:at] + data[end:]
        elif choice == 2:
            data = data[:at] + data[at:end] * rng.choice((2, 3, 50)) + data[end:]
        elif choice == 3:
            data = data[:at] + token + data[at:]
        elif choice == 4:
            data = data[:at] + token + data[end:]
        elif choice == 5:
            data = data[:at]
        elif choice == 6:
            start = rng.randrange(len(other) + 1)
            data = data[:at] + other[start : start + 200] + data[at:]
        elif choice == 7:
            lines = data.split(b"\n")
            one, two = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[one], lines[two] = lines[two], lines[one]
            data = b"\n".join(lines)
        else:
            numbers = list(re.finditer(rb"[0-9]+", data[:100_000]))
            if numbers:
                found = rng.choice(numbers)
                data = data[: found.start()] + token + data[found.end() :]
    return data


def mutated_archive(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Damage an archive: as it is packed, or inside, or in the text of one member."""
    if rng.random() < 0.2:
        return mutated(rng, data, other)
    plain = gzip.decompress(data)
    if rng.random() < 0.4:
        return gzip.compress(mutated(rng, plain, gzip.decompress(other)), 1)
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(plain)) as before,
        tarfile.open(fileobj=packed, mode="w") as after,
    ):
        members = before.getmembers()
        chosen = rng.randrange(len(members))
        for at, member in enumerate(members):
            text = before.extractfile(member).read() if member.isfile() else b""  # type: ignore
            if at == chosen:
                text = (
                    rng.choice(TOKENS).encode() if rng.random() < 0.7 else mutated(rng, text, text)
                )
                member.type = rng.choice(
                    (member.type, member.type, tarfile.SYMTYPE, tarfile.DIRTYPE)
                )
            member.size = len(text) if member.isfile() else 0
            after.addfile(member, io.BytesIO(text))
    return gzip.compress(packed.getvalue(), 1)


def run_mutations(report: Report, rng: random.Random, inputs: int) -> None:
    made = fixtures()
    kinds = sorted(made)
    every = [data for kind in kinds if kind != "tar.gz" for data in made[kind]]
    for number in range(inputs):
        kind = kinds[number % len(kinds)]
        data = rng.choice(made[kind])
        if kind == "tar.gz":
            report.check(kind, mutated_archive(rng, data, rng.choice(made[kind])))
        else:
            report.check(kind, mutated(rng, data, rng.choice(every)))


numbers = st.integers(-1, 70).map(str) | st.sampled_from(["8191", "8192", "99999999999", "-", "x"])
cpulists = st.lists(
    numbers | st.tuples(numbers, numbers).map("-".join) | st.sampled_from(["0-62:2", "", " 3"]),
    max_size=4,
).map(",".join)
words = st.sampled_from(TOKENS) | numbers | cpulists | st.text(max_size=6)


def table(headers: list[str], separator: str) -> st.SearchStrategy[str]:
    """Make a header of some columns and rows of words below it."""
    header = st.lists(st.sampled_from(headers), min_size=1, max_size=7)
    rows = st.lists(st.lists(words, max_size=7).map(separator.join), max_size=8)
    return st.tuples(header.map(separator.join), rows).map(
        lambda made: "\n".join([made[0], *made[1]])
    )


columns = ["CPU", "NODE", "SOCKET", "CORE", "L1d:L1i:L2:L3", "ONLINE", "MODELNAME", "BOOK"]
paths = st.sampled_from(
    [
        *(
            f"sys/devices/system/cpu/{name}"
            for name in ("possible", "present", "online", "cpu1/node1")
        ),
        *(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list" for cpu in range(3)),
        *(f"sys/devices/system/cpu/cpu{cpu}/topology/cluster_cpus_list" for cpu in (0, 1, 99999)),
        "sys/devices/system/cpu/cpu0/topology/thread_siblings",
        *(
            f"sys/devices/system/cpu/cpu0/cache/index2/{name}"
            for name in ("level", "shared_cpu_list")
        ),
        *(f"sys/devices/system/node/node{node}/cpulist" for node in (0, 1, 1023, 5000)),
        *(f"sys/devices/system/node/{name}" for name in ("possible", "online", "node0/distance")),
        *(f"proc/irq/24/{name}" for name in ("smp_affinity", "smp_affinity_list", "node")),
        *("proc/interrupts", "sys/block/nvme0n1/mq/0/cpu_list", "proc/irq/999999999/node"),
    ]
)
values = cpulists | words | st.lists(numbers, max_size=4).map(" ".join)
trees = st.dictionaries(paths, values, max_size=12)
masks = st.sampled_from(["0x3", "0xf", "0x1,0x0", ",,", "0xf...f", "", "0x" + "f" * 9, "0xc"])
objects = st.builds(
    lambda kind, mask, number, depth, inner: (
        f'<object type="{kind}" cpuset="{mask}" os_index="{number}" depth="{depth}" '
        f'subtype="Cluster">{inner}</object>'
    ),
    st.sampled_from(["PU", "Core", "NUMANode", "Machine", "Group", "L2Cache", "Cache", "Odd"]),
    masks,
    numbers.filter(str.isalnum),
    st.sampled_from(["1", "2", "x"]),
    st.sampled_from(["", '<object type="PU" os_index="0" cpuset="0x1"/>', "<info/>", "text"]),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9000) | cpulists | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
lscpu_keys = st.sampled_from(["cpu", "node", "core", "socket", "online", "l1d:l1i:l2:l3", "l2"])

MADE: dict[str, st.SearchStrategy[str | bytes]] = {
    "made: any text": st.text(max_size=300),
    "made: any bytes": st.binary(max_size=1000),
    "made: lscpu -p": table([*columns, ""], ",").map(lambda text: "# CPU," + text),
    "made: lscpu -e": table(columns, " ").map(lambda text: "CPU " + text),
    "made: lscpu --json": st.dictionaries(
        st.sampled_from(["cpus", "lscpu"]),
        st.lists(st.dictionaries(lscpu_keys | words, json_values, max_size=5), max_size=5)
        | json_values,
        min_size=1,
    ).map(json.dumps),
    "made: lscpu": st.lists(
        st.tuples(
            st.sampled_from(["Architecture", "NUMA node0 CPU(s)", "NUMA 1", "On-line CPU(s) list"]),
            values,
        ).map(": ".join)
    ).map("\n".join),
    "made: numactl": st.lists(
        st.sampled_from(
            ["node 0 cpus: ", "node 1 cpus: ", "node ", "  0: ", "  1: ", "node 5 cpus:"]
        ).flatmap(lambda head: st.lists(numbers, max_size=5).map(lambda row: head + " ".join(row)))
    ).map(lambda made: "\n".join(["available: 2 nodes (0-1)", *made])),
    "made: hwloc": st.lists(objects, max_size=6).map(
        lambda made: f"<topology>{''.join(made)}</topology>"
    ),
    "made: interrupts": st.lists(
        st.tuples(numbers, st.lists(words, max_size=7).map(" ".join)).map(": ".join), max_size=6
    ).map(lambda made: "\n".join(["  CPU0  CPU1", *made])),
    "made: dump": trees.map(shapes.grep),
    "made: tail": trees.map(shapes.tail),
    "made: scripts' lines": st.lists(
        st.tuples(
            st.sampled_from(["irq ", "-e irq ", "IRQ=", "hctx", "queue mapping for /dev/", "7: "]),
            numbers,
            st.sampled_from([", cpu list ", " affinity ", " configured=", ": default ", " a "]),
            values,
            st.sampled_from([", effective list ", " effective ", " effective=", " affinity: ", ""]),
            values,
        ).map("".join)
    ).map("\n".join),
    "made: tar.gz": trees.map(shapes.archive),
    "made: capture": st.tuples(st.randoms(use_true_random=False), json_values).map(
        lambda made: changed_capture(*made)
    ),
}


def changed_capture(rng: random.Random, value: object) -> str:
    """Put a value somewhere into a good capture."""
    document = json.loads(CAPTURE)
    at = document
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            break
        key = rng.choice(keys)
        if not isinstance(at[key], dict | list) or not at[key] or rng.random() < 0.3:
            at[key] = value
            break
        at = at[key]
    return json.dumps(document)


CAPTURE = fixtures()["capture"][0]


def run_made(report: Report, number: int, inputs: int) -> None:
    """Have hypothesis make inputs of each kind."""
    each = -(-inputs // len(MADE))
    for kind, strategy in MADE.items():
        run_strategy(report, number, each, kind, strategy)


def run_strategy(
    report: Report, number: int, inputs: int, kind: str, strategy: st.SearchStrategy[str | bytes]
) -> None:
    @seed(number)
    @settings(
        max_examples=inputs,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def check(made: str | bytes) -> None:
        data = made if isinstance(made, bytes) else made.encode("utf-8", "surrogatepass")
        report.check(kind, data)

    check()


def run_structured(report: Report, rng: random.Random, inputs: int) -> None:
    """Change real files by their structure, and put them together as people paste them."""
    real = real_files()
    changes = {"JSON": changed_json, "XML": changed_xml, "table": changed_table}
    every = [*real["table"], *real["JSON"][:4], *real["XML"][:2]]
    for number in range(inputs):
        kind = ("JSON", "XML", "table", "table", "pasted")[number % 5]
        if kind == "pasted":
            made = pasted(rng, every)
        else:
            made = changes[kind](rng, rng.choice(real[kind]))
            if kind == "table" and rng.random() < 0.3:
                made = pasted(rng, [made])
        report.check(f"real: {kind}", made.encode("utf-8", "surrogatepass"))


def run_large(report: Report) -> None:
    for name, make in large():
        report.check(f"large: {name}", make())


def run(inputs: int, number: int = 0, *, with_large: bool = False) -> Report:
    """Try so many inputs: half are real files changed by their structure, a quarter made up."""
    with tempfile.TemporaryDirectory() as folder:
        report = Report(Path(folder))
        run_made(report, number, inputs // 4)
        run_structured(report, random.Random(number), inputs // 2)
        run_mutations(report, random.Random(number), inputs - report.counts.total())
        if with_large:
            run_large(report)
    return report


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=20_000, help="how many (20000)")
    parser.add_argument("--seed", type=int, default=0, help="others for another seed (0)")
    options = parser.parse_args(arguments)
    report = run(options.inputs, options.seed, with_large=True)
    print(report.table())
    for broken in report.broken:
        print("BROKEN", broken)
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
