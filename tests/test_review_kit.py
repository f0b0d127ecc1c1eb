# SPDX-License-Identifier: GPL-2.0-only
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from groupcpus.__main__ import main
from groupcpus.errors import RequestError
from groupcpus.studies.review.kit import kit_files, kit_machines, write_kit

needs_compiler = pytest.mark.skipif(
    not (shutil.which("cc") and shutil.which("make")), reason="there is no C compiler"
)

KUNIT = Path(__file__).with_name("data")

# Each is a slip that a rotation of this kind invites, or one of any C.
MUTATIONS = [
    ("(u32)atomic_fetch_add(numgrps, &groups_given)", "(u32)atomic_fetch_add(1, &groups_given)"),
    ("(u32)atomic_fetch_add(numgrps, &groups_given)", "atomic_add_return(numgrps, &groups_given)"),
    ("if (numgrps > 1)\n\t\tturn.total", "if (numgrps)\n\t\tturn.total"),
    # In 32 bits the sum wraps; 2**32 is no multiple of three.
    ("modulo((s64)i - before, count) < more", "(i - (u32)before) % count < more"),
    ("modulo((s64)i - before, count) < more", "modulo((s64)i - before, count) <= more"),
    ("modulo((s64)i - before, count) < more", "i < more"),
    ("part->total * (s64)(share * (share + 1))", "(u32)part->total * share * (share + 1)"),
    ("s64 moved = floor_div(", "u32 moved = floor_div("),
    ("return left < 0 ? left + divisor : left;", "return left;"),
    ("floor_div(before - i + count - 1, count)", "div_s64(before - i + count, count)"),
    ("total - (s64)calls * (all - here)", "total"),
    ("turn.total / numgrps", "turn.total"),
    ("parts[to].ncpus == parts[from].ncpus", "parts[to].ncpus <= parts[from].ncpus + 1"),
    ("place->next >= place->count", "place->next > place->count"),
    ("next + 1 == ncpus ? 0 : next + 1", "next + 1"),
    ("share <= layout.cluster_max", "share < layout.cluster_max"),
    ("layout.cluster_max < widest", "layout.cluster_max <= widest"),
    ("share <= layout.core_max", "share < layout.core_max"),
    ("back = modulo(floor_div(part->total, ngroups), ncpus);", "back = 0;"),
    ("DIV_ROUND_UP((round + v) * ncpus, ngroups)", "(round + v) * ncpus / ngroups"),
    ("count = share + (v < extra)", "count = share + (v + 1 < extra)"),
    ("same_size(parts, nr) ? turn.total % nr : 0", "0"),
    ("if (!nr || nr > node->ngroups)", "if (!nr || nr >= node->ngroups)"),
    ("if (cpumask_empty(cluster))\n\t\t\treturn 0;", ""),
    ("place.next = (unsigned int)present >= numgrps ? 0 : present;", "place.next = 0;"),
    ("kfree(layout.cpus);", "barrier();"),
    ("free_cpumask_var(cpus);", "barrier();"),
    ("layout.cpus = kcalloc(ncpus,", "layout.cpus = kcalloc(ncpus - 1,"),
    ("if (!parts || !firsts)", "if (!parts)"),
    ("min((unsigned int)(present + others), numgrps)", "present + others"),
    ("part->ngroups = max(1U, (unsigned int)(", "part->ngroups = ((unsigned int)("),
]


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kit")
    write_kit(folder)
    return folder


def make(kit, *options):
    environment = {"PATH": os.environ["PATH"]}
    command = ["make", "-s", "-C", str(kit), *options]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=environment, check=False
    )


@needs_compiler
def test_userspace_test_passes_on_the_rotation(kit):
    done = make(kit)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-500:]
    assert "not ok" not in done.stdout
    assert int(done.stdout.split("1..")[1].split()[0]) > 5000


