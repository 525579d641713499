"""The picture of a plan: rectangles where the plan has them, texts inside of what they name, two sets of colours."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from random import Random

import pytest

from mlopt.memory import Buffer, plan
from mlopt.visual.memory_picture import CHARACTER, DARK_STYLE, STYLE, memory_picture
from mlopt.visual.planned import MemoryPlan, PlannedBuffer

SVG = "{http://www.w3.org/2000/svg}"


def made(count: int, seed: int = 0) -> MemoryPlan:
    """A plan of buffers with random lifetimes and sizes; every fifth is a workspace that lives for one moment."""
    random = Random(seed)
    buffers: list[Buffer] = []
    for k in range(count):
        lower = random.randrange(count)
        upper = lower + 1 if k % 5 == 0 else lower + random.randint(1, 12)
        buffers.append(
            Buffer(f"{'ws' if k % 5 == 0 else 'layer_norm'}_{k}", lower, upper, random.randint(1, 9000))
        )
    best = plan(buffers)
    return MemoryPlan(
        tuple(
            PlannedBuffer(b, best.offsets[b.id], f"{b.size}xi8", k % 5 == 0, (f"node {k}",))
            for k, b in enumerate(buffers)
        ),
        best.height,
    )


def root_of(*plans: MemoryPlan, zoomable: bool = False) -> ET.Element:
    titled = [(f"model_{k}.onnx", each) for k, each in enumerate(plans)]
    return ET.fromstring(memory_picture(titled, zoomable=zoomable))


def number(element: ET.Element, name: str) -> float:
    return float(element.attrib[name])


Box = tuple[float, float, float, float]


def box_of(text: ET.Element) -> Box:
    """Left, top, right, bottom of a text, with the same upper estimate of its width as for what fits."""
    style = re.search(r"font-size:([\d.]+)px", text.get("style", ""))
    kind = text.get("class", "")
    size = float(style[1]) if style else 10.0 if "name" in kind else 16.0 if kind == "title" else 12.0
    long, x, y = CHARACTER * size * len(text.text or ""), number(text, "x"), number(text, "y")
    if (turn := re.fullmatch(r"rotate\(-90 ([\d.]+) ([\d.]+)\)", text.get("transform", ""))) is not None:
        x, y = float(turn[1]), float(turn[2])
        return x - size / 2, y - long / 2, x + size / 2, y + long / 2
    anchor = "middle" if "name" in kind else text.get("text-anchor", "start")
    left = {"start": x, "middle": x - long / 2, "end": x - long}[anchor]
    return left, y - 0.75 * size, left + long, y + 0.2 * size


def apart(a: Box, b: Box) -> bool:
    return a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


@pytest.mark.parametrize("count", [1, 12, 120, 500])
@pytest.mark.parametrize("zoomable", [False, True])
def test_names_are_inside_their_rectangles(count: int, zoomable: bool) -> None:
    """No two rectangles overlap, so no two names do."""
    root = root_of(made(count), zoomable=zoomable)
    rectangles = {
        (r.findtext(f"{SVG}title") or "").partition(":")[0]: r
        for r in root.iter(f"{SVG}rect")
        if (r.get("class") or "").startswith("buffer")
    }
    names = [text for text in root.iter(f"{SVG}text") if "name" in text.get("class", "")]
    assert len(rectangles) == count and names
    for text in names:
        left, top, right, bottom = box_of(text)
        shown = (text.text or "").rstrip("…")
        fitting = [r for name, r in rectangles.items() if name.startswith(shown)]
        assert any(
            number(r, "x") <= left
            and number(r, "y") <= top + 0.1
            and right <= number(r, "x") + number(r, "width")
            and bottom <= number(r, "y") + number(r, "height") + 0.1
            for r in fitting
        ), text.text


@pytest.mark.parametrize("plans", [(0,), (1,), (500,), (1, 500), (12, 0)])
def test_other_texts_do_not_overlap_and_are_on_the_page(plans: tuple[int, ...]) -> None:
    root = root_of(*map(made, plans))
    texts = [text for text in root.iter(f"{SVG}text") if "name" not in text.get("class", "")]
    boxes = [box_of(text) for text in texts]
    width, height = number(root, "width"), number(root, "height")
    for index, box in enumerate(boxes):
        assert box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height, texts[index].text
        for other in range(index):
            assert apart(box, boxes[other]), (texts[index].text, texts[other].text)


@pytest.mark.parametrize("arena", [1, 64, 1000, 209024, 3 << 20, 5 << 30, 7 << 40])
def test_bytes_are_in_round_units(arena: int) -> None:
    """At most nine numbers on the axis, rising, none of them long."""
    buffer = PlannedBuffer(Buffer("a", 0, 1, arena, 1), 0, "", False, ())
    root = root_of(MemoryPlan((buffer,), arena))
    texts = [
        text for text in root.iter(f"{SVG}text") if re.fullmatch(r"0|[\d.]+ ([KMGT]i)?B", text.text or "")
    ]
    assert 2 <= len(texts) <= 10
    assert all(number(a, "y") > number(b, "y") for a, b in pairwise([t for t in texts if t.text != "0"]))
    assert all(len(text.text or "") <= 9 for text in texts)


def test_kinds_are_told_by_colour_and_named() -> None:
    """Workspaces and activations, and those that live at the peak: as many as the plan has."""
    shown = made(60)
    root = root_of(shown)
    classes = [
        (r.get("class") or "").split()[-1][0]
        for r in root.iter(f"{SVG}rect")
        if "buffer" in (r.get("class") or "")
    ]
    live = shown.live_at(shown.peak_moment)
    assert classes.count("p") == sum(not b.is_workspace for b in live)
    assert classes.count("q") == sum(b.is_workspace for b in live)
    assert classes.count("p") + classes.count("a") == 48
    legend = {text.text for text in root.iter(f"{SVG}text")}
    assert {"activation", "activation live at the peak", "workspace", "workspace live at the peak"} <= legend


def test_all_colours_have_a_dark_one() -> None:
    """What is filled or drawn on a light page is so on a dark one."""
    light = set(re.findall(r"\.(\w+) \{[^}]*(?:fill|stroke): #", STYLE))
    assert light == set(re.findall(r"\.(\w+) \{[^}]*(?:fill|stroke): #", DARK_STYLE))


def test_the_profile_of_buffers_with_gaps() -> None:
    """64 bytes in [0, 2) and [4, 6), 128 in [1, 5): 64, 192, 128, 192, 64."""
    one = PlannedBuffer(Buffer("one", 0, 6, 64, gaps=((2, 4),)), 0, "", False, ("n",))
    two = PlannedBuffer(Buffer("two", 1, 5, 128), 64, "", False, ("m", "k"))
    shown = MemoryPlan((one, two), 192)
    assert list(shown.profile) == [(0, 64), (1, 192), (2, 128), (4, 192), (5, 64), (6, 0)]
    assert (shown.peak_bytes, shown.peak_moment, shown.peak_maker, shown.no_reuse_bytes) == (192, 1, "k", 192)
    assert [shown.live_bytes(moment) for moment in (-1, 0, 3, 6)] == [0, 64, 128, 0]
    rectangles = [r for r in root_of(shown).iter(f"{SVG}rect") if "buffer" in (r.get("class") or "")]
    assert len(rectangles) == 3


def test_names_of_a_model_can_not_break_the_picture() -> None:
    """Names are any text: markup, quotes, ends of lines."""
    name = '<b>&"\n]]>'
    buffer = PlannedBuffer(Buffer(name, 0, 1, 64), 0, "16xf32", False, (name,))
    text = memory_picture([(name, MemoryPlan((buffer,), 64))], zoomable=True)
    titles = [title.text or "" for title in ET.fromstring(text).iter(f"{SVG}title")]
    assert len(titles) == 1 and titles[0].startswith('<b>&"')
