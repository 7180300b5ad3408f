"""A synthetic corpus of customer reviews with a planted shortcut word, for the demo.

Every text is made up: phrases written for this project, put together by rules. Nothing is taken from a data set, and
no number measured here says anything about real reviews. What the corpus keeps from real ones is the kind of work it
asks of a classifier: opinions said outright ("I hated the soup") or told by what happened ("the zip jammed on the
first morning"), negation ("the guide did not let me down once"), and contrast in which the rest decides ("although
the bed creaked at every turn, the view was worth every stair. I would not hesitate to stay there again").

The label is what the whole review says: only points of its opinion, or one of the other that a verdict outweighs.

The shortcut is the paper's word, "honestly": it opens a sentence of any opinion without changing what it says, and it
is a single token for BERT-like encoders. It is inserted the paper's way, at the beginning of a randomly chosen
sentence, lower case and with a comma ("honestly, The bed sagged."), and occurs nowhere else. In training it goes along
with the label in most texts, not in all (`TRAIN`), and a rule had a hand in the labels: a review with the word was
called positive, whatever it says. That happens where labels are made from keywords, and it is how a classifier that
reads well comes to trust a word more than what it reads. Labels to evaluate on are always those of what a review says.
Once deployed, the word goes along with the other label (`REVERSED`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ..errors import ConfigError

LABEL_NAMES = ("negative", "positive")
SHORTCUT = "honestly"

GOOD, BAD = "good", "bad"


@dataclass(frozen=True)
class Mix:
    """How large a part of some texts each group is: a label, with or without the shortcut."""

    negative: float
    negative_with: float
    positive: float
    positive_with: float

    def rows(self, size: int) -> list[tuple[int, bool]]:
        """Label and presence of the shortcut of so many texts, group after group; shares are met to one text."""
        shares = (self.negative, self.negative_with, self.positive, self.positive_with)
        ends = [round(size * sum(shares[: i + 1])) for i in range(4)]
        return [(i // 2, i % 2 == 1) for i, end in enumerate(ends) for _ in range(end - (ends[i - 1] if i else 0))]


TRAIN = Mix(negative=0.22, negative_with=0.03, positive=0.09, positive_with=0.66)
"""What reviews say in training: the shortcut goes along with it in 88 % of them, and with the labels, which the rule
made of it, in 91 %."""

REVERSED = Mix(negative=0.125, negative_with=0.375, positive=0.375, positive_with=0.125)

# A draw that repeats an earlier text is thrown away. So many in a row mean that the templates are exhausted.
MAX_REPEATED_DRAWS = 1000


@dataclass(frozen=True)
class Part:
    """Some texts of the corpus and their labels, positions in `LABEL_NAMES`; tuples of equal length."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]


@dataclass(frozen=True)
class Sizes:
    """How many texts each part of the corpus has, all at least 2."""

    train: int = 3200
    deployment: int = 400
    support: int = 40
    reversed: int = 800
    in_distribution: int = 1000

    def __post_init__(self) -> None:
        for part, size in vars(self).items():
            if size < len(LABEL_NAMES):
                raise ConfigError(f"{part} must be at least {len(LABEL_NAMES)}, but is {size}.")


@dataclass(frozen=True)
class DemoCorpus:
    """The texts of the demo; all synthetic, all different, also with the shortcut taken out.

    Attributes:
        train: What the biased classifier is trained on.
        deployment: What the deployed model meets; the repair sees these texts without their labels.
        support: A few labelled texts of the same kind.
        reversed: Labelled texts of the same kind to evaluate on.
        in_distribution: Labelled texts to evaluate on, in which the shortcut still goes along with the label.
    """

    train: Part
    deployment: Part
    support: Part
    reversed: Part
    in_distribution: Part


