"""Which launches of the fake compute plane go wrong, drawn from a seed."""

from __future__ import annotations

from faultbridge.local.compute_weather import Climate, Fate, Weather

ROUGH = Climate(failing=0.1, slow=0.3, bad=0.2)


def fates(seed: int, climate: Climate, number: int = 1000) -> list[Fate]:
    weather = Weather()
    weather.change(seed, climate)
    return [weather.next() for _ in range(number)]


def test_it_is_calm_unless_told_otherwise() -> None:
    weather = Weather()
    assert {weather.next() for _ in range(100)} == {Fate()}


def test_a_seed_gives_the_same_fates_each_time_and_another_gives_others() -> None:
    assert fates(7, ROUGH) == fates(7, ROUGH)
    assert fates(7, ROUGH) != fates(8, ROUGH)


def test_each_thing_happens_as_often_as_the_climate_says() -> None:
    drawn = fates(7, ROUGH)
    failed = sum(fate.fails for fate in drawn)
    assert 70 <= failed <= 130
    others = len(drawn) - failed
    assert 0.25 <= sum(fate.slow for fate in drawn) / others <= 0.35
    assert 0.15 <= sum(fate.bad for fate in drawn) / others <= 0.25


def test_a_launch_that_fails_brings_nothing_that_could_be_slow_or_bad() -> None:
    assert set(fates(7, Climate(failing=1, slow=1, bad=1))) == {Fate(fails=True)}
