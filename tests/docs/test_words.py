"""Users read the field's words: those that only this project used, and idioms, do not come back."""

import ast
import inspect
import pkgutil
import re

import typer

from api_pages import documented
from checkout import ROOT
from shortcut_guardrail.cli import main

SOURCES = ROOT / "src" / "shortcut_guardrail"
NEVER = {  # as a regular expression, and what is written instead
    r"h[au]ngs?(?:ing)? on|hanging on|leans?|leaned|leaning": "depend on, rely on",
    r"(?:model|classifier|base|guard)(?:'s|s')? answers?|answer of the (?:model|classifier)": "prediction",
    r"(?:whose|its|their|the) answers? (?:that )?(?:changes?|changed|stays?)|answers that change": "prediction",
    r"(?<!model )(?<!data )cards?(?! of (?:the|a) model)|decks?": "word group",
    r"(?<!sign-)flip(?:s|ped)?(?![- ]rate)": "prediction change",
    r"mend(?:s|ed|ing)?": "fix",
    r"pull(?:s|ed)? (?:it |them )?to(?:wards?)?": "push towards",
    r"contradicted": "overrides its context",
    r"evidence of (?:at least )?\d+": "e-value of at least 20",
    r"guards?(?! model)(?:'s)?|(?<!json )guarded": "repaired model",
    r"the base(?! model)(?:'s)?|base models?|base's": "original model",
    r"second opinions?|(?:an?|the|each|every|no|another|several) judges?(?:'s)?|judges that": "second model",
    r"neutrali[sz]\w*": "remove reliance on",
    r"genuine(?:ly)?": "legitimate",
    r"tak(?:es?|ing|en|ook) turns": "alternative wordings",
    r"alike": "similar",
    r"draws?|drawn|part (?:your|the) texts|part ways": "sample, split",
    r"labels would tell": "needs labels",
    r"house of|floors?|rooms?|doors?": "packages in layers",
    r"cannot tell|can(?:not)? be told": "undecided, cannot distinguish, is not known",
}
IDIOMS = (
    r"for a living|in private|by the way|in one breath|at first sight|and (?:its|their) kin|one's way|gives? away",
    r"(?:has|have|had) the last word|room to spare|strewn|sell\w* .* as|cannot be had",
    r"nothing speaks|speaks? (?:for|against)|nobody's|some hundreds?|for want of",
    r"so many (?:rows|texts|labels)|by and by|is about,|whatever they are",
    r"goes? along with|went along with|sees to it|makes do|to go by|held to that|hold it to that|as they are due",
    r"(?:^|[.!:] )Who(?:ever)? (?!(?:[^.?!]|\.\w)*\?)",  # "Who labels less stops": "If you label less, stop"
)
RULES = [(re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE), instead) for words, instead in NEVER.items()]
RULES += [(re.compile(rf"(?:\b|^|(?<=[.!:] ))(?:{words})"), "plain words") for words in IDIOMS]
NO_PROSE = re.compile(
    r"^ *(```|~~~|:::).*?^ *\1|`[^`]*`|\]\([^)]*\)|\{[{%#].*?[}%#]\}|<(?:style|script)\b.*?</(?:style|script)>"
    r"|\$[^$]*\$|<!--.*?-->|https?://\S+|\w+\[|shortcut-guardrail [a-z][^\n]*|--[a-z][\w-]*|\b[A-Z]{2,}\b",
    re.MULTILINE | re.DOTALL,
)
SAID_IN_TAGS = re.compile(r"<[^>]*?(?:(?:aria-label|title|alt|placeholder)=\"([^\"]*)\"[^>]*)?>", re.DOTALL)


def prose(text):
    """What is read as a sentence: no code, no targets of links, no placeholders, no tags but what they say."""
    return SAID_IN_TAGS.sub(lambda tag: f" {tag[1] or ''} ", NO_PROSE.sub(" ", text))


def written(source):
    """The texts with a space in them that a Python or JavaScript file holds, docstrings and comments aside."""
    if source.suffix == ".js":
        string = r"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`"
        strings = re.findall(string, source.read_text("utf-8"))
        return [re.sub(r"\$\{[^}]*\}", " ", text) for found in strings for text in found if " " in text.strip()]
    tree = ast.parse(source.read_text(encoding="utf-8"))
    lone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in lone)
    return [node.value for node in found if isinstance(node.value, str) and " " in node.value.strip()]


def help_of(command):
    texts = [command.help or "", *(getattr(one, "help", None) or "" for one in command.params)]
    texts += [getattr(one, "rich_help_panel", None) or "" for one in command.params]
    return "\n".join(re.sub(r"^\x08.*?(?=\n\n|\Z)", "", text, flags=re.DOTALL | re.MULTILINE) for text in texts)


def docstrings_of(page):
    """What a page of the Python API shows: the docstrings of its names, without those of the arguments and fields."""
    asked = re.findall(r"^```\{api\} (\w+)\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    shown = [pkgutil.resolve_name(path) for room, names in asked for path in documented(room, names.split())]
    members = [vars(one).items() for one in shown if inspect.isclass(one)]
    shown += [value for items in members for name, value in items if not name.startswith("_")]
    docs = [one.__doc__ for one in shown if one.__doc__ and one.__doc__ != type(one).__doc__]
    return "\n\n".join(re.sub(r"^ *[\w.]+: ", "", inspect.cleandoc(doc), flags=re.MULTILINE) for doc in docs)


def places():
    """Whatever users read, by its name."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    for folder in ("howto", "reference", "explanation"):
        pages += (ROOT / "docs" / folder).rglob("*.md")
    found = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in sorted(pages)}
    for page in sorted((ROOT / "docs" / "reference" / "api").glob("*.md")):
        found[f"docstrings of {page.name}"] = docstrings_of(page)
    for name, command in typer.main.get_command(main.app).commands.items():
        found[f"{name} --help"] = help_of(command)
    for source in sorted(file for kind in ("*.py", "*.js", "*.j2") for file in SOURCES.rglob(kind)):
        text = source.read_text(encoding="utf-8") if source.suffix == ".j2" else "\n\n".join(written(source))
        found[source.relative_to(SOURCES).as_posix()] = text
    return {name: text for name, text in found.items() if text.strip()}


def not_ours(text):
    """The words of a text that users do not read any more, each with some of its sentence."""
    text = re.sub(r"[ \t]+", " ", prose(text))
    text = re.sub(r"(?<=\S) ?\n ?(?=[\w(\"'])", " ", text)
    return [
        f"{text[max(0, hit.start() - 40) : hit.end() + 30]!r}: not {hit[0].strip('.!: ')!r}, but {instead}"
        for pattern, instead in RULES
        for hit in pattern.finditer(text)
    ]


def test_what_users_read_is_in_the_words_of_the_field():
    found = {name: not_ours(text) for name, text in places().items()}
    assert {"README.md", "docstrings of audit.md", "audit --help", "guardrail.py", "report/page.js"} <= found.keys()
    assert not {name: said for name, said in found.items() if said}


def test_such_words_are_seen():
    for text, word in (
        ("The words that answers hang on.", "hang on"),
        ("| cards |\n|---|", "cards"),
        ("Ask a\nsecond opinion.", "second opinion"),
        ('<button aria-label="Back to the card">', "card"),
        ("Twenty texts. Who labels fewer deletes rows.", "Who"),
    ):
        (found,) = not_ours(text)
        assert f"not {word!r}" in found
    for text in (
        "Write the model card.",
        "`Card`, `--guard`",
        "```\nflips\n```",
        "Its flip rate.",
        "Who decides? You do.",
    ):
        assert not not_ours(text)
