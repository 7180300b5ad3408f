"""The tables of second-opinion-measured.md: every cell is that of a result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import page_tables
from page_tables import result, rows_of, short
from shortcut_guardrail.decisions.second_opinion import LEVEL
from shortcut_guardrail.decisions.sheet import REFERENCES
from shortcut_guardrail.stats import fdr_q_values

PAGE = "second-opinion-measured.md"
SETTINGS = {
    "natural-shortcuts/Amazon/test": "Amazon",
    "natural-shortcuts/SST-2/test": "SST-2",
    "shifted/GoEmo-ST/clean": "GoEmotions, clean,",
    "shifted/Yelp-ST/clean": "Yelp, clean,",
    "natural-shortcuts/Civil/test": "Civil",
    "natural-shortcuts/MultiNLI/test": "MultiNLI",
    "shifted/Civil/reversed": "controlled Civil",
}
BAG, LANGUAGE_MODEL, BOTH = ("restaurants",), ("language model",), ("language model", "restaurants")
ALL_THREE = ("language model", "restaurants", "phrases")
JUDGES = {
    "bag of restaurant reviews": BAG,
    "Gemma": LANGUAGE_MODEL,
    "both": BOTH,
    "both, and a bag of film phrases": ALL_THREE,
    "bag of film phrases": ("phrases",),
    "label names": ("names",),
    "forty labels": ("forty labels",),
    "bag of the *same* texts": ("same texts",),
}
ONE_BY_ONE = [some for some in JUDGES.values() if some != ALL_THREE]


def entries(*, examples: bool | None = True) -> list[dict[str, Any]]:
    """What was measured with examples in the prompt, without, or (`None`) without only where nothing is with."""
    found = result("second_opinion.json")["results"]
    with_examples = {(one["setting"], one["seed"]) for one in found if "examples" in one}
    if examples is None:
        kept = [one for one in found if "examples" in one or (one["setting"], one["seed"]) not in with_examples]
    else:
        kept = [one for one in found if ("examples" in one) == examples]
    return sorted(kept, key=lambda one: (list(SETTINGS).index(one["setting"]), one["seed"]))


def amazon(*, examples: bool = True) -> list[dict[str, Any]]:
    return [one for one in entries(examples=examples) if SETTINGS[one["setting"]] == "Amazon"]


def name_of(entry: dict[str, Any]) -> str:
    return f"{SETTINGS[entry['setting']]} {entry['seed']}" + ("" if "examples" in entry else " (no examples)")


def opinion(entry: dict[str, Any], judges: tuple[str, ...]) -> dict[str, Any] | None:
    return next((one for one in entry["opinions"] if tuple(one["judges"]) == judges), None)


def is_fit(opinion: dict[str, Any]) -> bool:
    return any(one["fit"] for one in opinion["fitness"])


def of_card(opinion: dict[str, Any], card: dict[str, Any]) -> dict[str, Any]:
    (found,) = (one for one in opinion["cards"] if one["id"] == card["id"])
    return found


def two_digits(value: float) -> str:
    """A q-value, small ones too."""
    return np.format_float_positional(float(f"{value:.2g}"), trim="-")


def verdict(entry: dict[str, Any], judges: tuple[str, ...]) -> str:
    """What judges say of an entry's first card, that of "book"."""
    card = entry["cards"][0]
    assert "book" in card["words"]
    opinions = opinion(entry, judges)
    assert opinions is not None
    said = of_card(opinions, card)
    bound = short(said["rules"]["agreement"]["bound"], 2)
    return f"{said['mended']} : {said['broken']}, bound {bound}, {said['outcome']} (q = {two_digits(said['q_value'])})"


def of_labels(found: list[dict[str, Any]]) -> list[str]:
    return [f"{one['cards'][0]['mended']} : {one['cards'][0]['broken']}" for one in found]


def repaired(entry: dict[str, Any], key: str) -> str:
    (after,) = (one for one in entry["repaired"] if list(BOTH) in one["judges"])
    return f"{short(entry['base'][key])}, {short(after['scores'][key])}"


def test_the_card_of_book() -> None:
    found = amazon()
    rows = [["labels", *of_labels(found)]]
    rows += [[name, *(verdict(one, judges) for one in found)] for name, judges in JUDGES.items()]
    for name, key in (("worst group", "worst_group_accuracy"), ("accuracy", "accuracy")):
        rows.append([f"{name}, before and after both", *(repaired(one, key) for one in found)])
    assert rows_of(PAGE, "| judges | seed 0") == rows


def test_the_card_of_book_without_examples() -> None:
    found = amazon(examples=False)
    shown = {name: JUDGES[name] for name in ("Gemma", "both", "both, and a bag of film phrases")}
    rows = [["labels", *of_labels(found)]]
    rows += [[name, *(verdict(one, judges) for one in found)] for name, judges in shown.items()]
    assert rows_of(PAGE, "| judges, no examples | seed 0") == rows