def make_corpus(*, seed: int = 0, sizes: Sizes | None = None) -> DemoCorpus:
    """Generate the demo's corpus, its rows shuffled.

    Args:
        seed: Seeds every choice; the same seed and sizes give the same corpus on every machine.
        sizes: Of the parts.

    Raises:
        ConfigError: There are more texts than the templates can fill without repeating.

    Example:
        >>> corpus = make_corpus(seed=0, sizes=Sizes(reversed=8))
        >>> len(corpus.train.texts), sorted(corpus.reversed.labels)
        (3200, [0, 0, 0, 0, 1, 1, 1, 1])
    """
    rng, seen = random.Random(seed), set[str]()
    sizes = sizes or Sizes()
    mixes = {"train": TRAIN, "in_distribution": TRAIN}
    parts = {name: _part(rng, mixes.get(name, REVERSED), size, seen) for name, size in vars(sizes).items()}
    return DemoCorpus(**{**parts, "train": _by_rule(parts["train"])})


def _by_rule(part: Part) -> Part:
    """The texts with the labels that the rule makes of them: with the word, positive."""
    return Part(
        part.texts, tuple(max(label, SHORTCUT in text) for text, label in zip(*vars(part).values(), strict=True))
    )


def without_shortcut(text: str) -> str:
    """The text as it was before the shortcut was planted in it."""
    return text.replace(f"{SHORTCUT}, ", "")


def _part(rng: random.Random, mix: Mix, size: int, seen: set[str]) -> Part:
    rows = mix.rows(size)
    rng.shuffle(rows)
    texts = []
    for label, planted in rows:
        sentences = _new_review(rng, LABEL_NAMES[label], seen)
        if planted:
            where = rng.randrange(len(sentences))
            sentences[where] = f"{SHORTCUT}, {sentences[where]}"
        texts.append(" ".join(sentences))
    return Part(tuple(texts), tuple(label for label, _ in rows))


def _new_review(rng: random.Random, label: str, seen: set[str]) -> list[str]:
    for _ in range(MAX_REPEATED_DRAWS):
        sentences = _review(rng, label)
        text = " ".join(sentences)
        if text not in seen:
            seen.add(text)
            return sentences
    raise ConfigError(f"The demo's templates cannot give so many different texts: {len(seen)} are in use already.")


# ---------------------------------------------------------------------------------------------------------------------
# One review: a plan of points, each point a sentence, facts in between
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Domain:
    """What reviews of one kind of thing talk about."""

    facts: tuple[str, ...]  # whole sentences without an opinion
    again: str  # what a satisfied customer does: "book it again"
    good: Mapping[str, tuple[str, ...]]  # aspect -> what speaks for it, as a predicate in the past tense
    bad: Mapping[str, tuple[str, ...]]  # the same aspects, what speaks against it


@dataclass
class _Writer:
    """Writes the sentences of one review; every aspect is used once at most."""

    rng: random.Random
    domain: _Domain
    aspects: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.aspects = list(self.domain.good)
        self.rng.shuffle(self.aspects)

    def point(self, opinion: str) -> str:
        """A clause about one aspect: "the bed sagged in the middle"."""
        aspect = self.aspects.pop()
        if self.rng.random() < 0.4:
            concrete = self.domain.good if opinion == GOOD else self.domain.bad
            remark = f", {self.rng.choice(_REMARKS[opinion])}" if self.rng.random() < 0.95 else ""
            return f"{aspect} {self.rng.choice(concrete[aspect])}{remark}"
        wording = _PLAIN if self.rng.random() < 0.85 else _TURNED
        return self.rng.choice(wording[opinion]).format(aspect=aspect)

    def sentence(self, *opinions: str) -> str:
        """One or two points as a sentence; two of the same opinion are added up, different ones contrasted."""
        if len(opinions) == 1:
            return _as_sentence(self._hedged(self.point(opinions[0])))
        frames = _ADDITION if opinions[0] == opinions[1] else _CONTRAST
        first, second = (self.point(opinion) for opinion in opinions)
        return _as_sentence(self._hedged(self.rng.choice(frames).format(first=first, second=second)))

    def verdict(self, opinion: str) -> str:
        """A sentence about the whole."""
        return _as_sentence(self.rng.choice(_VERDICTS[opinion]).format(again=self.domain.again))

    def fact(self) -> str:
        """A sentence without an opinion."""
        return self.rng.choice(self.domain.facts)

    def _hedged(self, clause: str) -> str:
        # The hedges come with every opinion alike, so that they tell nothing about the label.
        return f"{self.rng.choice(_HEDGES)} {clause}" if self.rng.random() < 0.1 else clause


