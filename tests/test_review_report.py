# SPDX-License-Identifier: GPL-2.0-only
import json
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from groupcpus import load_machine
from groupcpus.__main__ import main
from groupcpus.studies.review.compiled import revision_from_c
from groupcpus.studies.review.report import review
from groupcpus.studies.review.tree import review_tree, walk
from groupcpus.studies.review.zoo import zoo

OWN = Path(str(files("groupcpus.studies.review").joinpath("c")))

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler"
)

DIFF = """--- a/lib/group_cpus.c
+++ b/lib/group_cpus.c
@@ -{line},{old} +{line},{new} @@
{body}"""


def write_patch(path, old, new):
    """Write a diff that replaces a line of our own C."""
    lines = (OWN / "plain/lib/group_cpus.c").read_text(encoding="utf-8").splitlines()
    at = lines.index(old)
    added = new.splitlines()
    body = f" {lines[at - 1]}\n-{old}\n" + "".join(f"+{line}\n" for line in added)
    text = DIFF.format(line=at, old=2, new=1 + len(added), body=body)
    path.write_text(text, encoding="utf-8")
    return path


def test_report_on_a_revision_by_name():
    machines = [load_machine("L96as_v4"), load_machine("mana_8cpu")]
    made = review("rotate-v2", most_cpus=4, machines=machines, workers=1)
    assert [finding.what for finding in made.findings if not finding.base] == [
        "a mask is empty, though there are as many CPUs as groups"
    ]
    assert made.same == ("mana_8cpu",)
    (change,) = made.changes
    assert change.before
    assert change.after
    assert (change.verdict, change.before.greatest, change.after.greatest) == ("better", 6, 4)
    text = str(made)
    assert "3 groups at counter 4294967295: 0-1 | 2-3 | empty" in text
    assert "Masks change on 1 of 2 machines: 1 better." in text
    assert max(map(len, text.splitlines())) < 80
    assert json.loads(json.dumps(made.document()))["changes"][0]["verdict"] == "better"


def test_a_revision_against_itself_changes_nothing():
    made = review("cluster", "cluster", most_cpus=3, machines=[load_machine("L48s_v2")], workers=1)
    assert not made.changes
    assert "Masks change on 0 of 1 machines." in str(made)
    assert all(finding.base for finding in made.findings)


def test_zoo_has_shapes_of_every_kind():
    machines = {machine.name: machine for machine in zoo()}
    assert len(machines["epyc_nps4"].topology.nodes) == 8
    assert len(machines["power"].topology.siblings[0]) == 8
    assert len(machines["s390"].topology.present) == 24
    assert machines["kunpeng"].topology.llcs


@needs_compiler
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "\tif (place->next >= place->count)",
            "\tif (place->next > place->count)",
            "a call does not come back: heap-buffer-overflow in ",
        ),
        ("\t\tnr++;", "\t\tnr--;\n\t\tnr++;\n\t\tcpumask_copy(left, cpus);", "it loops"),
        ("\t\tnr++;", "\t\tnr++", "it does not compile"),
        ("\t\tnr++;", "\t\tnr += get_random_u32();", "needs get_random_u32, which neither"),
        ("\tkfree(firsts);", "\tbarrier();", "1 allocation not freed"),
        (
            "\t\tfill_group(next_mask(place), cpus, share + (group < extra));",
            "\t\tfill_group(next_mask(place), cpus, share);",
            "a possible CPU is in no mask, or in two",
        ),
    ],
)
def test_what_a_patch_breaks_is_found(tmp_path, old, new, told):
    patch = write_patch(tmp_path / "my.patch", old, new)
    made = review_tree(OWN / "plain", [patch], most_cpus=3, machines=[])
    new_ones = [finding for finding in made.findings if not finding.base]
    assert any(told in f"{finding.what}: {finding.where}" for finding in new_ones), str(made)


@needs_compiler
def test_a_patch_that_changes_nothing_has_no_finding(tmp_path):
    patch = write_patch(tmp_path / "my.patch", "\t\tnr++;", "\t\tnr += 1;")
    made = review_tree(OWN / "plain", [patch], most_cpus=3, machines=[load_machine("L48s_v2")])
    assert "No finding that the base has not." in str(made)
    assert "memory errors, loops, leaks" in str(made)
    assert made.same == ("L48s_v2",)


@needs_compiler
def test_commits_are_walked(tmp_path):
    lib = tmp_path / "lib"
    shutil.copytree(OWN / "plain/lib", lib)

    def git(*words):
        identity = ["-c", "user.name=x", "-c", "user.email=x"]
        done = ["git", "-C", str(tmp_path), *identity, *words]
        subprocess.run(done, check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    git("tag", "start")
    file = lib / "group_cpus.c"
    file.write_text(f"{file.read_text(encoding='utf-8')}\n/* end */\n", encoding="utf-8")
    git("commit", "-qam", "Add a remark")
    shutil.copy(OWN / "tiled/lib/group_cpus.c", file)
    git("commit", "-qam", "Rotate")
    made = walk(tmp_path, "start..HEAD", most_cpus=2, machines=[])
    assert [subject for _, subject, _ in made.steps] == ["Add a remark", "Rotate"]
    assert made.steps[0][2] == ()
    assert "L96as_v4 (better)" in made.steps[1][2]
    assert "changes no mask" in str(made)


@needs_compiler
def test_command(tmp_path, capsys):
    patch = write_patch(tmp_path / "my.patch", "\t\tnr++;", "\t\tnr++")
    assert main(["review", "--tree", str(OWN / "plain"), str(patch)]) == 0
    assert "does not compile: expected ';'" in capsys.readouterr().out
    assert main(["review", "--tree", str(tmp_path), str(patch)]) == 2
    assert "there is no such file" in capsys.readouterr().err
    assert main(["review"]) == 2
    assert "either --tree or --revision" in capsys.readouterr().err
    asked = ["review", "--revision", "numa", "--can-it-happen", "crosses-nodes-of-more"]
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["case"]["numgrps"] == 3
    assert main(asked) == 0
    assert "qemu-system-x86_64" in capsys.readouterr().out


def test_command_draws_the_worst_machine_beside_json(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "worst.svg"
    asked = ["review", "--revision", "rotate-v2", "--most-cpus", "2", "--json"]
    assert main([*asked, "--picture", str(picture)]) == 0
    changes = json.loads(capsys.readouterr().out)["changes"]
    worst = next(change["machine"] for change in changes if change["verdict"] == "worse")
    text = picture.read_text(encoding="utf-8")
    assert "rotate-v2" in text
    assert worst in text
    assert main([*asked, "--picture", str(tmp_path / "worst.gif")]) == 2
    assert "that ends in .png or .svg" in capsys.readouterr().err


@needs_compiler
def test_c_of_a_tree_is_searched_as_well():
    from groupcpus.studies.review.search import can_it_happen

    plain = revision_from_c(OWN / "plain")
    case = can_it_happen("crosses-nodes-of-more", plain, workers=1, most_cpus=4).case
    assert case is not None
    assert case.numgrps == 3
    assert len(case.topology.possible) == 4
