from .deck import make_deck as make_deck
from .rules import Rules as Rules
from .server import Page as Page
from .server import ReviewServer as ReviewServer
from .session import Session as Session
from .session import locked as locked
from .session import next_command as next_command
from .session import seed_of as seed_of
