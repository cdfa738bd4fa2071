"""The site: ``python -m sphinx -c docs . docs/_build/html`` from the root of the repository.

The sources are the repository's own files, so that a link from one to another leads to the same place in the site: to
the page of a document, of a gallery's program, or to a copy of any other file.
"""

import re
import sys
from pathlib import Path
from typing import Any

import threadpoolctl
from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

import agrad

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from bench import diff, plot, summary

threadpoolctl.threadpool_limits(1)  # the galleries' programs take small steps, and two threads wait for each other

GALLERIES = {"docs/tutorials": "docs/gallery/tutorials", "examples": "docs/gallery/examples"}
GALLERIES = {folder: pages for folder, pages in GALLERIES.items() if any((ROOT / folder).glob("*.py"))}
PLOTS = {
    "overhead": ("Time of a chain of 1,000 operations on 8 numbers", False),
    "mlp": ("Time of a training step of a perceptron (784-256-128-10, float32)", False),
    "transforms": ("Derivatives of standard objectives", True),
    "jit": ("Value and gradient of 20 operations on each element of an array", True),
    "loops": ("Loops of small operations", True),
    "adbench": ("Objectives of ADBench", True),
    "conv": ("Layers of convolutional networks", True),
    "train": ("Time of one example in a training epoch", False),
}
"""Results in bench/results of which docs/benchmarks.md shows a plot: the title, and whether it shows ratios."""

MOVED = {
    "index": "docs/index",
    "docs/guide": "docs/howto/index",
    "docs/tables": "docs/reference/index",
    "docs/project": "docs/development/index",
    "docs/coming_from/index": "docs/get_started",
    "docs/howto/test_an_operation": "docs/testing",
    "docs/transforms/checkpoint": "docs/howto/memory",
    **{f"docs/transforms/{name}": "docs/transforms/gradients" for name in ("grad", "vjp", "jvp", "linearize")},
    "docs/transforms/elementwise_grad": "docs/transforms/gradients",
    **{f"docs/transforms/{name}": "docs/transforms/jacobians" for name in ("jacobian", "hessian", "hvp")},
}
"""Pages that redirect to another one: addresses of merged pages."""
NOT_SEARCHED = (
    "docs/decisions/",
    "docs/development/",
    "docs/architecture",
    "docs/benchmarks",
    "bench/",
    "tests/",
    "docs/ecosystem/",
    "CHANGELOG",
)
"""Beginnings of the pages that the search leaves out, so that it finds the page of a task first."""

project = "agrad"
version = release = agrad.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
root_doc = "docs/index"
include_patterns = ["docs/**", "bench/**", "tests/*/README.md", "examples/README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
exclude_patterns = ["docs/_build", "docs/_templates", "docs/tutorials", "**/.*", "**/sg_execution_times.rst"]
templates_path = [str(ROOT / "docs/_templates")]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_dmath_allow_digits = myst_dmath_allow_space = False  # $3,995 is a price
myst_heading_anchors = 4
suppress_warnings = [
    "myst.header",  # a table of results may begin with a heading of the second level
    "ref.python",  # the type of an attribute may be a word that several classes have as an attribute
]

autosummary_generate = True
autosummary_filename_map = {"agrad.random.generator": "agrad.random.generator_"}  # beside Generator, on any file system
autodoc_member_order = "groupwise"
autodoc_typehints = "none"
autodoc_use_type_comments = False  # there are none, and each function would be parsed again
requests = ("fit", "partial_fit", "predict", "predict_proba", "score")  # methods that scikit-learn writes
autodoc_default_options = {"exclude-members": ", ".join(f"set_{name}_request" for name in requests)}
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_param = False  # types are words, and no links to whatever has that name
napoleon_use_rtype = False

sphinx_gallery_conf = {
    "examples_dirs": list(GALLERIES),
    "gallery_dirs": list(GALLERIES.values()),
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"(common|__init__)\.py$",
    "nested_sections": False,
    "within_subsection_order": "FileNameSortKey",
    "reset_argv": "gallery_arguments.arguments",
    "abort_on_example_error": False,
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "capture_repr": ("_repr_html_",),  # no [Text(...)] of Matplotlib
}

html_theme = "pydata_sphinx_theme"
html_math_renderer = "mathml"
html_title = "agrad"
html_logo = html_favicon = "_static/agrad.svg"
html_context = {"default_mode": "auto", "moved": MOVED}
html_static_path = ["_static"]
html_css_files = ["agrad.css"]
html_additional_pages = dict.fromkeys(MOVED, "redirect.html")
html_copy_source = False
html_search_scorer = str(ROOT / "docs/_static/scorer.js")
html_sidebars = {"docs/index": []}
html_theme_options = {
    "logo": {"text": "agrad"},
    "header_links_before_dropdown": 6,
    "navigation_depth": 2,
    "collapse_navigation": True,
    "show_prev_next": False,
    "navbar_end": ["theme-switcher"],
    "footer_start": [],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}


def link_to_gallery(app: Sphinx, document: str, source: list[str]) -> None:
    """Make links to a gallery's programs links to their pages."""

    def page(link: re.Match[str]) -> str:
        target = (ROOT / document).parent.joinpath(link[1]).resolve()
        folder = GALLERIES.get(str(target.parent.relative_to(ROOT)))
        return f"](/{folder}/{target.stem}.rst)" if folder and target.stem != "common" else link[0]

    source[0] = re.sub(r"\]\(([\w./-]+\.py)\)", page, source[0])


def leave_out_of_search(app: Sphinx, document: str, source: list[str]) -> None:
    """Mark a page that the search leaves out."""
    if document.startswith(NOT_SEARCHED):
        app.env.metadata[document]["nosearch"] = "true"


def write_formula(translator: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula as MathML, which browsers typeset without a script."""
    display = "inline" if isinstance(node, nodes.math) else "block"
    translator.body.append(convert(node.astext(), display=display))
    raise nodes.SkipNode


SIDEBARS: dict[str, str] = {}
"""The sidebar of the names of a module, by the address of the module's page."""
CURRENT = '<li class="toctree-l2 current active"><a aria-current="page" class="current reference internal" href="#">'


def share_sidebar(app: Sphinx, page: str, template: str, context: dict[str, Any], document: Any) -> None:
    """Compute the sidebar of a module's names once: on their pages it differs only in the mark of the current one."""
    if not page.startswith("docs/reference/generated/"):
        return
    generate, module = context["generate_toctree_html"], context["parents"][-1]["link"]
    entry = f'<li class="toctree-l2"><a class="reference internal" href="{Path(page).name}.html">'

    def sidebar(*arguments: Any, **options: Any) -> str:
        if entry in SIDEBARS.get(module, ""):
            return SIDEBARS[module].replace(entry, CURRENT)
        own = str(generate(*arguments, **options))
        if CURRENT in own:
            SIDEBARS[module] = own.replace(CURRENT, entry)
        return own

    context["generate_toctree_html"] = sidebar


def setup(app: Sphinx) -> None:
    """Draw the plots, and take part in reading and writing."""
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
    for dark, end in ((False, ""), (True, "-dark")):
        summary.draw(summary.compared(), ROOT / f"docs/plots/measured{end}.svg", dark)
        for suite, (title, ratios) in PLOTS.items():
            samples = diff.read(ROOT / f"bench/results/{suite}.json")
            plot.draw(samples, title, ROOT / f"docs/plots/{suite}{end}.svg", ratios, dark)
    app.connect("source-read", link_to_gallery)
    app.connect("source-read", leave_out_of_search)
    app.connect("html-page-context", share_sidebar, priority=900)  # after the theme has added its functions