@needs_compiler
def test_kunit_cases_pass_on_the_rotation(kit, tmp_path):
    headers = [
        line.split("<")[1].split(">")[0]
        for name in ("group_cpus_kunit.c", "group_cpus.c", "sort.c")
        for line in (kit / name).read_text(encoding="utf-8").splitlines()
        if line.startswith("#include <linux/")
    ]
    for header in headers:
        (tmp_path / header).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / header).write_text("", encoding="utf-8")
    program = tmp_path / "kunit"
    command = ["cc", "-std=gnu11", "-w", "-fwrapv", "-O1", "-DNR_CPUS=512", "-DSTAND_IN_NUMMASKS"]
    command += ["-include", "stand_in.h", f"-I{kit}", f"-I{tmp_path}", f"-I{KUNIT}"]
    command += [str(kit / "group_cpus_kunit.c"), "-x", "c", str(kit / "sort_for_test.c")]
    (kit / "sort_for_test.c").write_text('#undef swap\n#include "sort.c"\n', encoding="utf-8")
    subprocess.run([*command, "-o", str(program)], check=True, capture_output=True)
    ran = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (0, "group_cpus: 0 failures\n")


@needs_compiler
def test_every_seeded_mutation_is_caught(kit, tmp_path):
    text = (kit / "group_cpus.c").read_text(encoding="utf-8")
    assert len(MUTATIONS) == len(set(MUTATIONS)) > 30

    def survives(number):
        old, new = MUTATIONS[number]
        assert old in text, old
        folder = tmp_path / str(number)
        shutil.copytree(kit, folder)
        for made in ("group_cpus_test", "sorting.c"):
            (folder / made).unlink(missing_ok=True)
        mutated = text.replace(old, new, 1)
        (folder / "group_cpus.c").write_text(mutated, encoding="utf-8")
        done = make(folder, "CFLAGS=-O0 -g -fsanitize=address")
        assert (folder / "group_cpus_test").exists(), (old, new, done.stderr[:500])
        return done.returncode == 0

    with ThreadPoolExecutor(2) as pool:
        alive = [
            MUTATIONS[number]
            for number, lives in enumerate(pool.map(survives, range(len(MUTATIONS))))
            if lives
        ]
    assert not alive


@needs_compiler
def test_kit_tests_another_file_with_tables_of_its_revision(tmp_path):
    files = kit_files("cluster")
    assert "#define CASE_COUNTER" not in files["group_cpus_cases.h"]
    write_kit(tmp_path / "new", "cluster")
    from importlib.resources import files as resources

    plain = resources("groupcpus.studies.review").joinpath("c/plain/lib/group_cpus.c")
    done = make(tmp_path / "new", f"FILE={plain}")
    assert done.returncode == 0, done.stdout[-300:] + done.stderr[-500:]
    rotation = make(tmp_path / "new", "FILE=group_cpus.c", "-B")
    assert rotation.returncode != 0


def test_machines_of_the_tables():
    machines = dict(kit_machines())
    assert {"three_nodes", "uneven_cores", "L48s_v2", "vm_plugged", "vm_unknown"} <= set(machines)


def test_nothing_of_others_is_written_over(tmp_path, capsys):
    folder = tmp_path / "kit"
    assert main(["kit", "--output", str(folder)]) == 0
    assert "group_cpus_kunit.c" in capsys.readouterr().out
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    write_kit(folder)
    assert (folder / "notes.txt").read_text(encoding="utf-8") == "mine"
    (folder / "Makefile").write_text("mine", encoding="utf-8")
    with pytest.raises(RequestError, match="not written by groupcpus kit"):
        write_kit(folder)
    assert (folder / "Makefile").read_text(encoding="utf-8") == "mine"
    (folder / "Makefile").unlink()
    (folder / "Makefile").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RequestError, match="not written over"):
        write_kit(folder)
    with pytest.raises(RequestError, match="expected a folder"):
        write_kit(folder / "notes.txt")
