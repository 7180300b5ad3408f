from .opening import open_sources as open_sources
from .source import Cost as Cost
from .source import Source as Source
