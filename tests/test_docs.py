"""The words beside the code are true: README and pages run, and cited departures exist.

The build runs the code cells of the pages. What it leaves out, the README and the plain Python
blocks, runs here; and so does the example of how to add an algorithm, which must be one that could
stay.
"""

import ast
import doctest
import importlib
import os
import re
import shutil
import subprocess
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

import inverseq as iq
from inverseq.errors import NotConverged

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "inverseq"
PAGES = sorted([ROOT / "README.md", *DOCS.glob("*.md")])

FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, kind: str) -> list[tuple[int, str]]:
    """The line and the text of each block of a kind."""
    text = page.read_text(encoding="utf-8")
    found = [block for block in FENCE.finditer(text) if block["kind"].strip() == kind]
    return [(text.count("\n", 0, block.start("code")), block["code"]) for block in found]


def run(page: Path, code: str, line: int, names: dict) -> None:
    """Run a block so that a failure names the page and the line."""
    if code.lstrip().startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
        assert doctest.DocTestRunner(verbose=False).run(test, clear_globs=False).failed == 0
        names.update(test.globs)
    else:
        exec(compile("\n" * line + code, str(page), "exec"), names)


PLAIN = [page for page in PAGES if blocks(page, "python")]


@pytest.mark.parametrize("page", PLAIN, ids=lambda page: page.name)
def test_the_python_blocks_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    with warnings.catch_warnings():
        # Not converged is an answer; everything else that warns is an error here as elsewhere.
        warnings.simplefilter("ignore", NotConverged)
        for line, code in blocks(page, "python"):
            run(page, code, line, names)


def test_the_readme_shows_python():
    assert ROOT / "README.md" in PLAIN


# -- links --------------------------------------------------------------------------------------


def broken(page: Path, text: str) -> list[str]:
    """The files that a page points at, by a link or by name, and that are not there."""
    links = re.findall(r"\]\(([^)#:\s]+\.(?:md|png|svg))(?:#[^)]*)?\)", text)
    named = re.findall(r"`(docs/[\w/.-]+\.md)`", text)
    places = [page.parent / link for link in links] + [ROOT / name for name in named]
    return [place.name for place in places if not place.exists()]


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name
)
def test_what_a_page_points_at_is_there(page):
    assert not broken(page, page.read_text(encoding="utf-8"))


def test_a_broken_link_is_found():
    page = DOCS / "guide.md"
    text = "[x](guide.md#y) [x](nowhere.md) ![x](_static/no.png) `docs/none.md` [y](inverseq.task)"
    assert broken(page, text) == ["nowhere.md", "no.png", "none.md"]


# -- departures ---------------------------------------------------------------------------------


def listed_departures() -> list[int]:
    text = (DOCS / "departures.md").read_text(encoding="utf-8")
    return [int(number) for number in re.findall(r"^### (\d+)\. ", text, re.MULTILINE)]


def cited(text: str) -> set[int]:
    """The numbers after "departure" or "departures": "departure 8", "departures ...: 1 to 6 in"."""
    numbers: set[int] = set()
    for first, last in re.findall(
        r"[Dd]epartures?(?: from the paper)?:?\s+(\d+)(?:\s+to\s+(\d+))?", text
    ):
        numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


def test_departures_are_numbered_without_gaps():
    assert listed_departures() == list(range(1, len(listed_departures()) + 1))


def test_every_departure_can_be_linked_to():
    text = (DOCS / "departures.md").read_text(encoding="utf-8")
    targets = re.findall(r"^\(departure-(\d+)\)=\n### (\d+)\. ", text, re.MULTILINE)
    assert [int(number) for number, _ in targets] == listed_departures()
    assert all(target == number for target, number in targets)


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.relative_to(SOURCE).as_posix()
)
def test_every_departure_that_the_code_cites_is_listed(path):
    assert cited(path.read_text(encoding="utf-8")) <= set(listed_departures())


def test_the_algorithms_cite_their_departures():
    algorithms = SOURCE / "algorithms"
    assert cited((algorithms / "iavi.py").read_text(encoding="utf-8")) >= {1, 2, 3, 4, 5, 6}
    assert cited((algorithms / "iql.py").read_text(encoding="utf-8")) >= {7, 8, 9, 10}
    assert cited((algorithms / "maxent.py").read_text(encoding="utf-8")) >= {19, 20, 21}
    assert cited((algorithms / "deep_maxent.py").read_text(encoding="utf-8")) >= {20, 21, 22}


