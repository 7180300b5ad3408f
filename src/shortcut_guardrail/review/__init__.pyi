from .opening import review_in_browser as review_in_browser
from .server import Page as Page
from .shown import excerpt_of as excerpt_of
from .shown import fit_command as fit_command
from .shown import is_punctuation as is_punctuation
from .shown import make_deck as make_deck
