"""How the pages are built: without a network, and with the code on them run."""

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

from inverseq.version import __version__

project = "inverseq"
author = "the authors of inverseq"
project_copyright = "the authors of inverseq"
version = release = __version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.viewcode", "myst_nb"]
exclude_patterns = ["_build", "jupyter_execute"]
default_role = "code"

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_render_markdown_format = "myst"  # tables that a cell computes

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}
add_module_names = False
python_maximum_signature_line_length = 88

html_theme = "pydata_sphinx_theme"
html_title = "inverseq"
html_static_path = ["_static"]
html_css_files = ["formulas.css"]
html_sidebars = {"**": []}  # the pages are few, and their names stand at the top
html_math_renderer = "mathml"
html_copy_source = False
html_theme_options = {"navigation_with_keys": False, "show_prev_next": False}


def formula(node, as_block):
    """A formula as MathML; a warning names the place of one that has no translation."""
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logging.getLogger(__name__).warning("%s", error, location=node)
        return ""


def inline_formula(self, node):
    """A formula within a line."""
    self.body.append(formula(node, as_block=False))
    raise nodes.SkipNode


def displayed_formula(self, node):
    """A formula of its own, with its number where it has one."""
    self.body.append(self.starttag(node, "div", CLASS="formula"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append(formula(node, as_block=True))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def sections(app, what, name, obj, options, lines):
    """Translate the sections of docstrings: "Args:" and its like."""
    # The whole napoleon would also take the first colon of an attribute's docstring for a type.
    if what in ("class", "function", "method"):
        lines[:] = GoogleDocstring(lines, Config(), what=what, name=name, obj=obj).lines()


def setup(app):
    """Formulas become MathML, which browsers show without a script from somewhere else."""
    app.add_html_math_renderer("mathml", (inline_formula, None), (displayed_formula, None))
    app.connect("autodoc-process-docstring", sections)
