"""Rules written in other systems' terms, as ours."""

from rules.importing.fields import CannotImport
from rules.importing.health_checks import Imported, imported
from rules.importing.ladders import ImportNote

__all__ = ["CannotImport", "ImportNote", "Imported", "imported"]
