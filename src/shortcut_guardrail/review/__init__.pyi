from .opening import review_in_browser as review_in_browser
from .server import Page as Page
from .shown import make_deck as make_deck
