"""Which folder may import which, as docs/architecture.md says, and how."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "dsalang": "dsalang",
    "jit": "dsalang._jit",
    "backend": "dsalang._backend",
    "runtime": "dsalang._runtime",
}
PRIVATE = {package: folder for folder, package in FOLDERS.items() if folder != "dsalang"}


def table() -> dict[str, set[str]]:
    """The table of the architecture page: folder → folders it may import."""
    allowed = {}
    for line in (ROOT / "docs" / "architecture.md").read_text().splitlines():
        cells = [cell.strip().strip("`") for cell in line.split("|")[1:-1]]
        if len(cells) == 4 and cells[0].rstrip("/") in FOLDERS and cells[1].startswith("dsalang"):
            may = cells[3]
            names = set(FOLDERS) if may == "all" else {f for f in FOLDERS if f"_{f}" in may}
            allowed[cells[0].rstrip("/")] = names
    return allowed


ALLOWED = table()
FILES = [
    (folder, path)
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not (
        folder == "dsalang"
        and path.relative_to(ROOT / folder).parts[0].startswith("_")
        and len(path.relative_to(ROOT / folder).parts) > 1
    )
]


def imports(path: Path, package: str):
    """(absolute module, level, line) of every import of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, 0, node.lineno
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = package.split(".")[: len(package.split(".")) - node.level + 1]
                yield ".".join([*base, *filter(None, [node.module])]), node.level, node.lineno
            else:
                yield node.module or "", 0, node.lineno
                for alias in node.names:
                    yield f"{node.module}.{alias.name}", 0, node.lineno


def package_of(folder: str, path: Path) -> str:
    parts = path.relative_to(ROOT / folder).parts[:-1]
    return ".".join([FOLDERS[folder], *parts])


def home(module: str) -> str | None:
    """The folder that a module of ours lives in, None for strangers."""
    for package, folder in PRIVATE.items():
        if module == package or module.startswith(package + "."):
            return folder
    return "dsalang" if module == "dsalang" or module.startswith("dsalang.") else None


def test_the_page_has_the_table():
    assert {
        "dsalang": {"dsalang", "jit", "backend", "runtime"},
        "jit": {"backend", "runtime"},
        "runtime": {"backend"},
        "backend": set(),
    } == ALLOWED


@pytest.mark.parametrize(("folder", "path"), FILES, ids=lambda v: str(v).replace(str(ROOT), ""))
def test_imports_go_down(folder, path):
    package = package_of(folder, path)
    modules = list(imports(path, package))
    # `from dsalang._backend import x` is listed as both the package and the name in it; the bare
    # package "dsalang" is only a step on the way when a longer one of the same line follows.
    for module, level, line in modules:
        target = home(module)
        if target is None:
            assert module.split(".")[0] not in ("jit", "backend", "runtime"), f"{path}:{line}"
            continue
        if module == "dsalang" and any(
            m.startswith("dsalang._") and at == line for m, _, at in modules
        ):
            continue
        assert target == folder or target in ALLOWED[folder], f"{path}:{line} imports {module}"
        if level:
            assert target == folder, f"{path}:{line}: relative import across folders"
        elif folder != "dsalang":
            assert target != folder, f"{path}:{line}: absolute import inside a folder"


def test_an_upward_import_would_be_found(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("from dsalang._jit import knobs\nimport backend\nfrom .. import x\n")
    found = [module for module, _, _ in imports(path, "dsalang._backend.passes")]
    assert home(found[0]) == "jit" and "jit" not in ALLOWED["backend"]
    assert "backend" in found and "dsalang._backend" in found