def test_a_citation_is_read():
    assert cited("Departures from the paper: 7 to 10 in ``docs/departures.md``.") == {7, 8, 9, 10}
    assert cited("is not met in practice; see departure 8.") == {8}
    assert cited("the departures of a train at 10") == set()


def test_what_the_departures_name_in_the_code_exists():
    # A name in code that begins with a module or a public class of the package must resolve.
    text = (DOCS / "departures.md").read_text(encoding="utf-8")
    lines = re.findall(r"\*Code\*: (.*)$", text, re.MULTILINE)
    assert len(lines) >= 10
    names = re.findall(r"`([A-Za-z_][\w.]*)`", " ".join(lines))
    assert not [name for name in names if not resolves(name)]
    assert not resolves("gauges.nowhere")


def resolves(name: str) -> bool:
    first, *rest = name.split(".")
    homes = [getattr(iq, first, None)]
    for module in (first, f"algorithms.{first}", "task", "algorithms.iql"):
        try:
            homes.append(importlib.import_module(f"inverseq.{module}"))
        except ModuleNotFoundError:
            continue
        if module != first:
            homes.append(getattr(homes[-1], first, None))
    for home in filter(None, homes):
        found = home
        for part in rest:
            fields = getattr(found, "__dataclass_fields__", {})
            found = getattr(found, part, fields.get(part))
            if found is None:
                break
        if found is not None:
            return True
    return False


# -- the example of how to add an algorithm -----------------------------------------------------


def example() -> str:
    """The file that the page writes: its first cell, without the options of the cell."""
    page = DOCS / "add-an-algorithm.md"
    _, code = blocks(page, "{code-cell} python")[0]
    return re.sub(r"\A(?::[^\n]*\n)+\n", "", code)


@pytest.fixture(scope="module")
def cloning():
    module = types.ModuleType("inverseq.algorithms.cloning")
    sys.modules[module.__name__] = module  # where dataclasses look for the module of a class
    try:
        exec(compile(example(), "add-an-algorithm.md", "exec"), module.__dict__)
        yield module
    finally:
        del sys.modules[module.__name__]


def test_the_example_is_in_the_order_of_the_house():
    tree = ast.parse(example())
    assert ast.get_docstring(tree)
    defined = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    assert defined == ["State", "step", "Cloning"]


def test_the_example_imports_what_an_algorithm_may():
    allowed = {"equations", "gauges", "planning", "demonstrations", "task", "solution"}
    allowed |= {"shapes", "errors"}
    for node in ast.walk(ast.parse(example())):
        if isinstance(node, ast.Import):
            assert {alias.name for alias in node.names} <= {"numpy", *sys.stdlib_module_names}
        elif isinstance(node, ast.ImportFrom):
            package, _, module = (node.module or "").partition(".")
            if package == "inverseq":
                assert {module} - {""} <= allowed
                assert module or {alias.name for alias in node.names} <= allowed
            else:
                assert package in sys.stdlib_module_names


def test_the_docstring_of_the_example_is_true(cloning):
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder().find(cloning.Cloning, "Cloning", cloning):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
    assert runner.summarize(verbose=False).attempted > 0


PLUGIN = """
import sys, types
from pathlib import Path
from inverseq import algorithms

module = types.ModuleType("inverseq.algorithms.cloning")
sys.modules[module.__name__] = module
source = Path(__file__).with_name("cloning.txt").read_text(encoding="utf-8")
exec(compile(source, "cloning.py", "exec"), vars(module))
algorithms.Cloning = module.Cloning
algorithms.__all__ = [*algorithms.__all__, "Cloning"]
"""


def test_the_contract_finds_the_example_and_it_keeps_it(tmp_path):
    # In a process of its own, so that the list of algorithms stays what it is in this one.
    (tmp_path / "cloning.txt").write_text(example(), encoding="utf-8")
    (tmp_path / "with_cloning.py").write_text(PLUGIN, encoding="utf-8")
    # It has no loop that could be cut short.
    which = "Cloning and not too_little_time"
    contract = str(ROOT / "tests" / "test_contract.py")
    options = ["-q", "-p", "with_cloning", "-p", "no:xdist", "-k", which]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, contract],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert int(re.search(r"(\d+) passed", run.stdout)[1]) >= 10


