"""The image's pinned versions agree with those of the tests, and each has hashes."""

import re
import tomllib

from checkout import ROOT

IMAGE = (ROOT / "requirements-image.txt").read_text(encoding="utf-8")


def normalised(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text):
    """Versions by name, of lines such as `name==1.0`."""
    found = re.findall(r"^([\w.-]+)==([^\s\\;]+)", text, flags=re.MULTILINE)
    return {normalised(name): version for name, version in found}


def test_the_image_has_the_versions_that_are_tested():
    image, tested = pins(IMAGE), pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    both = image.keys() & tested.keys()
    assert {name: image[name] for name in both} == {name: tested[name] for name in both}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {normalised(re.match(r"[\w.-]+", one)[0]) for one in project["dependencies"]}
    assert needed - image.keys() == {"torch"} <= tested.keys()
    assert not [name for name in image if re.match(r"nvidia|cuda|triton", name)]


def test_every_pin_has_hashes_and_no_line_names_a_place():
    text = re.sub(r"^#.*\n", "", IMAGE, flags=re.MULTILINE)
    pin = r"[\w.-]+==[\w.+-]+ \\\n(?:    --hash=sha256:[0-9a-f]{64} \\\n)*    --hash=sha256:[0-9a-f]{64}\n"
    assert re.sub(pin, "", text) == ""
    assert len(pins(IMAGE)) > 30
