"""The layout of the house: who may import whom, what is loaded when, what is public, what is said.

The rules read: a module on the left may import the modules on the right, at its top or inside its
functions; a star stands for any name, "!cli" for anything else. What only a type checker reads is
free.
"""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import inverseq

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "inverseq"

NOUNS = ["task", "demonstrations", "solution"]
MODEL = ["task", "transitions", "labels", "_checks"]
WORDS = ["shapes", "errors"]
ALLOWED = {
    "": ["*"],  # __init__.py itself
    "shapes": [],
    "errors": [],
    "version": [],
    "_processes": [],
    "_progress": [],
    "_random": ["errors"],
    "labels": ["history", "errors"],  # only to make what was saved
    "_checks": ["errors"],
    "transitions": ["_checks", *WORDS],
    "equations": ["shapes"],
    "_kernels": ["equations"],
    "_linear": [*WORDS],
    "io": ["io.*", "errors"],
    "io.storage": ["errors"],
    "io.*": ["errors"],
    "io.columns": ["labels", "errors"],
    "io.tally": ["_kernels", "labels", "errors"],
    "io.counting": ["labels", "io.columns", "io.logs", "io.tally", "errors"],
    "io.files": ["demonstrations", "history", "labels", "io.*", "_checks", "_progress", "errors"],
    "io.imitation": ["demonstrations", "io.storage", "errors"],
    "io.overview": ["demonstrations", "labels", "io.columns", "io.files", "io.logs", "errors"],
    "io.logs": ["labels", "io.columns", "_checks", "errors"],
    "io.minari": ["demonstrations", "io.spaces", "io.storage", "_checks", *WORDS],
    "task": ["transitions", "labels", "_checks", *WORDS],
    "demonstrations": [*MODEL, "equations", "history", "io.logs", "io.storage", "_random", *WORDS],
    "history": [*MODEL, "equations", *WORDS],
    "planning": ["equations", "_linear", *MODEL, "_progress", *WORDS],
    "gauges": ["equations", "planning", "likelihood", "_linear", *MODEL, "_progress", *WORDS],
    "solution": [
        *["equations", "gauges", "planning", *MODEL, "demonstrations", "io", "io.*", "nets"],
        "version",
        *WORDS,
    ],
    "likelihood": ["equations", "planning", "_linear", *MODEL, *WORDS],
    "matching": [*NOUNS, "equations", "gauges", "planning", "_checks", *WORDS],
    "nets": ["_checks", *WORDS],
    "rewards": ["nets", "_checks", *WORDS],
    "training": [
        *[*NOUNS, "equations", "nets", "planning", "io.storage"],
        *["_checks", "_processes", "_progress", "_random", *WORDS],
    ],
    "algorithms": ["algorithms.*"],
    "algorithms.*": [
        *[*NOUNS, "equations", "gauges", "planning", "likelihood", "matching", "rewards"],
        *["_kernels", "history", "nets", "training"],
        *["_checks", "_progress", "_random", *WORDS],
    ],
    "evaluate": [*NOUNS, "_checks", "equations", "planning", *WORDS],
    "identification": [*NOUNS, "evaluate", "_checks", "_processes", "_progress", "_random", *WORDS],
    "uncertainty": [
        *[*NOUNS, "algorithms.iavi", "evaluate", "gauges", "planning", "transitions", "_linear"],
        *["_checks", "_processes", "_progress", "_random", *WORDS],
    ],
    "worlds": ["worlds.*"],
    "worlds.gym": [
        *[*MODEL, "demonstrations", "io.spaces", "worlds.gym_wrappers", "_random", *WORDS],
    ],
    "worlds.gym_wrappers": ["io.spaces", "errors"],
    "worlds.highway.*": [
        *["task", "demonstrations", "worlds.highway.*", "io.storage"],
        *["_checks", "_progress", "_random", *WORDS],
    ],
    "worlds.*": [*MODEL, "demonstrations", "planning", "worlds.*", "_random", *WORDS],
    "report": ["report.*"],
    "report.*": [
        *["solution", "labels", "evaluate", "identification", "worlds", "worlds.*", "report.*"],
        *["io.storage", *WORDS],
    ],
    "verbs": ["verbs.*"],
    "verbs.*": ["*", "!cli"],
    "experiments": ["experiments.*"],
    "experiments.*": ["*", "!cli"],
    "cli": ["*"],
    "__main__": ["cli"],
}