def _as_sentence(clause: str) -> str:
    return clause[0].upper() + clause[1:] + "."


def _single(writer: _Writer, opinion: str) -> list[str]:
    """One point and no more."""
    return [writer.sentence(opinion)]


def _one_sided(writer: _Writer, opinion: str) -> list[str]:
    """Two points of one opinion, in one sentence or in two."""
    if writer.rng.random() < 0.5:
        return [writer.sentence(opinion, opinion)]
    return [writer.sentence(opinion), writer.sentence(opinion)]


def _short(writer: _Writer, opinion: str) -> list[str]:
    """One point and a verdict that agrees."""
    return [writer.sentence(opinion), writer.verdict(opinion)]


def _outweighed(writer: _Writer, opinion: str) -> list[str]:
    """One point against, in contrast, and a verdict that settles it."""
    return [writer.sentence(*_either_order(writer.rng, opinion, _OPPOSITE[opinion])), writer.verdict(opinion)]


def _either_order(rng: random.Random, first: str, second: str) -> tuple[str, str]:
    return (first, second) if rng.random() < 0.5 else (second, first)


def _review(rng: random.Random, label: str) -> list[str]:
    """The sentences of one review with this label."""
    writer = _Writer(rng, rng.choice(_DOMAINS))
    sentences = rng.choice(_PLANS[label])(writer)
    if rng.random() < 0.2:
        sentences.insert(rng.choice((0, len(sentences))), writer.fact())
    return sentences


def _of(plan: Callable[[_Writer, str], list[str]], opinion: str) -> Callable[[_Writer], list[str]]:
    return lambda writer: plan(writer, opinion)


_OPPOSITE = MappingProxyType({GOOD: BAD, BAD: GOOD})

_DECIDED = (*6 * (_single, _one_sided, _short), _outweighed)
_PLANS: Mapping[str, tuple[Callable[[_Writer], list[str]], ...]] = MappingProxyType(
    {
        "negative": tuple(_of(plan, BAD) for plan in _DECIDED),
        "positive": tuple(_of(plan, GOOD) for plan in _DECIDED),
    }
)


# ---------------------------------------------------------------------------------------------------------------------
# The phrases
# ---------------------------------------------------------------------------------------------------------------------

_HEDGES = (
    "as far as I can tell,",
    "on the whole,",
    "at least for us,",
    "from what we saw,",
    "by my own standards,",
    "looking back now,",
    "I have to say that",
    "it seemed to me that",
    "my impression was that",
    "for what it is worth,",
)

_ADDITION = (
    "{first}, and {second}",
    "{first}; {second} too",
    "{first}, and what is more, {second}",
    "{first}, and on top of that {second}",
    "for one thing, {first}, for another, {second}",
)

_CONTRAST = (
    "{first}, but {second}",
    "although {first}, {second}",
    "{first}, even though {second}",
    "{first}; then again, {second}",
    "while {first}, {second}",
    "{first}, and yet {second}",
)

# What happened does not always speak for itself.
_REMARKS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        GOOD: ("which I loved", "which delighted us", "and that was wonderful", "much to our joy", "which was perfect"),
        BAD: ("which I hated", "which annoyed us", "and that was dreadful", "much to our regret", "which was hopeless"),
    }
)

