"""SST-2 as it is: a real-world set without known shortcuts."""

from __future__ import annotations

from .options import BuildOptions
from .reading import Rows, data_files, read_rows
from .sampling import split_stratified, stratified
from .types import BenchmarkData, DataCard, LabelledTexts

NAME = "sst2"
LABEL_NAMES = ("negative", "positive")
FOLDER = "sst2"
FILES = ("sst2_glue_train.csv", "sst2_glue_trainheldout.csv", "sst2_glue_dev.csv")
HUB_NAME = "stanfordnlp/sst2"


def build_sst2(options: BuildOptions) -> BenchmarkData:
    """Builds SST-2: stratified subsets, with the labels as groups. The test set is GLUE's development set.

    Raises:
        DataError: Files are missing, or there are fewer rows than asked for.
    """
    rng = options.generator()
    train_rows, dev_rows, test_rows = _read(options)
    if dev_rows is None:
        train_at, dev_at = split_stratified(train_rows.labels, options.n_train, rng)
        train, dev = train_rows.take(train_at), train_rows.take(dev_at)
    else:
        n_train = len(train_rows) if options.n_train is None else options.n_train
        train = train_rows.take(stratified(train_rows.labels, n_train, rng))
        dev = dev_rows.take(stratified(dev_rows.labels, min(len(dev_rows), max(1, len(train) // 10)), rng))
    n_test = len(test_rows) if options.n_test is None else options.n_test
    test = test_rows.take(stratified(test_rows.labels, n_test, rng))
    return BenchmarkData(
        name=NAME,
        train=_by_label("train", train, options),
        dev=_by_label("dev", dev, options),
        tests={"test": _by_label("test", test, options)},
        oracle_tests={},
        clean_train=None,
        shortcuts=(),
        card=_card(options),
        settings={**options.to_dict(), "n_train": len(train), "n_dev": len(dev), "n_test": len(test)},
    )


def _read(options: BuildOptions) -> tuple[Rows, Rows | None, Rows]:
    if options.data_dir is None:
        train, test = (
            read_rows(HUB_NAME, ("0", "1"), text="sentence", split=split) for split in ("train", "validation")
        )
        return train, None, test
    train, dev, test = (read_rows(path, ("0", "1")) for path in data_files(options.data_dir, FOLDER, FILES))
    return train, dev, test


def _by_label(name: str, rows: Rows, options: BuildOptions) -> LabelledTexts:
    return LabelledTexts(name, options.cap(rows.texts), rows.labels, LABEL_NAMES, rows.labels, LABEL_NAMES)


def _card(options: BuildOptions) -> DataCard:
    local = options.data_dir is not None
    return DataCard(
        name="SST-2",
        description="Sentences and phrases of film reviews, negative or positive.",
        source=f"{FOLDER}/ of the data folder" if local else f"https://huggingface.co/datasets/{HUB_NAME}",
        licence="Unknown; research use",
        citation="Socher et al., EMNLP 2013; Wang et al., GLUE, ICLR 2019",
        notes=(
            "The test set is GLUE's development set (872 sentences), since GLUE's test labels are not public.",
            "Training texts include phrases of the training sentences.",
            "No shortcut is annotated: groups are the labels, and worst-group accuracy is worst-class accuracy.",
        ),
    )