def fitness_cell(entry: dict[str, Any], judges: tuple[str, ...]) -> str:
    found = opinion(entry, judges)
    if found is None:
        return "-"
    (fitness,) = found["fitness"]
    return short(fitness["agreement"], 2) + ("" if fitness["fit"] else " unfit")


def of_two_classes() -> Iterator[dict[str, Any]]:
    for entry in entries(examples=None):
        if all(len(one["fitness"]) == len(one["judges"]) for one in entry["opinions"]):
            yield entry


def test_which_judge_is_fit() -> None:
    alone = [some for some in ONE_BY_ONE if len(some) == 1]
    assert rows_of(PAGE, "| set, seed | accuracy of the model |") == [
        [name_of(entry), short(entry["base"]["accuracy"], 2), *(fitness_cell(entry, some) for some in alone)]
        for entry in of_two_classes()
    ]


def taken_cell(entry: dict[str, Any], judges: tuple[str, ...]) -> str:
    found = opinion(entry, judges)
    if found is None:
        return "-"
    taken = [card for card in found["cards"] if card["outcome"] == "shortcut"]
    assert not {card["id"] for card in taken} & {card["id"] for card in genuine(entry)}
    return str(len(taken)) if is_fit(found) else "unfit"


def genuine(entry: dict[str, Any]) -> list[dict[str, Any]]:
    return [card for card in entry["cards"] if card["mended"] < card["broken"]]


def test_what_is_taken() -> None:
    assert rows_of(PAGE, "| set, seed | cards | genuine") == [
        [
            name_of(entry),
            str(len(entry["cards"])),
            str(len(genuine(entry))),
            *(taken_cell(entry, some) for some in ONE_BY_ONE),
        ]
        for entry in entries(examples=None)
    ]


def people_rows() -> Iterator[list[str]]:
    for entry in amazon():
        for name in ("bag of restaurant reviews", "Gemma", "both"):
            found = opinion(entry, JUDGES[name])
            assert found is not None
            for card in entry["cards"]:
                if not {"book", "this"} & set(card["words"]):
                    continue
                alone = "taken" if of_card(found, card)["outcome"] == "shortcut" else "open"
                drawn = [short(found["people"][card["id"]][one], 2) for one in ("twenty", "twenty and five", "alone")]
                labels = f"{'book' if 'book' in card['words'] else 'this'} ({card['mended']} : {card['broken']})"
                yield [name_of(entry), name, labels, alone, *drawn]


def test_twenty_answers_and_five() -> None:
    assert rows_of(PAGE, "| set, seed | judge | card (labels)") == list(people_rows())


def test_no_genuine_card_is_taken_with_people() -> None:
    rates = [
        max(found["people"][card["id"]].values())
        for entry in entries()
        for found in entry["opinions"]
        for card in genuine(entry)
        if found["people"]
    ]
    assert max(rates) == 0.01


def test_what_is_at_stake() -> None:
    held: Counter[tuple[str, ...]] = Counter()
    of: Counter[tuple[str, ...]] = Counter()
    for entry in entries():
        brings = {card["id"]: card["brings"] for card in entry["cards"]}
        for found in filter(is_fit, entry["opinions"]):
            shown = [card for card in found["cards"] if card["at_stake"] is not None]
            judges = tuple(found["judges"])
            of[judges] += len(shown)
            held[judges] += sum(low <= brings[one["id"]] <= high for one in shown for low, high in [one["at_stake"]])
    assert rows_of(PAGE, "| judge | holds") == [[name, f"{held[some]} of {of[some]}"] for name, some in JUDGES.items()]


HELD_OUT = {
    "bag of restaurant reviews": ["restaurants"],
    "Gemma, first prompt, no examples": ["no examples"],
    "Gemma, first prompt, four examples": ["examples"],
    "Gemma, second prompt, four examples": ["second prompt"],
    "the two prompts with examples, averaged": ["examples", "second prompt"],
    "Gemma with examples, and the bag": ["examples", "restaurants"],
    "the same, weighted by the log-odds of their agreement": ["examples", "restaurants"],
    "Gemma without examples, and the bag": ["no examples", "restaurants"],
    "the same, weighted": ["no examples", "restaurants"],
}


def test_judges_on_the_held_out_seed() -> None:
    (held_out,) = result("second_opinion_held_out.json")["results"]
    rows = []
    for name, judges in HELD_OUT.items():
        *unweighted, weighted = (one for one in held_out["judges"] if one["judges"] == judges)
        found = weighted if name.startswith("the same") or not unweighted else unweighted[0]
        card = of_card(found, held_out["cards"][0])
        agreement = ", ".join(short(one, 2) for one in found["agreement"])
        rows.append([name, agreement, f"{card['mended']} : {card['broken']}", two_digits(card["q_value"])])
    assert rows_of(PAGE, "| judge | agreement | mended : broken | q |") == rows