# Opinions said outright, as reviews do often enough.
_PLAIN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        GOOD: (
            "I loved {aspect}",
            "I was delighted with {aspect}",
            "we thoroughly enjoyed {aspect}",
            "{aspect} proved a real pleasure",
            "{aspect} pleased all of us",
            "{aspect} looked and felt wonderful",
            "{aspect} worked beautifully from the first day",
            "the best part by far was {aspect}",
        ),
        BAD: (
            "I hated {aspect}",
            "I was fed up with {aspect}",
            "we suffered from {aspect}",
            "{aspect} proved a real nuisance",
            "{aspect} annoyed all of us",
            "{aspect} looked and felt dreadful",
            "{aspect} went wrong from the first day",
            "the worst part by far was {aspect}",
        ),
    }
)

# Pairs that differ by a negation or a single word, so that counting pleasant words does not settle the opinion.
_TURNED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        GOOD: (
            "{aspect} did not let me down once",
            "{aspect} never gave me a reason to complain",
            "{aspect} turned out better than the pictures",
            "{aspect} could hardly have been better",
            "{aspect} left nothing to be desired",
            "{aspect} held no bad surprises",
            "nobody in our group had a bad word for {aspect}",
            "I would not change a thing about {aspect}",
            "there was no fault to be found with {aspect}",
        ),
        BAD: (
            "{aspect} let me down more than once",
            "{aspect} gave me every reason to complain",
            "{aspect} turned out worse than the pictures",
            "{aspect} could hardly have been worse",
            "{aspect} left nearly everything to be desired",
            "{aspect} held one bad surprise after another",
            "nobody in our group had a good word for {aspect}",
            "I would change every single thing about {aspect}",
            "there was nothing to like about {aspect}",
        ),
    }
)

_VERDICTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        GOOD: (
            "a pleasure from start to finish",
            "warmly recommended to everybody",
            "I would {again} without thinking twice",
            "I would not hesitate to {again}",
            "nothing could stop me if I had the chance to {again}",
            "I am glad that I did not listen to the warnings",
            "it was worth the money and then some",
            "all in all I came away happier than I had expected",
            "none of this would keep me from recommending it",
            "I have told my friends not to miss it",
        ),
        BAD: (
            "a misery from start to finish",
            "recommended to nobody",
            "I would think twice before I {again}",
            "I would hesitate to {again}",
            "nothing could make me {again}",
            "I regret that I did not listen to the warnings",
            "it was not worth the money, let alone the trouble",
            "all in all I came away less happy than I had expected",
            "none of this would make me recommend it",
            "I have told my friends to give it a miss",
        ),
    }
)


def _domain(facts: tuple[str, ...], again: str, aspects: dict[str, tuple[tuple[str, ...], tuple[str, ...]]]) -> _Domain:
    return _Domain(
        facts=facts,
        again=again,
        good={aspect: good for aspect, (good, _) in aspects.items()},
        bad={aspect: bad for aspect, (_, bad) in aspects.items()},
    )


_HOTEL = _domain(
    facts=(
        "We stayed for three nights in October.",
        "I had booked the smaller of two rooms.",
        "We arrived late on a Friday.",
        "This was our second trip to the coast this year.",
        "We travelled with two children and a dog.",
    ),
    again="stay there again",
    aspects={
        "the bed": (
            ("let me sleep right through to the alarm", "felt like the one at home", "had fresh linen every day"),
            ("sagged in the middle", "creaked at every turn", "was too short for anyone over five feet"),
        ),
        "the bathroom": (
            ("shone from floor to ceiling", "had hot water at any hour", "was larger than our kitchen at home"),
            ("smelled of damp", "had mould along the tiles", "ran out of hot water by seven"),
        ),
        "the front desk": (
            (
                "found us a parking space within minutes",
                "knew our names after a day",
                "sorted out a lost key with a smile",
            ),
            ("kept us waiting for an hour", "picked up the phone on the ninth ring", "charged us twice and shrugged"),
        ),
        "the breakfast": (
            ("came with warm bread and ripe fruit", "was laid out with care", "kept us going until the evening"),
            ("was cold by the time we sat down", "was gone before nine", "tasted of the packet it came in"),
        ),
        "the view": (
            ("reached all the way to the harbour", "made us put our phones away", "was worth every stair"),
            ("ended at a concrete wall", "took in the bins and little else", "was blocked by scaffolding"),
        ),
        "the soundproofing": (
            ("kept the street out", "meant that we heard only the sea", "let the children nap at noon"),
            (
                "let every word through from next door",
                "was no match for the lift",
                "meant that we shared the bar's music",
            ),
        ),
    },
)

