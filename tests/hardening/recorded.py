"""Bad inputs that once ended badly, or that nobody should have to try again, each with what is said of it now.

A finding of the fuzzing becomes a row: the reader's name in `fuzzing.readers`, the content, and a part of the sentence;
`None` where the content is right.
"""

RECORDED: list[tuple[str, bytes, str | None]] = [
    *[("CSV", b"", "is empty"), ("CSV", b"text\n\x00", "NUL"), ("CSV", b"text,label\n\xff\xfe,x\n", "UTF-8")],
    ("CSV", b'text,label\n"never closed,x\n', "quot"),
    ("CSV", b"text,text\na,b\n", "several columns are called 'text'"),
    ("CSV", b"text,label\na,b,c\n", "line 2"),
    ("JSON Lines", b"[" * 100_000, "row 1: not valid JSON (nested too deeply)"),
    ("JSON array", b'[{"text": "a"}, ' + b'{"a":' * 100_000, "row 2: not valid JSON (nested too deeply)"),
    ("JSON array", b'{"data": [{"text": "a"}]}', None),
    ("CSV", b"text\na\rb\n", "a carriage return alone"),
    ("CSV", b"text|label\na|1\n", None),
    ("JSON Lines", b'{"a":' * 100_000, "not a JSON object on one line"),
    ("JSON Lines", b'{"text": "a", "text": "b"}\n', "the key 'text' occurs twice"),
    ("JSON Lines", b'{"text": "\\ud800"}\n', "surrogate"),
    ("JSON Lines", b'{"text": 3}\n', "not a string"),
    ("Parquet", b"PAR1", "cannot be read as Parquet"),
    ("word list", b"# nothing\n", "names no shortcut"),
    ("word list", b"\xe2\x80\x8b\n", None),
    ("answered questions", b"id,answer\nq9,a\n", "the audit has no question 'q9'"),
    ("answered questions", b"id,answer\nq0,a\nq0,b\n", "answers question 'q0' with 'b', and with 'a' in"),
    ("questions.jsonl", b"[" * 100_000 + b"\n", "this is no question"),
    ("questions.jsonl", b'{"id": "a"}\n', "this is no question"),
    ("second model, TOML", b"kind = 3\n", "kind must be one of"),
    ("second model, TOML", b"a = " + b"[" * 5_000, "nested too deeply"),
    ("--config", b"[" * 100_000, "nested too deeply"),
    ("--config", b'{"adapter": {"rank": 1e999}}', "rank must be a whole number"),
    ("guardrail.json", b"[" * 100_000, "nested too deeply"),
    ("guardrail.json", b'{"schema_version": NaN}', "NaN is no number of JSON"),
    ("guardrail.json", b'{"a": 1, "a": 1}', "the key 'a' occurs twice"),
    ("guardrail.json", b"3", "schema_version must be 1, but is null"),
    (
        "audit.json",
        b'{"schema_version": 1, "mstps": 0.1, "candidates": [7]}',
        "candidates[0] must be an object, but is 7.",
    ),
    ("decisions.json", b'{"cards": [{"words": ["x"], "asked": 1e400}]}', "asked must be a whole number"),
    ("decisions.json", b'{"cards": [{"words": ["x"], "decision": "keep"}]}', None),
    ("decisions.json", b'{"cards": [{"words": []}]}', "cards[0].words must be a list that is not empty"),
]