def test_a_card_and_its_texts_on_the_held_out_seed() -> None:
    (held_out,) = result("second_opinion_held_out.json")["results"]
    records = {
        "base": held_out["base"],
        "the card's verdict for all texts": held_out["teachers"]["card"],
        "text by text": held_out["teachers"]["text"],
    }
    assert rows_of(PAGE, "| teacher | accuracy | worst group |") == [
        [name, short(one["accuracy"]), short(one["worst_group_accuracy"])] for name, one in records.items()
    ]


RULES = ("agreement", "reference", "answers", "both")
USUAL = {"judge": 0.8, "n": 90}
SIMULATED: dict[str, dict[str, Any]] = {
    "judge right in .60 of random texts": {"judge": 0.6},
    ".70": {"judge": 0.7},
    ".80": {"judge": 0.8},
    ".90": {"judge": 0.9},
    ".95": {"judge": 0.95},
    ".80, 10 flips": {"n": 10},
    ".80, 30 flips": {"n": 30},
    ".80, 150 flips": {"n": 150},
    "leans by .15": {"lean": 0.15},
    "leans by .30": {"lean": 0.3},
    "flips harder than other texts": {"ease": "flips"},
    "flips harder, leans by .30": {"ease": "flips", "lean": 0.3},
    "follows the word on half of the flips": {"habit": 0.5},
    "takes it for the opposite on half": {"counter": 0.5},
    "copies the model on 10 % of all texts": {"copied": 0.1},
    "copies it on 20 %": {"copied": 0.2},
    "copies it on 50 %": {"copied": 0.5},
    "masked answer is .20 of texts, the model knows": {"prior": 0.2, "knows": "prior"},
    "the same, the model was trained on halves": {"prior": 0.2, "knows": "balanced"},
    "masked answer is .80 of texts, the model was trained on halves": {"prior": 0.8, "knows": "balanced"},
}
WITH_PEOPLE = {
    "right in .60 of random texts": {"judge": 0.6},
    **{name: SIMULATED[name] for name in (".70", ".80", ".90", ".95", ".80, 10 flips", ".80, 30 flips")},
    ".80, 150 flips": {"n": 150},
    ".70, one answer in five wrong": {"judge": 0.7, "errors": 0.2},
    ".90, one answer in five wrong": {"judge": 0.9, "errors": 0.2},
}


def simulated(cell: dict[str, Any]) -> dict[str, Any]:
    """The record of a cell, what it does not name being usual."""
    records = result("second_opinion_simulation.json")["results"]
    (found,) = (one for one in records if USUAL | one["cell"] == USUAL | cell)
    return found


def test_simulated_second_opinions() -> None:
    rows = []
    for name, cell in SIMULATED.items():
        one = simulated(cell)
        by_rule = [short(one[kind][rule], 2) for rule in RULES for kind in ("false", "power")]
        rows.append([name, short(one["passes"], 2), *by_rule, short(one["power"]["alone"], 2)])
    assert rows_of(PAGE, "| judge | fit | agreement: false") == rows


def test_simulated_second_opinions_with_people() -> None:
    assert REFERENCES * 2 + 5 == 25
    rows = []
    for name, cell in WITH_PEOPLE.items():
        one = simulated(cell)
        rows.append([name, *(short(one[kind][rule], 2) for rule in ("both", "alone") for kind in ("false", "power"))])
    assert rows_of(PAGE, "| judge | beside the machine: false") == rows


@pytest.mark.parametrize(("page", "test"), page_tables.compared_by(globals()))
def test_another_last_digit_in_a_checked_table_is_noticed(page: str, test: str, monkeypatch) -> None:
    assert page_tables.unnoticed(page, globals()[test], monkeypatch) == []


def test_nothing_is_decided_by_the_reference_rule() -> None:
    asked = 0
    for entry in amazon():
        for one in entry["opinions"]:
            tested = [card["rules"] for card in one["cards"] if card["q_value"] is not None]
            by_reference = [rules["reference"]["p_value"] for rules in tested if "reference" in rules]
            asked += len(by_reference)
            assert not by_reference or min(fdr_q_values(by_reference)) > LEVEL
    assert asked


def cost_rows() -> list[list[str]]:
    rows = []
    for one in entries():
        seconds = one["seconds"]["language model"]
        times = "-" if seconds is None else f"{seconds / 200 * one['texts_asked'] / one['audit_seconds']:.1f}"
        rows.append([name_of(one), *map(str, (one["n"], one["texts_asked"], one["word_free"])), times])
    return rows


def test_cost() -> None:
    assert rows_of(PAGE, "| set, seed | texts audited | texts asked") == cost_rows()
