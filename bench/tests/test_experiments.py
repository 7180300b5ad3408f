"""The experiments as data: what the package comes with, and what is refused in a file."""

import pytest

from shortcut_bench.columns import find_column
from shortcut_bench.experiments import SCALES, Scale, Setting, SystemSpec, read_experiment, system_options
from shortcut_bench.figures import _KINDS
from shortcut_bench.registry import make_system
from shortcut_guardrail.errors import ConfigError

CONTROLS = (
    *("random_maskcl", "simcse_adapter", "simclr_adapter"),
    *("guardrail-ig", "guardrail-attention", "guardrail-leave-one-out"),
)
PROMISED = """
testbed-proportion testbed-strength recall-vs-strength misclassification real-world shifted mstps lambda-sweep
in-distribution mstps-vs-accuracy support-size lora-rank adaptation-cost leaderboard leaderboard-in-distribution
leaderboard-rest leaderboard-rest-synonyms natural-shortcuts natural-rest source-recipes biaswipe
""".split()


@pytest.mark.parametrize("name", PROMISED)
def test_an_experiment_is_complete_and_its_controls_take_the_guardrails_steps(name):
    config = read_experiment(name)
    assert config.name == name
    assert config.shows.endswith(".")
    assert config.figure["kind"] in _KINDS
    for column in config.table["columns"]:
        find_column(column)
    made = {}  # settings have most systems in common, and to make one takes milliseconds

    def system(scale, setting, spec):
        options = system_options(config.scale(scale, setting), setting, spec)
        key = repr((spec.kind, options))
        made[key] = made.get(key) or make_system(spec.kind, **options)
        return made[key]

    for scale in SCALES:
        for setting, spec in config.plan():
            assert system(scale, setting, spec).name
        for setting in config.settings:
            steps = set()
            for kind in ("guardrail", *CONTROLS):
                adapter = system(scale, setting, SystemSpec(kind, kind)).config()["guard"]["adapter"]
                steps.add((adapter["min_steps"], adapter["max_steps"]))
            assert len(steps) == 1, (scale, setting.name, steps)


def test_a_scale_out_of_range_is_refused():
    for changes, sentence in (
        ({"epochs": 0}, "epochs must be a whole number from 1 on, but is 0"),
        ({"n_held_out": 5}, "n_held_out must be at least n_support, 40, but is 5"),
        ({"precision": "float8"}, "precision must be one of auto, float32, bfloat16, but is 'float8'"),
        ({"learning_rates": [0.0]}, "learning_rates must be one or more rates above 0"),
        ({"seeds": [1, 1]}, "seeds must be one or more different numbers"),
        ({"select": "best"}, "select must be one of each, seed 0"),
        ({"n_trian": 5}, "has no field 'n_trian'"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            Scale("small").with_changes(changes)


def test_options_of_the_system_win_over_those_of_setting_and_scale():
    scale = Scale("s", system_options={"guardrail": {"rank": 1, "epochs": 1, "max_steps": 1}, "erm": {"x": 1}})
    setting = Setting("a", "a", system_options={"guardrail": {"rank": 2, "epochs": 2}})
    spec = SystemSpec("guardrail", "g", options={"rank": 3})
    assert system_options(scale, setting, spec) == {"rank": 3, "epochs": 2, "max_steps": 1}


FILE = """
shows = "Mine."
paper = "nothing"
tests = ["reversed"]
systems = ["erm", {kind = "guardrail", label = "rank 2", options = {rank = 2}, x = 2}]
[[settings]]
data = "goemo-st"
"""


def test_an_experiment_of_ones_own(tmp_path):
    (tmp_path / "mine.toml").write_text(FILE)
    config = read_experiment(str(tmp_path / "mine.toml"))
    assert (config.name, config.settings[0].name, config.settings[0].family) == ("mine", "goemo-st", "goemo-st")
    found = [(spec.kind, spec.label, spec.x) for spec in config.systems]
    assert found == [("erm", "erm", None), ("guardrail", "rank 2", 2)]


def test_a_wrong_file_is_refused(tmp_path):
    for wrong, sentence in (
        (FILE.replace('tests = ["reversed"]', 'tests = ["odd"]'), "tests must be among .*, but has 'odd'"),
        (FILE.replace("shows", "show"), "has no field 'show'"),
        (FILE.replace('data = "goemo-st"', 'name = "x"'), "must say its data"),
        (FILE + '[[settings]]\ndata = "goemo-st"\n', "settings must have different names"),
        (FILE + "[settings.scales.big]\nepochs = 1\n", "scales must be among tiny, small, paper, but there is 'big'"),
        ("[", "is no TOML file"),
    ):
        (tmp_path / "mine.toml").write_text(wrong)
        with pytest.raises(ConfigError, match=sentence):
            read_experiment(str(tmp_path / "mine.toml"))


def test_a_plan_restricts_and_adds_systems():
    shifted = read_experiment("shifted")
    plan = shifted.plan(systems=["erm", "another"], settings=["GoEmo-ST"])
    assert [(setting.name, spec.label) for setting, spec in plan] == [("GoEmo-ST", "erm"), ("GoEmo-ST", "another")]
    with pytest.raises(ConfigError, match=r"There is no setting 'GoEmo' here \(there are: Civil, civil-controlled"):
        shifted.plan(settings=["GoEmo"])
    # Names with a comma can be chosen.
    sweep = read_experiment("lambda-sweep")
    chosen = sweep.plan(settings=["Yelp-ST", "λ = .8", "Civil", "λ = 1"], systems=["erm"])
    assert [setting.name for setting, _ in chosen] == ["Yelp-ST, λ = .8", "Civil, λ = 1"]
    ranks = read_experiment("lora-rank")
    assert [spec.label for _, spec in ranks.plan(systems=["rank 8", "scale 2", "jtt"])] == ["rank 8, scale 2", "jtt"]
    with pytest.raises(ConfigError, match="no setting 'Yelp-ST' here"):
        sweep.plan(settings=["Yelp-ST", "λ = .7"])