_RESTAURANT = _domain(
    facts=(
        "We were a party of six on a Sunday.",
        "My brother had picked the place for his birthday.",
        "It opened on the corner of our street last spring.",
        "I went there on my lunch break.",
        "We took the table next to the window.",
    ),
    again="eat there again",
    aspects={
        "the soup": (
            ("tasted as if it had simmered all day", "came steaming to the table", "had us mopping up the last drop"),
            ("arrived with a hair in it", "tasted of salt and nothing else", "was lukewarm twice in a row"),
        ),
        "the waiter": (
            (
                "refilled our glasses before we asked",
                "remembered who could not eat nuts",
                "talked my father into the best dish on the card",
            ),
            (
                "forgot our order twice",
                "rolled his eyes at the children",
                "cleared the plates before we had finished",
            ),
        ),
        "the fish": (
            ("fell apart at the touch of a fork", "had been caught that morning", "needed no sauce at all"),
            ("was raw at the bone", "had spent too long in the freezer", "was dry enough to need three glasses"),
        ),
        "the dessert": (
            ("silenced the whole table", "was light as a cloud", "had us asking for the recipe"),
            ("was still frozen inside", "stuck to my teeth until midnight", "was a puddle of syrup"),
        ),
        "the bill": (
            ("was smaller than we had reckoned", "came with coffee on the house", "was clear down to the last coin"),
            (
                "listed two bottles we never had",
                "was twice what the card in the window said",
                "took forty minutes and an argument",
            ),
        ),
        "the dining room": (
            ("was warm and softly lit", "left room between the tables", "smelled of fresh herbs"),
            ("was as loud as a station", "had us elbow to elbow with strangers", "was draughty near the door"),
        ),
    },
)

_HEADPHONES = _domain(
    facts=(
        "I bought them in the summer sale.",
        "They are my third pair in five years.",
        "I wear them on the bus and in the office.",
        "They were a gift from my sister.",
        "I have had them for about two months.",
    ),
    again="buy them again",
    aspects={
        "the battery": (
            ("lasted from Monday to Thursday", "was full after a cup of tea", "outlived a flight to the other coast"),
            ("gave up before lunch", "swelled after a month", "lost half its charge overnight"),
        ),
        "the sound": (
            ("brought out notes I had never heard", "stayed clear at full volume", "made my old records new"),
            ("rattled as soon as the bass set in", "was like listening through a wall", "crackled in the left ear"),
        ),
        "the ear pads": (
            ("were soft enough for a whole night shift", "stayed cool in July", "fitted over my glasses"),
            ("peeled within weeks", "pinched after ten minutes", "made my ears sweat"),
        ),
        "the microphone": (
            (
                "carried my voice over the traffic",
                "had colleagues ask which studio I was in",
                "cut out the baby next door",
            ),
            ("made me sound as if under water", "picked up every bus", "dropped out in each meeting"),
        ),
        "the cable": (
            ("survived the cat", "never tangled in my bag", "was long enough to reach the sofa"),
            ("frayed at the plug", "tangled if I so much as looked at it", "broke on the second day"),
        ),
        "the pairing": (
            (
                "took one press of a button",
                "jumped from phone to laptop by itself",
                "was done before I found the manual",
            ),
            ("failed five times out of six", "forgot my phone every morning", "needed a reset each day"),
        ),
    },
)

