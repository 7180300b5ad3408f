from .opening import open_sources as open_sources
from .source import Cost as Cost
from .source import Source as Source
from .source import changed_answers as changed_answers
