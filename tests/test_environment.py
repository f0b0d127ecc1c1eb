# SPDX-License-Identifier: GPL-2.0-only
"""environment.yml, requirements.lock and pyproject.toml must ask for the same things."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())
LOCK = (ROOT / "requirements.lock").read_text()
LOCKED = ("dashboard", "lab", "site", "sweep", "test")  # what the Makefile installs
# conda-forge splits the Qt parts off these packages.
CONDA_NAMES = {"matplotlib-base": "matplotlib", "seaborn-base": "seaborn"}


def wanted(*extras: str) -> dict[str, SpecifierSet]:
    """Map the names that pyproject.toml asks for to their version ranges."""
    lines = list(PROJECT["dependencies"])
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    requirements = [Requirement(line) for line in lines]
    return {canonicalize_name(req.name): req.specifier for req in requirements}


def locked() -> list[Requirement]:
    """Return the pins of requirements.lock."""
    return [Requirement(line) for line in LOCK.splitlines() if re.match(r"\w", line)]


def test_conda_environment_asks_for_what_the_package_its_lab_and_its_dashboard_ask_for():
    requirements = [Requirement(entry) for entry in CONDA["dependencies"] if isinstance(entry, str)]
    conda = {CONDA_NAMES.get(req.name, req.name): req.specifier for req in requirements}
    assert conda.pop("python") == SpecifierSet(PROJECT["requires-python"])
    assert conda.pop("pip") == SpecifierSet()
    assert conda == wanted("lab", "dashboard")


def test_conda_environment_takes_conda_forge_alone_and_installs_this_package():
    assert CONDA["channels"] == ["conda-forge"]
    assert CONDA["dependencies"][-1] == {"pip": ["-e ."]}


@pytest.mark.parametrize("name", sorted(wanted(*LOCKED)))
def test_every_dependency_is_bounded_and_locked_within_its_bounds(name):
    bounds = wanted(*LOCKED)[name]
    assert {spec.operator for spec in bounds} == {">=", "<"}
    pins = [spec.version for req in locked() if req.name == name for spec in req.specifier]
    assert pins, f"requirements.lock has no {name}: run `make lock`"
    assert all(pin in bounds for pin in pins), f"{pins} is outside {bounds}: run `make lock`"


def test_lock_names_no_address_and_no_path():
    assert not re.search(r"://|^-|^\.|^/|@ ", LOCK, flags=re.MULTILINE)