# What may be imported at the top of a module beside NumPy and the standard library.
AT_TOP = {
    "_kernels": {"numba"},
    "cli": {"tyro"},
    "worlds.gym_wrappers": {"gymnasium"},
    "worlds.highway": {"gymnasium"},  # registers the environment, where there is a Gymnasium
    "worlds.highway.environment": {"gymnasium"},  # derives from it, and is imported on first use
}
# `shapes` takes SciPy's class only in the branch that a test run enters.
IN_BRANCHES = {"shapes": {"jaxtyping", "scipy"}}


def name_of(path: Path) -> str:
    """A module's name inside the package: empty for the package, `io.storage` for a room in it."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def rule_of(module: str) -> list[str] | None:
    """What a module may import, by its own name or by that of its room."""
    if module in ALLOWED:
        return ALLOWED[module]
    matching = [rule for rule in ALLOWED if "*" in rule and fnmatchcase(module, rule)]
    return ALLOWED[matching[0]] if matching else None


class Imports(ast.NodeVisitor):
    """Everything that one syntax tree imports at run time: name, line, and how deep it lies."""

    def __init__(self, module: str, is_package: bool = False) -> None:
        self.package = ["inverseq", *filter(None, module.split("."))]
        if not is_package:
            self.package.pop()
        self.found: list[tuple[str, int, str]] = []
        self.depth = "top"

    def visit_If(self, node: ast.If) -> None:
        test = ast.unparse(node.test)
        if test in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            self.within("branch", node.orelse)
        else:
            self.within("branch", [node.test, *node.body, *node.orelse])

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        self.within("function", ast.iter_child_nodes(node))

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def within(self, depth: str, nodes) -> None:
        before, self.depth = self.depth, "function" if self.depth == "function" else depth
        for node in nodes:
            self.visit(node)
        self.depth = before

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(alias.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            above = self.package[: len(self.package) - node.level + 1]
            base = ".".join([*above, *filter(None, [node.module])])
        for alias in node.names:
            # `from inverseq.worlds import grid` may name a module or something that a module holds.
            inner = f"{base}.{alias.name}"
            is_module = inner.startswith("inverseq.") and inner[len("inverseq.") :] in MODULES
            self.add(inner if is_module else base, node)

    def visit_Call(self, node: ast.Call) -> None:
        called = ast.unparse(node.func).rpartition(".")[2]
        if called in ("import_module", "__import__") and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                above = ".".join(self.package) if name.value.startswith(".") else ""
                self.add(above + name.value, node)
        self.generic_visit(node)

    def add(self, name: str, node: ast.stmt | ast.expr) -> None:
        self.found.append((name, node.lineno, self.depth))


def may_import(allowed: list[str], target: str) -> bool:
    barred = any(rule == f"!{target}" for rule in allowed)
    return not barred and any(fnmatchcase(target, rule) for rule in allowed)


def imports_of(source: str, module: str, is_package: bool = False) -> list[tuple[str, int, str]]:
    visitor = Imports(module, is_package)
    visitor.visit(ast.parse(source))
    return visitor.found


def forbidden_arrows(source: str, module: str, is_package: bool = False) -> Iterator[str]:
    allowed = rule_of(module) or []
    for name, line, _ in imports_of(source, module, is_package):
        package, _, target = name.partition(".")
        if package != "inverseq" or target == module:
            continue
        if not may_import(allowed, target):
            yield f"line {line}: {module or 'inverseq'} must not import {name}"


def misplaced_imports(source: str, module: str) -> Iterator[str]:
    for name, line, depth in imports_of(source, module):
        package = name.partition(".")[0]
        if depth == "function" or package in {"inverseq", "numpy", *sys.stdlib_module_names}:
            continue
        if package in AT_TOP.get(module, ()):
            continue
        if depth == "branch" and package in IN_BRANCHES.get(module, ()):
            continue
        yield f"line {line}: import {package} inside the function that needs it"


@pytest.mark.parametrize("module", MODULES)
def test_every_import_is_an_arrow_of_the_house(module):
    path = MODULES[module]
    assert rule_of(module) is not None, f"no rule names {module}: say here what it may import"
    source = path.read_text(encoding="utf-8")
    assert not [*forbidden_arrows(source, module, path.name == "__init__.py")]


@pytest.mark.parametrize("module", MODULES)
def test_heavy_packages_are_imported_where_they_are_used(module):
    assert not [*misplaced_imports(MODULES[module].read_text(encoding="utf-8"), module)]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("equations", "import inverseq.task"),
        ("equations", "from inverseq import task"),
        ("equations", "from . import task"),
        ("equations", "from .task import Task"),
        ("equations", "from inverseq import Task"),
        ("task", "def f():\n    from inverseq.demonstrations import Demonstrations"),
        ("task", "if TYPE_CHECKING:\n    pass\nelse:\n    import inverseq.solution"),
        ("algorithms.iql", "from inverseq.algorithms.iavi import IAVI"),
        ("algorithms.iql", "from .iavi import IAVI"),
        ("algorithms.iql", "import importlib\nimportlib.import_module('inverseq.cli')"),
        ("io.storage", "from inverseq.io.readers import read"),
        ("experiments.objectworld", "from inverseq.cli import main"),
    ],
)
def test_a_forbidden_arrow_is_found(module, source):
    assert len([*forbidden_arrows(source, module)]) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("task", "if TYPE_CHECKING:\n    from inverseq.demonstrations import Demonstrations"),
        ("algorithms.iql", "from inverseq.equations import value"),
        ("experiments.objectworld", "from inverseq import IAVI, Task\nimport inverseq.worlds"),
        ("solution", "from .io.storage import save"),
    ],
)
def test_an_arrow_of_the_house_is_let_through(module, source):
    assert not [*forbidden_arrows(source, module)]


def test_a_module_that_no_rule_names_is_found():
    assert rule_of("helpful") is None
    assert rule_of("algorithms.new") is not None


def test_a_heavy_package_at_the_top_is_found():
    assert [*misplaced_imports("import jax.numpy as jnp", "planning")]
    assert [*misplaced_imports("try:\n    import matplotlib\nexcept ImportError: ...", "evaluate")]
    assert not [*misplaced_imports("def f():\n    import scipy.sparse", "planning")]


# -- what is loaded when ------------------------------------------------------------------------


def loaded_after(program: str) -> set[str]:
    """The modules that a fresh interpreter has loaded when the program ends."""
    program = f"""import json, sys
