"""Imports rules of other systems as NodeRemediers."""

from rules.converters.fields import CannotImport
from rules.converters.health_checks import Imported, imported
from rules.converters.ladders import ImportNote

__all__ = ["CannotImport", "ImportNote", "Imported", "imported"]