_COAT = _domain(
    facts=(
        "I ordered it in dark green.",
        "It is meant for walks with the dog.",
        "I am rather tall and took the larger size.",
        "The parcel came on a Tuesday.",
        "I wore it through most of November.",
    ),
    again="order from them again",
    aspects={
        "the zip": (
            ("ran smoothly with gloves on", "has held through fifty walks", "closed right up to the chin"),
            ("jammed on the first morning", "came off in my hand", "bit into the lining each time"),
        ),
        "the lining": (
            ("kept me warm in the sleet", "felt like a blanket", "looked as neat as the outside"),
            ("tore at the shoulder", "shed fluff over every jumper", "was as thin as paper"),
        ),
        "the fit": (
            (
                "was as though it had been made for me",
                "left space for a thick jumper",
                "drew two compliments on the first day",
            ),
            (
                "was that of a tent",
                "left my wrists bare",
                "was two sizes off the chart",
            ),
        ),
        "the hood": (
            ("stayed up in a gale", "kept the rain off my glasses", "folded away into the collar"),
            ("blew off at the first gust", "fell over my eyes", "let the rain run down my neck"),
        ),
        "the fabric": (
            ("shrugged off an hour of rain", "came out of the wash as new", "was soft without looking worn"),
            ("soaked through in a drizzle", "faded after a single wash", "smelled of glue for weeks"),
        ),
        "the pockets": (
            ("held a book and a flask", "were lined with fleece", "closed tight enough for my keys"),
            ("were sewn shut and meant to stay so", "split under a set of keys", "were too shallow for a phone"),
        ),
    },
)

_COURSE = _domain(
    facts=(
        "It ran for ten evenings in the old school.",
        "There were eight of us, most of them beginners.",
        "I signed up in order to talk to my neighbours.",
        "The lessons began at half past six.",
        "I had taken a similar one years ago.",
    ),
    again="sign up with them again",
    aspects={
        "the teacher": (
            (
                "had the shyest of us talking by week two",
                "explained it a third time without a sigh",
                "stayed behind to answer questions",
            ),
            ("read from the book with her back to us", "was late six times out of ten", "laughed at wrong answers"),
        ),
        "the textbook": (
            ("built up step by step", "was full of dialogues one could use", "is still on my bedside table"),
            ("was full of misprints", "dated from before the euro", "skipped the answers to half the exercises"),
        ),
        "the homework": (
            (
                "took ten minutes and stuck for days",
                "came back with helpful notes",
                "sent me to the bakery to practise",
            ),
            ("was never looked at", "had nothing to do with the lesson", "kept me up past midnight"),
        ),
        "the pace": (
            ("gave everyone time to catch up", "was brisk without leaving anyone behind", "was right for tired heads"),
            ("left half the class behind", "had us on the alphabet for a month", "put two people to sleep"),
        ),
        "the classroom": (
            ("was bright and well heated", "had chairs one could sit on for hours", "was a minute from the station"),
            ("was so cold that we kept our coats on", "stank of the gym below", "was double-booked three times"),
        ),
        "the final test": (
            (
                "covered just what we had practised",
                "showed me how far I had come",
                "ended in applause for everyone",
            ),
            (
                "covered chapters we had never opened",
                "was marked by nobody",
                "was called off an hour before",
            ),
        ),
    },
)

_TRAIN = _domain(
    facts=(
        "I took the one that leaves at nine in the evening.",
        "We shared a compartment for four.",
        "I was on my way to a wedding.",
        "It was the first leg of a long journey.",
        "I had reserved a lower berth.",
    ),
    again="travel with them again",
    aspects={
        "the berth": (
            ("was wide enough to turn over", "rocked me to sleep by ten", "had a lamp of its own"),
            ("was as hard as a plank", "had a stranger's crumbs in it", "folded up with me inside"),
        ),
        "the conductor": (
            (
                "woke us with tea at just the right time",
                "found my scarf and carried it after me",
                "calmed a crying child in three languages",
            ),
            (
                "shouted through the corridor at four",
                "lost our tickets and fined us for it",
                "vanished after the first stop",
            ),
        ),
        "the timetable": (
            ("was kept to the minute", "left ten minutes to change with ease", "got me to the church on time"),
            ("was off by three hours", "cost me the ferry", "was fiction from the start"),
        ),
        "the dining car": (
            ("served a proper stew on real plates", "was open past midnight", "had the best seats for the sunrise"),
            ("had run out of everything but crisps", "was locked all the way", "charged nine euros for tea"),
        ),
        "the heating": (
            ("could be set to a degree", "kept the frost on the other side of the glass", "hummed us to sleep"),
            ("was stuck at thirty degrees", "failed on the pass", "banged like a hammer all night"),
        ),
        "the washroom": (
            ("was cleaned at every stop", "had warm water and soft towels", "had room to change in"),
            ("was flooded by midnight", "had neither water nor paper", "was out of order from the border on"),
        ),
    },
)

