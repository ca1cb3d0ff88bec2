"""Every error that Sordino raises: the names of `sordino.core.errors`, where users import them."""

from sordino.core.errors import *
from sordino.core.errors import __all__ as __all__
