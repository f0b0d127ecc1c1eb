# SPDX-License-Identifier: GPL-2.0-only
"""A QEMU command line that boots a small machine, where QEMU can make it."""

from collections.abc import Sequence

from groupcpus.engine.topology import Topology
from groupcpus.errors import RequestError

__all__ = ["qemu_command"]


def qemu_command(topology: Topology, queues: int) -> str:
    r"""Return a command line for a machine with one NVMe disk of some queues, or why there is none.

    ``-smp`` makes cores and clusters of one size, numbered in a row; nodes may have any size, and
    absent CPUs are the last ones.  On x86 a core's threads are its cluster; on arm64 ``-smp
    clusters=`` makes larger ones.

    Examples
    --------
    >>> print(qemu_command(Topology.uniform(2, 2, threads=2), 3))
    qemu-system-x86_64 -machine q35 -accel kvm -m 1G -nographic \
      -smp cpus=4,maxcpus=4,sockets=2,cores=1,threads=2 \
      -object memory-backend-ram,id=m0,size=512M -numa node,nodeid=0,memdev=m0 \
      -object memory-backend-ram,id=m1,size=512M -numa node,nodeid=1,memdev=m1 \
      -numa cpu,node-id=0,socket-id=0 \
      -numa cpu,node-id=1,socket-id=1 \
      -device nvme,serial=1,max_ioqpairs=3 -kernel bzImage -append console=ttyS0
    """
    try:
        return _command(topology, queues)
    except RequestError as error:
        return str(error)


def _command(topology: Topology, queues: int) -> str:
    count = len(topology.possible)
    present = len(topology.present)
    if topology.possible.mask != (1 << count) - 1 or topology.present.mask != (1 << present) - 1:
        raise _none("CPU numbers with gaps, or absent CPUs before present ones")
    threads = _size([topology.core_cpus[cpu] for cpu in topology.possible], "cores")
    clusters = topology.clusters_in(topology.possible)
    if clusters is None:
        raise _none("CPUs whose cluster is not known")
    width = _size(clusters, "clusters")
    arm = width not in (threads, count if threads == count else threads)
    if arm and present < count:
        raise _none("absent CPUs and clusters larger than a core at once")
    rows = [f"-smp {_smp(count, present, threads, width, arm)}"]
    rows += [
        f"-object memory-backend-ram,id=m{node},size={1024 // len(topology.nodes)}M "
        f"-numa node,nodeid={node},memdev=m{node}"
        for node in topology.nodes
    ]
    for cpu in range(0, count, threads):
        node = topology.node_ids[cpu]
        if arm:
            at = f"socket-id=0,cluster-id={cpu // width},core-id={cpu % width // threads}"
            rows += [f"-numa cpu,node-id={node},{at},thread-id={t}" for t in range(threads)]
        else:
            rows.append(f"-numa cpu,node-id={node},socket-id={cpu // threads}")
    head = "qemu-system-x86_64 -machine q35 -accel kvm -m 1G -nographic"
    boot = "-kernel bzImage -append console=ttyS0"
    if arm:
        head = "qemu-system-aarch64 -machine virt,gic-version=3,its=on -cpu max -m 1G -nographic"
        boot = "-kernel Image -append console=ttyAMA0"
    rows.append(f"-device nvme,serial=1,max_ioqpairs={queues} {boot}")
    return " \\\n  ".join([head, *rows])


def _smp(count: int, present: int, threads: int, width: int, arm: bool) -> str:
    if arm:
        inside = f"clusters={count // width},cores={width // threads},threads={threads}"
        return f"cpus={count},maxcpus={count},sockets=1,{inside}"
    inside = f"sockets={count // threads},cores=1,threads={threads}"
    return f"cpus={present},maxcpus={count},{inside}"


def _size(sets: Sequence[tuple[int, ...]], what: str) -> int:
    """Return the size of sets that are equal and in a row."""
    different = sorted(set(sets))
    size = len(different[0])
    numbers = [cpu for cpus in different for cpu in cpus]
    if any(len(cpus) != size for cpus in different) or numbers != list(range(len(numbers))):
        raise _none(f"{what} of several sizes, or not in a row")
    return size


def _none(why: str) -> RequestError:
    return RequestError(f"QEMU's -smp cannot make this machine: {why}")
