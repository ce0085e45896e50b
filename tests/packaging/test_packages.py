"""The packages of pyproject.toml, the folders and the links say the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = {
    "dsalang": "dsalang",
    "jit": "dsalang._jit",
    "backend": "dsalang._backend",
    "runtime": "dsalang._runtime",
}


def tracked(pattern: str) -> list[Path]:
    """Files that git knows, or that are there when this is no checkout."""
    found = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", pattern],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if found.returncode:
        return sorted(p.relative_to(ROOT) for p in ROOT.glob(pattern))
    return [Path(line) for line in found.stdout.splitlines() if (ROOT / line).exists()]


def test_every_folder_with_python_is_listed():
    folders = set()
    for folder, package in FOLDERS.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).parts[:-1]
            if folder == "dsalang" and parts and parts[0] in ("_jit", "_backend", "_runtime"):
                continue
            folders.add(".".join([package, *parts]))
    assert folders == set(PROJECT["tool"]["setuptools"]["packages"])


def test_every_package_has_an_init():
    mapping = PROJECT["tool"]["setuptools"]["package-dir"]
    for package in PROJECT["tool"]["setuptools"]["packages"]:
        base = max((p for p in mapping if (package + ".").startswith(p + ".")), key=len)
        rest = package[len(base) :].strip(".").split(".")
        assert ROOT.joinpath(mapping[base], *filter(None, rest), "__init__.py").is_file(), package


def test_links_and_mapping_agree():
    mapping = PROJECT["tool"]["setuptools"]["package-dir"]
    assert mapping == {package: folder for folder, package in FOLDERS.items()}
    for folder, package in FOLDERS.items():
        if folder != "dsalang":
            link = ROOT / package.replace(".", "/")
            assert link.is_symlink() and link.resolve() == ROOT / folder


def test_data_files_are_in_the_wheel():
    data = PROJECT["tool"]["setuptools"]["package-data"]
    for folder, package in FOLDERS.items():
        for path in tracked(f"{folder}/**"):
            full = ROOT / path
            if full.is_symlink() or path.suffix in (".py", ".md") or not full.is_file():
                continue
            parts = path.parts[1:-1]
            owner = ".".join([package, *parts])
            patterns = data.get(owner, [])
            assert any(Path(path.name).match(p) for p in patterns), f"{path} is in no package-data"


def test_no_module_takes_the_decorators_name():
    assert not (ROOT / "dsalang" / "jit.py").exists()
    assert not (ROOT / "dsalang" / "jit").exists()


def test_the_type_marker_is_shipped():
    assert "py.typed" in PROJECT["tool"]["setuptools"]["package-data"]["dsalang"]


def test_version_is_the_packages():
    import dsalang

    assert dsalang.__version__ == PROJECT["project"]["version"]


def test_the_command_exists():
    from dsalang.__main__ import main
    from dsalang.cli.main import main as same

    assert PROJECT["project"]["scripts"]["dsa"] == "dsalang.__main__:main"
    assert main is same