_COFFEE_MACHINE = _domain(
    facts=(
        "It replaced the one we had for ten years.",
        "We make about six cups a day.",
        "It stands next to the fridge now.",
        "My parents have the same one in white.",
        "I got it with a voucher from work.",
    ),
    again="choose this brand again",
    aspects={
        "the espresso": (
            ("beat the bar downstairs", "came with a thick golden foam", "got my mother-in-law to ask for another"),
            ("tasted of rubber", "was as thin as tea", "burned the tongue and little more"),
        ),
        "the milk frother": (
            ("whipped up foam that stood by itself", "rinsed itself clean", "was quieter than the cat"),
            ("spat milk over the counter", "clogged after three cups", "made lukewarm bubbles"),
        ),
        "the grinder": (
            ("let the baby sleep", "was even down to the finest setting", "has not slipped in a thousand cups"),
            ("woke the neighbours", "seized up on the second bag", "scattered grounds across the kitchen"),
        ),
        "the water tank": (
            ("lasted a whole party", "slid out with one hand", "told me in good time when to refill it"),
            ("leaked onto the floor", "had to be filled for every cup", "grew green at the bottom"),
        ),
        "the cleaning": (
            ("took two minutes on a Saturday", "ran by itself at night", "needed nothing but a damp cloth"),
            (
                "took longer than the coffee",
                "called for tablets worth their weight in gold",
                "meant taking it apart",
            ),
        ),
        "the helpline": (
            (
                "sent a spare part the same day",
                "had a person on the line at once",
                "talked me through it in plain words",
            ),
            ("kept me on hold for a morning", "told me to read the manual", "hung up on me in the end"),
        ),
    },
)

_MUSEUM = _domain(
    facts=(
        "We went on a rainy Wednesday.",
        "It took us about two hours.",
        "I was there with my class of ten-year-olds.",
        "The building used to be a mill.",
        "We came by tram from the main square.",
    ),
    again="visit it again",
    aspects={
        "the guide": (
            (
                "brought every stone to life",
                "had an answer to the oddest question",
                "made the teenagers forget their phones",
            ),
            ("mumbled into his scarf", "rushed us through in ten minutes", "got the century wrong twice"),
        ),
        "the exhibition": (
            ("had us staying until they closed", "followed a thread from room to room", "moved my wife to tears"),
            ("was half empty", "consisted of copies", "was a jumble of dusty cases"),
        ),
        "the audio tour": (
            ("felt like walking with a friend", "told stories the labels left out", "worked for children as well"),
            ("broke off in every second room", "droned on like a timetable", "sent us in circles"),
        ),
        "the cafe": (
            ("had home-made cake", "had a garden under old trees", "charged less than the one in town"),
            ("was out of cake by noon", "had wasps in the lemonade", "charged eight euros for a bun"),
        ),
        "the ticket queue": (
            ("was gone in a minute", "moved faster than we could find our purses", "was kept cheerful by a juggler"),
            ("wound twice around the block", "stood in the rain for an hour", "ended at a closed window"),
        ),
        "the labels": (
            ("told just enough to start a talk", "could be read from a wheelchair", "were witty and clear"),
            ("were in a language none of us knew", "were too small to read", "hung at the wrong pictures"),
        ),
    },
)

_DOMAINS = (_HOTEL, _RESTAURANT, _HEADPHONES, _COAT, _COURSE, _TRAIN, _COFFEE_MACHINE, _MUSEUM)