def test_the_example_leans_on_habits_where_little_was_seen(cloning):
    # State 0 was seen once, state 1 ten times; everybody mostly takes action 1.
    seen = iq.Demonstrations([0] + [1] * 10, [0] + [1] * 10, [1] + [1] * 10)
    policy = cloning.Cloning(strength=11.0).fit(seen, iq.Task(2, 0.9, n_states=3)).policy_table
    habit = np.array([2, 11]) / 13
    np.testing.assert_allclose(policy[2], habit)
    np.testing.assert_allclose(policy[0], (np.array([1, 0]) + 11 * habit) / 12)


# -- the pages ----------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_links_only_to_files_that_exist(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if re.match(r"[a-z]+:", target) or target.startswith("inverseq."):
            continue
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_a_page_takes_nothing_from_somewhere_else(page):
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"!\[[^]]*\]\(https?:|src=[\"']https?:|<script|<iframe", text)


# -- the reference ------------------------------------------------------------------------------


def described(text: str) -> set[tuple[str, str]]:
    """The module and the name of everything that a page of autodoc directives describes."""
    found = set()
    for module, options in re.findall(
        r"^\.\. automodule:: ([\w.]+)\n((?:   [^\n]*\n)*)", text, re.MULTILINE
    ):
        given = re.search(r":members: ((?:[^:]|\n)*)", options)
        named = re.findall(r"\w+", given[1]) if given else None
        found |= {(module, name) for name in named or vars(importlib.import_module(module))}
    return found


def test_every_public_name_is_in_the_reference():
    found = described((DOCS / "api.md").read_text(encoding="utf-8"))
    names = {name for _, name in found}
    modules = {module for module, _ in found}
    for name in set(iq.__all__) - {"__version__"}:
        value = getattr(iq, name)
        if isinstance(value, types.ModuleType):
            assert any(f"{module}.".startswith(f"{value.__name__}.") for module in modules), name
        else:
            assert name in names, f"docs/api.md has no {name}"


def test_a_name_that_is_not_in_the_reference_is_found():
    text = ".. automodule:: inverseq.labels\n   :members: Labels,\n             named\n\n## Next\n"
    assert described(text) == {("inverseq.labels", "Labels"), ("inverseq.labels", "named")}
    assert ("inverseq.task", "Task") in described(".. automodule:: inverseq.task\n")


# -- no network ---------------------------------------------------------------------------------


def fetched(page: str) -> list[str]:
    """What a browser would fetch from elsewhere to show a page; links to click are not among it."""
    tags = re.findall(r"<(?:script|img|link|iframe|source|video|audio|object|embed)\b[^>]*>", page)
    asked = [
        re.findall(r"""(?:src|srcset|href|data)=["']((?:https?:)?//[^"']+)""", t) for t in tags
    ]
    styled = re.findall(r"""(?:url\(|@import\s+)["']?((?:https?:)?//[^"')\s]+)""", page)
    return [place for places in asked for place in places] + styled


def test_what_a_browser_would_fetch_is_found():
    assert fetched('<a href="https://a.org">a</a><img src="data:image/svg+xml;base64,AA">') == []
    assert fetched('<script async src="https://b.org/x.js"></script>') == ["https://b.org/x.js"]
    assert fetched("<link rel='stylesheet' href='//c.org/y.css'>") == ["//c.org/y.css"]
    assert fetched("<style>@import 'https://d.org/z.css'; a { background: url(//e.org/f) }") == [
        "https://d.org/z.css",
        "//e.org/f",
    ]


CONF = (DOCS / "conf.py").read_text(encoding="utf-8")
PLAIN_PAGE = "# A page\n\nWith a formula, $x^2$.\n\n```{code-block} python\nx = 1\n```\n"


def test_a_built_site_asks_nothing_of_the_network(tmp_path):
    # With the project's own settings and theme; a page without cells, so that no kernel starts.
    site, built = tmp_path / "docs", tmp_path / "html"
    shutil.copytree(DOCS / "_static", site / "_static")
    (site / "conf.py").write_text(CONF, encoding="utf-8")
    (site / "index.md").write_text(PLAIN_PAGE, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", site, built], check=True
    )
    pages = [*built.rglob("*.html"), *built.rglob("*.css")]
    assert len(pages) > 5
    outside = {page.name: fetched(page.read_text(encoding="utf-8")) for page in pages}
    assert not {name: places for name, places in outside.items() if places}
