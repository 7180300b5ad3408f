"""The image's pinned versions agree with those of the tests, and each has hashes."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def pins(file):
    """Versions by name, of lines such as `name==1.0`."""
    found = re.findall(r"^([\w.-]+)==([^\s\\;]+)", (ROOT / file).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {normalised(name): version for name, version in found}


def normalised(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_image_has_the_versions_that_are_tested():
    image, tested = pins("requirements-image.txt"), pins("constraints.txt")
    assert {name: image[name] for name in image.keys() & tested.keys()} == {
        name: tested[name] for name in image.keys() & tested.keys()
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {normalised(re.match(r"[\w.-]+", one)[0]) for one in project["dependencies"]}
    assert needed - image.keys() == {"torch"}
    assert "torch" in tested
    assert not [name for name in image if re.match(r"nvidia|cuda|triton", name)]


def test_every_pin_has_hashes_and_no_line_names_a_place():
    lines = (ROOT / "requirements-image.txt").read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if not line.startswith("#")]
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith(" "):
            assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line)
        else:
            assert re.fullmatch(r"[\w.-]+==[\w.+-]+ \\", line)
            assert following.startswith("    --hash=sha256:")
    assert len(pins("requirements-image.txt")) > 30
