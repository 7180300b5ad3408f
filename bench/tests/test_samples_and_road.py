"""Programs of two experiments: samples of a large corpus, and the way from an audit to a certificate."""

from types import SimpleNamespace

from test_experiment_folders import experiment


def test_a_sample_is_compared_with_all_texts_and_with_those_outside_it(monkeypatch):
    large = experiment("samples", monkeypatch, "large")

    def word(text, n, *, of=None, flips=0.0, status="not_flagged", change=-0.4):
        between = SimpleNamespace(flip_rate=(0.187, 0.813), mean_change=(-0.5, -0.3))  # of 5 in 10
        told = {"n_present": n, "n_distinct": n, "n_texts": of, "flip_rate": flips, "mean_change": change}
        told |= {"status": status, "flagged": status == "flagged", "relative_effect": float("nan")}
        return SimpleNamespace(text=text, interval=between, **told)

    sample = [word("own", 10, of=100, flips=0.5, status="flagged"), word("rare", 9, of=100), word("new", 50, of=100)]
    theirs = [word("own", 100, flips=0.2), word("rare", 90), word("verily", 400, status="flagged", change=0)]
    full = SimpleNamespace(candidates=theirs, n_distinct=1000)
    # 20 of all 100 flips and 15 of the other 90: .2 is in the interval, and .167 below it. 10 of 100 may be a tenth.
    held = {"shares": [1, 1], "flip_rates": [1, 1], "flip_rates_outside": [0, 1], "changes": [1, 1]}
    assert large.held(sample, full) == held
    theirs[0] = word("own", 300, flips=0.5, change=-0.6)  # .3 is not between .049 and .176
    held = {"shares": [0, 1], "flip_rates": [1, 1], "flip_rates_outside": [1, 1], "changes": [0, 1]}
    assert large.held(sample, full) == held
    found = [(one["word"], one["n"], one["status"]) for one in large.flags(sample, theirs)]
    assert found == [
        ("verily", [0, 400], [None, "flagged"]),
        (None, [10, 300], ["flagged", "not_flagged"]),
    ]


def test_clauses_are_taken_once_and_called_good_where_their_text_is(monkeypatch, tmp_path):
    large = experiment("samples", monkeypatch, "large")
    monkeypatch.setattr(large, "FILES", {"Yelp": ("y.csv",), "MultiNLI": ("m.csv",)})
    (tmp_path / "y.csv").write_text('label,text\n5,"So very good, I said. Go there!"\n3,"It was so so!"\n')
    (tmp_path / "m.csv").write_text('label,premise,hypothesis\n0,"So very good, no","He was there."\n')
    found = large.clauses(tmp_path)
    assert [tuple(one) for one in found] == [
        ("So very good,", "Yelp", "5"),
        ("It was so so!", "Yelp", "3"),
        ("He was there.", "MultiNLI", "0"),
    ]
    assert large.labelled(found, "good")[0] == ["So very good,"]
    assert large.labelled(found, "source")[1].tolist() == ["Yelp", "Yelp", "MultiNLI"]


def test_the_road_is_the_same_in_both_versions_and_answered_by_the_labels(tmp_path, monkeypatch):
    run = experiment("road", monkeypatch)
    then, now = (run.commands(tmp_path, tmp_path, earlier=earlier) for earlier in (True, False))
    assert [*then] == [*now] == ["audit", "questions", "decide", "fit", "to-label", "certify"]
    assert {name for name in now if now[name] != then[name]} == {"questions", "decide", "fit"}
    file = tmp_path / "questions.csv"
    file.write_text("text,option_a,option_b,answer\nfine,good,bad,\npoor,good,bad,\nodd,good,bad,\n")
    run.answer(file, {"fine": "good", "poor": "bad", "odd": "other"})
    assert [row.rsplit(",", 1)[1] for row in file.read_text().split()[1:]] == ["a", "b", "neither"]
    lines = "Written\ntokens 12\n"
    assert run.counted(lambda program: lines if "register_module_forward_pre_hook" in program else "") == 12
