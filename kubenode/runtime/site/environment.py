"""The templates of a site: its own, and those that all sites share.

Templates escape every value and mark none as safe, and the Content-Security-Policy blocks what
might pass.
"""

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.staticfiles import StaticFiles

from kubenode.runtime.site.plot import LEGEND_SHAPES
from kubenode.runtime.site.text import instant, iso, seconds

SHARED = "kubenode.runtime.site"


def site_environment(package: str) -> Environment:
    """Return the environment of the templates in the folder `templates` of a package."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(SHARED)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {"instant": instant, "iso": iso, "seconds": seconds}
    environment.globals |= {"plot_keys": LEGEND_SHAPES}
    return environment


def site_assets() -> StaticFiles:
    """Return the assets that all sites share."""
    return StaticFiles(packages=[(SHARED, "static")])