try:
    {program}
finally:
    print(json.dumps(sorted(sys.modules)))
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_importing_the_package_loads_nothing_heavy():
    heavy = {"scipy.sparse.linalg", "jax", "matplotlib", "numba", "pyarrow", "tyro", "rich"}
    assert not loaded_after("import inverseq") & heavy


def test_the_borders_to_environments_load_them_only_when_they_are_crossed():
    program = "import inverseq.worlds.gym, inverseq.io.minari, inverseq.io.spaces"
    assert not loaded_after(program) & {"gymnasium", "minari", "h5py"}


def test_asking_the_command_line_for_help_loads_nothing_heavy():
    program = "sys.argv = ['inverseq', '--help']; from inverseq.cli import main; main()"
    assert not loaded_after(program) & {"jax", "jinja2", "matplotlib", "numba", "scipy"}


# -- what is public -----------------------------------------------------------------------------


def test_the_public_names_are_sorted():
    # Constants, then classes, then functions, as the linter sorts them.
    def key(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2), name

    assert list(inverseq.__all__) == sorted(set(inverseq.__all__), key=key)


@pytest.mark.parametrize("name", inverseq.__all__)
def test_every_public_name_resolves_and_shows_an_example(name):
    public = getattr(inverseq, name)
    if callable(public) and not (isinstance(public, type) and issubclass(public, Exception)):
        assert ">>>" in (public.__doc__ or ""), f"{name} shows no example in its docstring"


# -- what things are called and what is written -------------------------------------------------

ABSOLUTE = re.compile(r"(?<![\w.:/-])/(?:home|root|tmp|mnt|opt|srv|work|Users|Volumes)/")
REGISTRY = re.compile(r"py[p]i\.|python[h]osted|npm[j]s\.|--(?:extra-)?index[-]url|anaconda[.]")


def tracked_files() -> list[Path]:
    """What is or would be committed."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip("this is no clone")
    return [ROOT / name for name in run.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_module_is_a_drawer():
    drawers = {"utils", "util", "helpers", "helper", "common", "misc"}
    named = {part.strip("_") for path in tracked_files() for part in (path.stem, path.parent.name)}
    assert not named & drawers


def test_no_file_names_a_place_on_somebodys_machine():
    found = []
    for path in tracked_files():
        if path == Path(__file__):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if ABSOLUTE.search(line) or REGISTRY.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert not found
