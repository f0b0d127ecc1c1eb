# SPDX-License-Identifier: GPL-2.0-only
"""environment.yml, the locks and pyproject.toml must ask for the same things."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
LOCKS = {  # the extras that the Makefile installs from each
    "requirements.lock": ("batch", "dashboard", "lab", "site", "sweep", "test"),
    "requirements-lite.lock": ("lite",),
}
# conda-forge splits the Qt parts off these packages.
CONDA_NAMES = {"matplotlib-base": "matplotlib", "seaborn-base": "seaborn"}


def wanted(*extras: str) -> dict[str, SpecifierSet]:
    """Map the names that pyproject.toml asks for to their version ranges."""
    lines = list(PROJECT["dependencies"])
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    requirements = [Requirement(line) for line in lines]
    return {canonicalize_name(req.name): req.specifier for req in requirements}


def locked(lock: str) -> list[Requirement]:
    """Return the pins of a lock."""
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split("--hash")[0] for line in text.splitlines()]
    return [
        Requirement(line) for line in lines if line.strip() and not line.lstrip().startswith("#")
    ]


def test_conda_environment_asks_for_what_the_package_its_lab_and_its_dashboard_ask_for():
    requirements = [Requirement(entry) for entry in CONDA["dependencies"] if isinstance(entry, str)]
    conda = {CONDA_NAMES.get(req.name, req.name): req.specifier for req in requirements}
    assert conda.pop("python") == SpecifierSet(PROJECT["requires-python"])
    assert conda.pop("pip") == SpecifierSet()
    assert conda == wanted("lab", "dashboard")


def test_conda_environment_takes_conda_forge_alone_and_installs_this_package():
    assert CONDA["channels"] == ["conda-forge"]
    assert CONDA["dependencies"][-1] == {"pip": ["-e ."]}


@pytest.mark.parametrize(
    ("lock", "name"),
    [(lock, name) for lock, extras in LOCKS.items() for name in sorted(wanted(*extras))],
)
def test_every_dependency_is_bounded_and_locked_within_its_bounds(lock, name):
    bounds = wanted(*LOCKS[lock])[name]
    assert {spec.operator for spec in bounds} == {">=", "<"}
    pins = [spec.version for req in locked(lock) if req.name == name for spec in req.specifier]
    assert pins, f"{lock} has no {name}: run `make lock`"
    assert all(pin in bounds for pin in pins), f"{pins} is outside {bounds}: run `make lock`"


def test_every_extra_is_locked():
    assert sorted(sum(LOCKS.values(), ())) == sorted(PROJECT["optional-dependencies"])


def test_locks_do_not_contradict_each_other():
    first, second = ({(req.name, str(req.specifier)) for req in locked(lock)} for lock in LOCKS)
    both = {name for name, _ in first} & {name for name, _ in second}
    assert both
    assert {pin for pin in second if pin[0] in both} <= first


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_of_a_lock_carries_the_hashes_of_its_files(lock):
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ")
    pins = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert pins
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}\b", pin) for pin in pins)


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_name_no_address_and_no_path(lock):
    assert not re.search(
        r"://|^-|^\.|^/|@ ", (ROOT / lock).read_text(encoding="utf-8"), flags=re.MULTILINE
    )
