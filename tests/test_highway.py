"""The highway: what is seen, what is allowed, what is counted; and SUMO, where it is installed."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drivers
from drivers import Road, positions
from inverseq.demonstrations import Demonstrations
from inverseq.errors import InvalidInput, MissingExtra, SimulationFailed
from inverseq.nets import DeepSets
from inverseq.task import Constraint, Task
from inverseq.worlds import highway
from inverseq.worlds.highway import client, policies, traffic
from inverseq.worlds.highway.observation import FEATURES, MEMBERS, STATIC, WIDTH
from inverseq.worlds.highway.policies import Learned, Obeying
from inverseq.worlds.highway.rollouts import decide
from inverseq.worlds.highway.rules import KEEP, LEFT, RIGHT
from inverseq.worlds.highway.traffic import Scenario

needs_gymnasium = pytest.mark.skipif(
    find_spec("gymnasium") is None, reason="gymnasium is not installed (extra `gym`)"
)
needs_sumo = pytest.mark.skipif(
    find_spec("libsumo") is None or find_spec("gymnasium") is None,
    reason="libsumo is not installed (extra `sumo`)",
)


def seen(*vehicles):
    """The observation in such a scene, as a batch of one."""
    return highway.observe(*positions(*vehicles))[None]


def safe(*vehicles):
    return highway.safety().allows(seen(*vehicles))[0].tolist()


def right(*vehicles, **options):
    return highway.keep_right(**options).allows(seen(*vehicles))[0].tolist()


def hundredths(low, high):
    return st.integers(100 * low, 100 * high).map(lambda whole: whole / 100)


PLACE, LANE = hundredths(0, 999), st.integers(0, 2)
VEHICLES = st.tuples(PLACE, LANE, hundredths(0, 23))
NEAR = st.tuples(hundredths(-79, 79), LANE, hundredths(8, 23))
EGO = st.tuples(PLACE, LANE, hundredths(0, 20))


@st.composite
def scenes(draw, most=40, others=VEHICLES):
    vehicles = st.lists(others, max_size=most, unique_by=lambda vehicle: vehicle[0])
    return [draw(EGO), *draw(vehicles)]


# -- what is seen -------------------------------------------------------------------------------


@given(scenes())
def test_an_observation_holds_who_is_within_range_and_nobody_else(vehicles):
    row = highway.observe(*positions(*vehicles))
    assert row.dtype == np.float32
    assert row.shape == (WIDTH,) == (131,)
    members, there, static = highway.split(row[None])
    assert (members.shape, there.shape, static.shape) == ((1, 32, 3), (1, 32), (1, 3))
    (x0, lane, speed), *others = vehicles
    np.testing.assert_allclose(static[0], [speed / 20, lane < 2, lane > 0], atol=1e-6)

    ahead = np.array([(x - x0 + 500) % 1000 - 500 for x, _, _ in others])
    within = np.abs(ahead) <= 80
    assert there.sum() == min(within.sum(), MEMBERS)
    assert (np.diff(there[0].astype(int)) <= 0).all(), "present members come first"
    assert not members[~there].any()
    distances = np.sort(np.abs(ahead[within]))[:MEMBERS]
    np.testing.assert_allclose(80 * np.abs(members[there][:, 0]), distances, atol=1e-4)
    told = {tuple(np.round(member, 3)) for member in members[there].tolist()}
    for x, (_, its_lane, its_speed) in zip(ahead, others, strict=True):
        if abs(x) < 79.9 and within.sum() <= MEMBERS:
            expected = np.array([x / 80, (its_speed - speed) / 20, its_lane - lane])
            assert any(np.allclose(member, expected, atol=2e-3) for member in told)


def test_the_layout_is_what_networks_read():
    rows = random_rows(20)
    network = DeepSets(members=MEMBERS, features=FEATURES, static=STATIC)
    assert network.n_inputs == WIDTH
    for ours, theirs in zip(highway.split(rows), network.split(rows), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_numbers_of_a_row_are_those_of_the_scene():
    row = seen((990, 0, 20), (30, 1, 15), (500, 0, 10), (985, 2, 22))[0]
    assert WIDTH == STATIC + MEMBERS * (1 + FEATURES)
    np.testing.assert_allclose(row[:STATIC], [1, 1, 0])
    np.testing.assert_allclose(row[STATIC : STATIC + 8], [1, -5 / 80, 0.1, 2, 1, 0.5, -0.25, 1])
    assert not row[STATIC + 8 :].any()


def test_the_ring_closes():
    around = [
        seen((x, 1, 15), ((x + 30) % 1000, 1, 12), ((x - 20) % 1000, 0, 18)) for x in (5, 995)
    ]
    np.testing.assert_allclose(around[0], around[1], atol=1e-6)


def test_of_too_many_the_nearest_are_seen():
    crowd = [(500 + 2 * i, i % 3, 10.0) for i in range(-40, 41) if i]
    members, there, _ = highway.split(seen((500, 1, 10), *crowd))
    assert there.all()
    assert np.abs(80 * members[0, :, 0]).max() == pytest.approx(32)


@given(scenes(8))
def test_batches_of_any_shape_are_split_alike(vehicles):
    row = seen(*vehicles)[0]
    batch = np.broadcast_to(row, (2, 5, WIDTH))
    for many, one in zip(highway.split(batch), highway.split(row), strict=True):
        assert many.shape == (2, 5, *one.shape)
        np.testing.assert_array_equal(many[1, 3], one)


def test_what_is_no_observation_is_refused():
    with pytest.raises(InvalidInput, match=r"must have 131 numbers.*shape \(7, 130\)"):
        highway.split(np.zeros((7, 130)))


# -- what is allowed ----------------------------------------------------------------------------

# From 20 m/s one stops within 20 m of reaction and 400 / 9 m of braking, from 10 m/s the leader
# within 100 / 9 m: 53.33 m between them, and 2.5 m to spare.
GAP = 2.5 + 20 + (400 - 100) / 9


@pytest.mark.parametrize("lane", [0, 1])
def test_the_gap_ahead_must_be_that_of_krauss(lane):
    action = LEFT if lane == 1 else KEEP
    ahead = 5 + GAP
    assert safe((0, 0, 20), (ahead + 0.01, lane, 10))[LEFT]
    assert safe((0, 0, 20), (ahead - 0.01, lane, 10))[LEFT] == (action == KEEP)


def test_the_gap_behind_must_be_that_of_krauss():
    assert safe((100, 1, 10), (95 - GAP - 0.01, 0, 20)) == [True, True, True]
    assert safe((100, 1, 10), (95 - GAP + 0.01, 0, 20)) == [True, True, False]


def test_a_faster_vehicle_ahead_needs_the_least_gap_alone():
    # 10 m of reaction are less than what the leader's braking gives: (400 - 100) / 9 m.
    assert safe((0, 1, 10), (7.51, 2, 20))[LEFT]
    assert not safe((0, 1, 10), (7.49, 2, 20))[LEFT]


@pytest.mark.parametrize("offset", [-4.9, -0.1, 0.0, 0.1, 4.9])
def test_who_drives_beside_is_in_the_way(offset):
    assert safe((500, 1, 15), (500 + offset, 2, 15)) == [True, False, True]


def test_only_the_next_ones_in_a_lane_count():
    alone = safe((0, 1, 20), (60.9, 2, 10))
    assert alone == safe((0, 1, 20), (60.9, 2, 10), (75, 2, 0)) == [True, True, True]


def test_there_is_no_lane_beyond_the_last():
    assert safe((0, 2, 20)) == [True, False, True]
    assert safe((0, 0, 20)) == [True, True, False]


def test_keep_right_forces_to_the_right_where_that_is_free_and_safe():
    assert right((0, 1, 20)) == [False, False, True]
    # Reached in 20 s: at 10 m/s less, 200 m away. In sight, 80 m, nobody so slow is.
    assert right((0, 1, 20), (70, 0, 10)) == [True, False, True]
    assert right((0, 1, 20), (8, 0, 20)) == [True, False, True], "free, but not safe"
    assert right((0, 0, 20)) == [True, False, True], "there is no lane to the right"


def test_one_may_overtake_who_would_be_reached():
    assert right((0, 0, 20), (60, 0, 15)) == [True, True, True]
    assert right((0, 0, 20), (60, 0, 20)) == [True, False, True]


@pytest.mark.parametrize(("margin", "room"), [(False, 0.0), (True, 2.5 + 20.0)])
def test_the_horizon_is_met_exactly(margin, room):
    # One is reached in 20 s that is 40 m away and 2 m/s slower.
    way = 5 + room + 40
    free = right((0, 1, 20), (way + 0.01, 0, 18), margin=margin)
    taken = right((0, 1, 20), (way - 0.01, 0, 18), margin=margin)
    assert (free, taken) == ([False, False, True], [True, False, True])


def test_a_vehicle_as_fast_is_never_reached():
    assert right((0, 1, 15), (30, 0, 15)) == [False, False, True]
    assert right((0, 0, 15), (6, 0, 15.1)) == [True, False, True]


@given(scenes())
def test_something_is_always_allowed(vehicles):
    row = seen(*vehicles)
    for margin in (True, False):
        task = Task(3, 0.99).constrain(highway.safety(), highway.keep_right(margin=margin))
        both = np.all([c.allows(row) for c in task.constraints], axis=0)
        assert both.any()
        np.testing.assert_array_equal(task.safe(row), both)
    assert highway.safety().allows(row)[0, KEEP]


@given(scenes())
def test_costs_are_zero_or_one(vehicles):
    row = seen(*vehicles)
    for rule in (highway.safety(), highway.keep_right(), highway.keep_right(5, margin=False)):
        assert rule.threshold == 0
        assert set(np.unique(rule.cost(row)).tolist()) <= {0, 1}


@given(scenes(8), NEAR)
def test_one_vehicle_more_makes_nothing_safe(vehicles, another):
    x, lane, speed = another
    more = [*vehicles, ((vehicles[0][0] + x) % 1000, lane, speed)]
    # It may hide a slower one behind itself, so it is alone in its lane.
    others = [v for v in more[1:-1] if v[1] != lane]
    before, after = (np.array(safe(vehicles[0], *o)) for o in (others, [*others, more[-1]]))
    assert (before | ~after).all()


@given(scenes(), st.floats(1, 60), st.floats(1, 60))
def test_a_longer_horizon_and_a_margin_ask_for_less(vehicles, one, other):
    row = seen(*vehicles)
    short, long = sorted([one, other])
    strict = highway.keep_right(short, margin=False).allows(row)
    for milder in (highway.keep_right(long, margin=False), highway.keep_right(short)):
        assert (milder.allows(row) | ~strict).all()


@given(scenes(20), st.randoms(use_true_random=False))
def test_the_order_of_members_does_not_matter(vehicles, random):
    row = seen(*vehicles)[0]
    order = list(range(MEMBERS))
    random.shuffle(order)
    members = row[STATIC:].reshape(MEMBERS, -1)[order]
    other = np.concatenate([row[:STATIC], members.ravel()])
    for rule in (highway.safety(), highway.keep_right()):
        np.testing.assert_array_equal(rule.cost(row), rule.cost(other))


def random_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        m = rng.integers(20, 92)
        rows.append(
            highway.observe(
                rng.random(m) * 1000, rng.integers(3, size=m), np.append(20, rng.random(m - 1) * 23)
            )
        )
    return np.array(rows)


def test_rules_say_the_same_of_a_batch_and_of_each_of_its_rows():
    rows = random_rows(200)
    for rule in (highway.safety(), highway.keep_right(), highway.keep_right(margin=False)):
        costs = rule.cost(rows)
        assert 0.02 < costs.mean() < 0.98
        np.testing.assert_array_equal(costs, [rule.cost(row) for row in rows])
        np.testing.assert_array_equal(costs, rule.cost(rows.reshape(2, 100, -1)).reshape(-1, 3))


def test_rules_say_the_same_under_jax():
    jax = pytest.importorskip("jax", reason="JAX is not installed (extra `deep`)")
    rows = random_rows(1000)
    for rule in (highway.safety(), highway.keep_right(), highway.keep_right(margin=False)):
        expected = rule.cost(rows)
        np.testing.assert_array_equal(expected, jax.jit(rule.cost)(rows))
        np.testing.assert_array_equal(
            expected[:50], jax.vmap(rule.cost)(jax.numpy.array(rows[:50]))
        )


def test_a_rule_can_be_sent_to_another_process():
    import pickle

    rows = random_rows(20)
    for rule in (highway.safety(), highway.keep_right(7.0, margin=False)):
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(rule)).cost(rows), rule.cost(rows))


@pytest.mark.parametrize("horizon", [0, -1, np.inf, np.nan, "20"])
def test_a_horizon_is_a_positive_number(horizon):
    with pytest.raises(InvalidInput, match=rf"`horizon` must be a positive.*got {horizon!r}"):
        highway.keep_right(horizon)


# -- what is counted ----------------------------------------------------------------------------


def checked(*scene, to, **options):
    """What the checker counts when the ego changes to a lane in a scene."""
    now = positions(*scene)
    metres, lanes, speeds = now
    lanes = lanes.copy()
    lanes[0] = to
    then = ((metres + 2 * speeds) % 1000, lanes, speeds)
    return highway.check([now, then], [KEEP], **options)


def test_staying_left_is_a_breach_where_the_right_lane_is_free():
    assert checked((0, 1, 20), to=1).keep_right == 1
    assert checked((0, 1, 20), to=0).keep_right == 0
    assert checked((0, 1, 20), to=2).keep_right == 1
    assert checked((0, 0, 20), to=0).keep_right == 0


def test_who_wants_to_the_right_and_is_refused_has_not_chosen_to_stay():
    scene = positions((0, 1, 20))
    counted = [highway.check([scene, scene], [action]).keep_right for action in range(3)]
    assert counted == [1, 1, 0]
    slow_ahead = positions((0, 0, 20), (60, 0, 12))
    assert highway.check([slow_ahead] * 2, [LEFT]).keep_right == 0
    # What happened counts before what was said.
    moved = positions((40, 2, 20))
    assert highway.check([scene, moved], [RIGHT]).keep_right == 1


def test_the_checker_looks_around_the_whole_ring():
    # 10 m/s slower and 150 m ahead: reached within 20 s, though the ego cannot see it.
    assert checked((900, 1, 20), (50, 0, 10), to=1).keep_right == 0
    assert right((900, 1, 20), (50, 0, 10)) == [False, False, True]
    # 10 m/s slower and 250 m ahead is not.
    assert checked((900, 1, 20), (150, 0, 10), to=1).keep_right == 1
    # Without the margin 210 m are enough, with it 227.5 m are needed.
    assert checked((0, 1, 20), (210, 0, 10), to=1).keep_right == 0
    assert checked((0, 1, 20), (210, 0, 10), to=1, margin=False).keep_right == 1


def test_leaving_a_free_lane_to_the_left_is_a_breach():
    assert checked((0, 0, 20), to=1).keep_right == 1
    assert checked((0, 0, 20), (60, 0, 12), to=1).keep_right == 0


def test_a_change_into_a_short_gap_is_a_breach_of_safety():
    assert checked((0, 0, 20), (5 + GAP - 0.01, 1, 10), to=1).safety == 1
    assert checked((0, 0, 20), (5 + GAP + 0.01, 1, 10), to=1).safety == 0
    assert checked((100, 1, 10), (95 - GAP + 0.01, 2, 20), to=2).safety == 1
    assert checked((100, 1, 10), (95 - GAP + 0.01, 2, 20), to=1).safety == 0


def test_vehicles_in_one_place_have_collided():
    apart = positions((0, 0, 20), (500, 1, 20), (505, 1, 20), (997, 1, 20))
    assert highway.check([apart], []).collisions == 0
    touching = positions((0, 0, 20), (500, 1, 20), (504.9, 1, 20))
    assert highway.check([touching, touching], [KEEP]).collisions == 2
    around = positions((2, 1, 20), (998, 1, 20))
    assert highway.check([around], []).collisions == 1


@settings(max_examples=400)
@given(scenes(25), st.booleans())
def test_who_obeys_the_rules_in_sight_breaches_none(vehicles, margin):
    row = seen(*vehicles)
    lane = vehicles[0][1]
    allowed = highway.safety().allows(row) & highway.keep_right(margin=margin).allows(row)
    for action in np.flatnonzero(allowed[0]):
        to = lane + (0, 1, -1)[action]
        assert checked(*vehicles, to=to, margin=margin).keep_right == 0


@settings(max_examples=300)
@given(EGO, st.lists(NEAR, max_size=12, unique_by=lambda vehicle: vehicle[0]))
def test_where_all_are_in_sight_the_checker_finds_what_is_forbidden(ego, near):
    place, lane, speed = ego[0], ego[1], ego[2] + 0.005  # nobody is exactly as fast
    others = [((place + x) % 1000, its_lane, v) for x, its_lane, v in near]

    def forbidden(shift):
        row = seen((place + shift, lane, speed), *others)
        return [~rule.allows(row)[0] for rule in (highway.safety(), highway.keep_right())]

    unsafe, wrong = forbidden(0)
    # Where two millimetres decide, the checker lets it pass.
    clear = np.all([np.array(forbidden(d)) == (unsafe, wrong) for d in (-0.002, 0.002)], axis=0)
    for action, to in enumerate((lane, lane + 1, lane - 1)):
        if not 0 <= to <= 2:
            continue
        found = checked((place, lane, speed), *others, to=to)
        assert found.safety == unsafe[action] or not clear[0, action]
        assert found.keep_right == wrong[action] or not clear[1].all()


# -- drivers ------------------------------------------------------------------------------------

FINGERPRINTS = {
    "T1": "6acf7f39c3aff5d70cf2a15ec7f662946c67ab897192faaca5b948dde2973b07",
    "T2": "9570e6ac8a4b72c129e9b085abd0ee4ade7937631e81a4c2ce352afadf1999ed",
}


@pytest.mark.parametrize("mixture", ["T1", "T2"])
def test_the_scenarios_of_the_evaluation_are_what_they_always_were(mixture):
    scenarios = highway.evaluation_scenarios(mixture)
    assert Counter(s.n for s in scenarios) == dict.fromkeys(range(30, 91, 5), 20)
    assert len(set(scenarios)) == 260
    assert highway.fingerprint(scenarios) == FINGERPRINTS[mixture]


def test_no_scenario_of_training_is_one_of_the_evaluation():
    drawn = highway.training_scenarios(300, "T2", seed=4)
    assert drawn == highway.training_scenarios(300, "T2", seed=4)
    assert drawn != highway.training_scenarios(300, "T2", seed=5)
    assert not set(drawn) & set(highway.evaluation_scenarios("T2"))
    assert {s.n for s in drawn} <= set(range(30, 91))
    assert len({s.n for s in drawn}) > 50


def everybody():
    return [driver for s in highway.evaluation_scenarios("T2") for driver in s.drivers()[1:]]


def test_drivers_are_mixed_as_stated():
    drivers = everybody()
    shares = Counter(driver.kind for driver in drivers)
    n = len(drivers)
    for kind, share, low, high in traffic.CLASSES:
        assert abs(shares[kind] / n - share) < 4 * np.sqrt(share * (1 - share) / n)
        speeds = [driver.max_speed for driver in drivers if driver.kind == kind]
        assert low <= min(speeds) < low + 0.1
        assert high - 0.1 < max(speeds) <= high
    never = np.mean([not driver.keeps_right for driver in drivers])
    assert abs(never - 0.3) < 4 * np.sqrt(0.21 / n)


def test_the_two_mixtures_differ_in_keeping_right_alone():
    from dataclasses import replace

    for n, seed in [(30, 0), (90, 3)]:
        easy, hard = (Scenario(name, n, seed).drivers() for name in ("T1", "T2"))
        assert all(driver.keeps_right for driver in easy)
        assert easy == tuple(replace(driver, keeps_right=True) for driver in hard)
        assert easy != hard


@pytest.mark.parametrize("n", [0, 1, 2, 30, 90, traffic.MOST_VEHICLES])
def test_nobody_starts_too_close_to_another(n):
    for seed in range(5):
        for lane in range(3):
            drivers = Scenario("T2", n, seed).drivers()
            assert len(drivers) == n + 1
            places = np.sort([d.position for d in drivers if d.lane == lane])
            if len(places) > 1:
                gaps = (np.roll(places, -1) - places) % 1000 - 5
                assert gaps.min() > 2.5 + 8.0, "one second at 8 m/s, and the least gap"


def test_the_ego_starts_in_every_lane():
    lanes = Counter(Scenario("T1", 60, seed).drivers()[0].lane for seed in range(300))
    assert min(lanes.values()) > 70
    assert set(lanes) == {0, 1, 2}


def test_the_net_is_a_ring_of_1000_metres_with_three_lanes():
    net = ET.parse(traffic.NET).getroot()
    edges = {edge.get("id"): edge for edge in net.iter("edge")}
    around, at = [], "e0"
    for _ in edges:
        lanes = edges[at].findall("lane")
        assert [lane.get("index") for lane in lanes] == ["0", "1", "2"]
        around.append({float(lane.get("length")) for lane in lanes})
        onward = [c for c in net.iter("connection") if c.get("from") == at]
        assert [(c.get("fromLane"), c.get("toLane")) for c in onward] == [(l, l) for l in "012"]
        assert len({c.get("to") for c in onward}) == 1
        at = onward[0].get("to")
    assert at == "e0"
    assert around == [{250.0}] * 4


def test_routes_are_for_as_many_vehicles_as_there_are():
    routes = ET.fromstring(Scenario("T2", 40, 5).routes())
    vehicles = routes.findall("vehicle")
    assert [v.get("id") for v in vehicles] == [str(i) for i in range(41)]
    types = {t.get("id"): t for t in routes.findall("vType")}
    ego = types[vehicles[0].get("type")]
    assert (ego.get("maxSpeed"), ego.get("sigma"), ego.get("tau")) == ("20.000", "0.0", "1.0")
    assert sum(types[v.get("type")].get("lcKeepRight") == "0" for v in vehicles) > 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("T3", 30, 0), r"`Scenario.traffic` must be 'T1' or 'T2'; got 'T3'"),
        (("T1", 121, 0), r"`Scenario.n` must be an integer from 0 to 120; got 121"),
        (("T1", 2.5, 0), r"`Scenario.n` must be an integer from 0 to 120; got 2.5"),
        (("T1", 30, -1), r"`Scenario.seed` must be an integer from 0 to 2147483647; got -1"),
        (("T1", 30, 2**31), r"`Scenario.seed` must be .* got 2147483648"),
    ],
)
def test_a_scenario_that_cannot_be_is_refused(given, message):
    with pytest.raises(InvalidInput, match=message):
        Scenario(*given)


# -- policies -----------------------------------------------------------------------------------


class Solved:
    """What stands in for a solution: fixed probabilities."""

    def __init__(self, *shares):
        self.shares = np.array([shares])

    def predict_proba(self, states, *, constrained=True):
        return self.shares if constrained else self.shares[:, ::-1]


ROW, SAFE = seen((0, 1, 20)), np.array([[True, True, True]])
BARRED = np.array([[True, False, True]])


def test_what_was_learned_drives_by_its_best_safe_action():
    assert Learned(Solved(0.1, 0.7, 0.2))(ROW, SAFE) == LEFT
    assert Learned(Solved(0.1, 0.7, 0.2))(ROW, BARRED) == RIGHT
    assert Learned(Solved(0.0, 1.0, 0.0))(ROW, BARRED) in (KEEP, RIGHT)
    assert Learned(Solved(0.1, 0.2, 0.7), constrained=False)(ROW, SAFE) == KEEP


def test_what_was_learned_can_be_drawn():
    drawn = Learned(Solved(0.1, 0.6, 0.3), drawn=True)
    np.testing.assert_allclose(drawn(ROW, BARRED), [[0.25, 0, 0.75]])
    np.testing.assert_allclose(
        Learned(Solved(0.0, 1.0, 0.0), drawn=True)(ROW, BARRED), [[0.5, 0, 0.5]]
    )


def test_who_obeys_is_shown_what_is_left():
    forbid_right = Constraint(lambda states: np.array([[0, 0, 1.0]] * len(states)), 0)
    forbid_all = Constraint(lambda states: np.ones((len(states), 3)), 0)
    both = np.array([[True, True, True], [True, False, True]])
    rows = np.repeat(ROW, 2, axis=0)
    drawn = Obeying(policies.random, (forbid_right,))(rows, both)
    np.testing.assert_array_equal(drawn, [[0.5, 0.5, 0], [1, 0, 0]])
    drawn = Obeying(policies.random, (forbid_right, forbid_all))(rows, both)
    np.testing.assert_allclose(drawn, [[1 / 3, 1 / 3, 1 / 3], [0.5, 0, 0.5]])


def test_the_greedy_rule_changes_for_speed():
    slow_ahead, slow_left = (60.0, 0, 12.0), (70.0, 1, 11.0)
    rightmost = np.array([[True, True, False]])
    assert policies.greedy(seen((0, 0, 20), slow_ahead), rightmost) == LEFT
    assert policies.greedy(seen((0, 0, 20), slow_ahead, slow_left), rightmost) == KEEP
    assert policies.greedy(seen((0, 0, 20)), rightmost) == KEEP
    assert policies.greedy(seen((0, 1, 20), (60, 1, 12)), BARRED) == RIGHT


def test_probabilities_are_drawn_and_actions_are_taken():
    rng = np.random.default_rng(0)
    drawn = Counter(
        decide(lambda *_: np.array([[0.2, 0.0, 0.8]]), ROW[0], SAFE[0], rng) for _ in range(500)
    )
    assert set(drawn) == {KEEP, RIGHT}
    assert abs(drawn[RIGHT] / 500 - 0.8) < 0.08
    assert decide(lambda *_: [2], ROW[0], SAFE[0], rng) == RIGHT
    with pytest.raises(InvalidInput, match=r"must return actions.*returned shape \(1, 5\)"):
        decide(drivers.misshapen, ROW[0], SAFE[0], rng)


# -- the environment, on a road without SUMO ----------------------------------------------------


SCENARIO = {"scenario": Scenario("T1", 1, 0)}


def on(road, **options):
    env = highway.Highway(simulation=road, **options)
    return env, *env.reset(options=SCENARIO)


@needs_gymnasium
def test_what_is_not_safe_is_not_asked_for():
    road = Road((0, 1, 20), (0, 2, 20))
    env, _, info = on(road)
    assert info["safe"].tolist() == [True, False, True]
    *_, info = env.step(LEFT)
    assert (info["executed"], road.asked, road.lanes[0]) == (KEEP, [], 1)
    *_, info = env.step(RIGHT)
    assert (info["executed"], road.asked, road.lanes[0]) == (RIGHT, [0], 0)
    *_, info = env.step(RIGHT)
    assert (info["executed"], road.asked, road.lanes[0]) == (KEEP, [0], 0)


@needs_gymnasium
def test_what_was_executed_is_what_happened():
    env, *_ = on(Road((0, 1, 20), refuses=True))
    _, reward, *_, info = env.step(LEFT)
    assert info["executed"] == KEEP
    assert reward == pytest.approx(1.0)


@needs_gymnasium
@pytest.mark.parametrize(("speed", "action", "reward"), [
    (20, KEEP, 1.0), (20, LEFT, 0.99), (15, KEEP, 0.75), (15, RIGHT, 0.74), (0, KEEP, 0.0),
])  # fmt: skip
def test_the_reward_is_the_speed_less_the_cost_of_a_change(speed, action, reward):
    env, *_ = on(Road((0, 1, speed)))
    row, paid, terminated, truncated, info = env.step(action)
    assert paid == pytest.approx(reward)
    assert (terminated, truncated) == (False, False)
    assert info["speed"] == speed
    assert row in env.observation_space


@needs_gymnasium
def test_a_decision_is_two_seconds_after_a_minute_of_warming_up():
    road = Road((0, 1, 20))
    env, *_ = on(road, decisions=3)
    assert road.time == 120
    cuts = [env.step(KEEP)[3] for _ in range(3)]
    assert cuts == [False, False, True]
    assert road.time == 132
    env.close()
    assert not road.open


@needs_gymnasium
def test_a_collision_in_any_half_second_is_told():
    env, *_ = on(Road((0, 1, 20), crash_at=127))
    assert [env.step(KEEP)[4]["collision"] for _ in range(3)] == [False, True, False]
    _, _, info = on(Road((0, 1, 20), crash_at=50))
    assert info["collision"], "also while warming up"


@needs_gymnasium
def test_positions_are_told_as_they_are():
    road = Road((0, 1, 20), (3, 2, 21))
    *_, info = on(road)
    for told, is_so in zip(info["positions"], road.positions(), strict=True):
        np.testing.assert_array_equal(told, is_so)


@needs_gymnasium
def test_the_environment_says_what_is_wrong():
    road = Road((0, 1, 20))
    with pytest.raises(InvalidInput, match=r"`Highway.step` must follow `Highway.reset`"):
        highway.Highway(simulation=road).step(KEEP)
    env, *_ = on(road)
    for action in (3, -1, 0.5, None):
        with pytest.raises(InvalidInput, match=rf"`action` must be 0 \(keep\).*got {action}"):
            env.step(action)
    with pytest.raises(InvalidInput, match=r'options\["scenario"\]` must be a `Scenario`'):
        env.reset(options={"scenario": 7})
    with pytest.raises(InvalidInput, match=r"`Highway.traffic` must be .* got 'T9'"):
        highway.Highway("T9", simulation=road)
    with pytest.raises(InvalidInput, match=r"`Highway.n` must be .* got \(9, 5\)"):
        highway.Highway(n=(9, 5), simulation=road)
    with pytest.raises(InvalidInput, match=r"`Highway.decisions` must be .* got 0"):
        highway.Highway(decisions=0, simulation=road)


@needs_gymnasium
def test_a_trace_is_of_the_episode_alone():
    road = Road((0, 1, 20), (500, 0, 15.04))
    trace = highway.record_trace(
        Scenario("T1", 1, 0), policies.left, values=lambda rows: 0 * rows[:, :3], decisions=2,
        simulation=road,
    )  # fmt: skip
    assert trace == json.loads(json.dumps(trace))
    assert trace["format"] == "sumo-ring-trace/2"
    assert trace["meta"]["actions"] == ["keep", "left", "right"]
    # 60 s at 20 m/s are 200 m beyond the ring; then 10 m each half second.
    assert [frame[0][0] for frame in trace["frames"]] == [2000 + 100 * i for i in range(9)]
    assert [frame[1][0] for frame in trace["frames"]] == ["1"] + ["2"] * 8
    assert trace["frames"][0][2] == [200, 150]
    assert [step["a"] for step in trace["steps"]] == [LEFT, KEEP]
    assert [step["executed"] for step in trace["steps"]] == [LEFT, KEEP]
    assert trace["steps"][0]["safe"] == [True, True, True]
    assert trace["steps"][0]["safe_kr"] == [False, False, True]
    assert trace["steps"][0]["q"] == [0, 0, 0]
    assert trace["meta"]["to_the_left"] == [0, 1, -1]
    # To the left, and then not back, while the right lane is free for 20 s.
    assert [step["keep_right"] for step in trace["steps"]] == [True, True]
    assert not any(step["unsafe"] or step["collision"] for step in trace["steps"])
    assert not road.open


@needs_gymnasium
def test_a_trace_says_what_was_against_the_rules():
    scenario = Scenario("T1", 1, 0)
    # Beside the ego drives somebody as fast: to the left is not safe, and asking for it is no sin.
    road = Road((0, 0, 15), (0, 1, 15), crash_at=128)
    trace = highway.record_trace(
        scenario, lambda states, safe: np.array([LEFT]), decisions=3, simulation=road
    )
    assert [step["a"] for step in trace["steps"]] == [LEFT] * 3
    assert [step["collision"] for step in trace["steps"]] == [False, True, False]
    assert not any(step["keep_right"] or step["unsafe"] for step in trace["steps"])
    # Who drives in somebody else from the beginning is noticed, too.
    trace = highway.record_trace(
        scenario, policies.keep, decisions=1, simulation=Road((0, 0, 15), (3, 0, 15))
    )
    assert trace["steps"][0]["collision"]


@needs_gymnasium
def test_a_value_that_is_not_finite_is_none_in_a_trace():
    trace = highway.record_trace(
        Scenario("T1", 0, 0),
        policies.keep,
        values=lambda rows: np.array([[1.5, -np.inf, np.nan]]),
        decisions=1,
        simulation=Road((0, 1, 20)),
    )
    assert trace["steps"][0]["q"] == [1.5, None, None]


@needs_gymnasium
def test_a_trace_is_saved_whole(tmp_path):
    trace = highway.record_trace(
        Scenario("T1", 0, 0), policies.keep, decisions=1, simulation=Road((0, 1, 20))
    )
    assert trace["steps"][0]["q"] is None
    highway.save_trace(trace, tmp_path / "deep" / "trace.json")
    assert json.loads((tmp_path / "deep" / "trace.json").read_text()) == trace


# -- without the extras -------------------------------------------------------------------------


def test_without_sumo_one_is_told_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "libsumo", None)
    with pytest.raises(MissingExtra, match=r"needs SUMO.*pip install 'inverseq\[sumo\]'"):
        client.Sumo()


def test_without_gymnasium_rules_work_and_the_environment_says_why_not():
    program = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "from inverseq.worlds import highway\n"
        "print(highway.safety().name)\n"
        "highway.Highway"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.stdout == "safety\n"
    assert "pip install 'inverseq[sumo]'" in run.stderr.splitlines()[-1]


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Highwy'"):
        highway.Highwy  # noqa: B018


# -- under SUMO ---------------------------------------------------------------------------------

DENSE = [Scenario("T2", n, 1234 + n) for n in (40, 60, 80)]


def trajectory(scenario, decisions=30):
    """SHA-256 of where everybody is in an episode of careless requests."""
    env = highway.Highway(decisions=decisions)
    checksum = hashlib.sha256()
    row, info = env.reset(options={"scenario": scenario})
    cut = False
    while not cut:
        for column in info["positions"]:
            checksum.update(np.ascontiguousarray(column).tobytes())
        row, _, _, cut, info = env.step(drivers.Careless()(row[None], None)[0])
    env.close()
    return checksum.hexdigest()


@needs_sumo
def test_gymnasium_finds_nothing_to_complain_about():
    import gymnasium
    from gymnasium.utils.env_checker import check_env

    env = gymnasium.make("inverseq/Highway-v0", n=(5, 10), decisions=4)
    check_env(env.unwrapped)
    (low, info), same = env.reset(seed=3), env.reset(seed=3)
    np.testing.assert_array_equal(low, same[0])
    assert 6 <= len(info["positions"][0]) <= 11
    env.close()
    env.close()


@needs_sumo
def test_the_same_scenario_is_the_same_trajectory_in_every_process():
    one, other = DENSE[0], Scenario("T2", DENSE[0].n, 77)
    first = trajectory(one)
    assert trajectory(other) != first
    assert trajectory(one) == first, "also after another one"
    program = (
        "import test_highway\n"
        f"print(test_highway.trajectory(test_highway.Scenario('T2', {one.n}, {one.seed})))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=os.path.dirname(__file__), capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert run.stdout.split() == [first]


@needs_sumo
def test_the_last_to_begin_has_the_simulation():
    one, other = highway.Highway(), highway.Highway()
    one.reset(options=SCENARIO)
    other.reset(options=SCENARIO)
    with pytest.raises(InvalidInput, match=r"one simulation at a time.*Reset this environment"):
        one.step(KEEP)
    one.close()
    other.step(KEEP)
    one.reset(options=SCENARIO)
    one.step(KEEP)
    one.close()
    with pytest.raises(InvalidInput, match="one simulation at a time"):
        other.step(KEEP)


TOLD = []


def careless_policy(states, safe):
    """Ask for anything, and write down what was safe."""
    TOLD.append(safe[0])
    return drivers.Careless()(states, safe)


@pytest.fixture(scope="module")
def careless():
    """What happens to somebody who asks for anything at any time: 3,000 decisions."""
    scenarios = highway.training_scenarios(30, "T2", seed=1)
    return highway.rollouts(scenarios, careless_policy, workers=0, progress=False)


@needs_sumo
def test_masks_are_functions_of_what_is_stored(careless, tmp_path):
    careless.demonstrations().save(tmp_path / "seen.parquet")
    stored = Demonstrations.load(tmp_path / "seen.parquet").states
    assert stored.shape == (3000, WIDTH)
    assert stored.dtype == np.float32
    np.testing.assert_array_equal(highway.safety().allows(stored), TOLD)
    assert 0.2 < np.mean(TOLD) < 0.95


@needs_sumo
def test_who_asks_for_anything_is_kept_safe(careless):
    safe = highway.safety().allows(careless.demonstrations().states).reshape(30, 100, 3)
    granted = np.take_along_axis(safe, careless.requested[:, :, None], axis=2)[:, :, 0]
    assert 500 < (~granted).sum() < 2500
    assert (careless.actions[~granted] == KEEP).all()
    # SUMO refuses where another car has just come into the gap.
    assert (careless.actions[granted] == careless.requested[granted]).mean() > 0.995
    assert careless.summary()["collisions"] == 0
    assert careless.summary()["safety"] == 0
    assert careless.summary()["keep right"] > 100


@needs_sumo
def test_rewards_follow_from_speeds_and_changes(careless):
    expected = 1 - np.abs(careless.speeds - 20) / 20 - 0.01 * (careless.actions != KEEP)
    np.testing.assert_allclose(careless.rewards, expected, atol=1e-12)
    np.testing.assert_allclose(careless.states[:, 1:, 0] * 20, careless.speeds, atol=1e-5)


@needs_sumo
def test_demonstrations_are_the_steps(careless):
    seen = careless.demonstrations()
    assert (len(seen), seen.n_episodes) == (3000, 30)
    assert seen.states.dtype == np.float32
    assert not seen.terminated.any()
    np.testing.assert_array_equal(seen.rewards, careless.rewards.ravel())
    np.testing.assert_array_equal(seen.actions, careless.actions.ravel())
    np.testing.assert_array_equal(seen.states[1:100], seen.next_states[:99])
    np.testing.assert_array_equal(seen.next_states[99], careless.states[0, -1])


@needs_sumo
def test_the_rules_say_the_same_of_real_observations_under_jax(careless):
    jax = pytest.importorskip("jax", reason="JAX is not installed (extra `deep`)")
    rows = careless.demonstrations().states
    for rule in (highway.safety(), highway.keep_right(), highway.keep_right(margin=False)):
        np.testing.assert_array_equal(rule.cost(rows), jax.jit(rule.cost)(rows))


@needs_sumo
@pytest.mark.parametrize("margin", [True, False])
def test_who_obeys_breaches_nothing(margin):
    env, found = highway.Highway(), []
    policy = Obeying(policies.greedy, (highway.keep_right(margin=margin),))
    for scenario in highway.evaluation_scenarios("T1")[5::65]:
        row, info = env.reset(options={"scenario": scenario})
        recording, decisions, cut = [info["positions"]], [], False
        while not cut:
            decisions.append(policy(row[None], info["safe"][None])[0])
            row, _, _, cut, info = env.step(decisions[-1])
            recording.append(info["positions"])
        found.append(highway.check(recording, decisions, margin=margin))
    env.close()
    assert found == [highway.Breaches(0, 0, 0)] * 4


@needs_sumo
def test_who_does_not_care_breaches_the_rule_to_keep_right():
    seen = highway.rollouts(highway.evaluation_scenarios("T1")[5::65], policies.left, workers=0)
    assert seen.summary()["keep right"] > 10
    assert seen.summary()["collisions"] == seen.summary()["safety"] == 0
    slow = highway.rollouts(seen.scenarios, policies.right, workers=0)
    assert slow.summary()["speed"] + 2 < seen.summary()["speed"]


@needs_sumo
def test_a_trace_shows_what_an_episode_was():
    seen = highway.rollouts(DENSE[:1], policies.greedy, decisions=20, workers=0)
    trace = highway.record_trace(DENSE[0], policies.greedy, decisions=20)
    assert [step["executed"] for step in trace["steps"]] == seen.actions[0].tolist()
    assert sum(step["keep_right"] for step in trace["steps"]) == seen.keep_right[0] > 0
    assert sum(step["unsafe"] for step in trace["steps"]) == seen.safety[0] == 0
    assert len(trace["frames"]) == 81
    assert all(len(frame[0]) == len(frame[1]) == len(frame[2]) == 41 for frame in trace["frames"])
    assert trace["meta"]["vehicles"][1]["type"] in {"slow", "normal", "fast"}
    speeds = [frame[2][0] for frame in trace["frames"][4::4]]
    np.testing.assert_allclose(speeds, 10 * seen.speeds[0], atol=0.51)


# -- processes ----------------------------------------------------------------------------------


def same(one, other):
    for name in ("states", "requested", "actions", "rewards", "speeds", "keep_right", "collisions"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@needs_sumo
@pytest.mark.parametrize("deaths", [1, 2])
def test_an_episode_whose_process_is_killed_is_driven_again(tmp_path, deaths):
    alone = highway.rollouts(DENSE, policies.greedy, decisions=10, workers=0)
    mortal = drivers.Mortal(str(tmp_path), deaths, [])
    beside = highway.rollouts(DENSE, mortal, decisions=10, workers=2, progress=False)
    assert len(list(tmp_path.iterdir())) == deaths
    assert beside.scenarios == tuple(DENSE)
    same(alone, beside)


@needs_sumo
def test_an_episode_that_kills_every_process_is_given_up(tmp_path):
    mortal = drivers.Mortal(str(tmp_path), 99, [])
    with pytest.raises(SimulationFailed, match=r"3 processes died in that of Scenario.*code -9"):
        highway.rollouts(DENSE[:1], mortal, decisions=10, workers=1, progress=False)


@needs_sumo
def test_random_policies_are_drawn_alike_in_every_process():
    alone = highway.rollouts(DENSE[:2], policies.random, decisions=50, workers=0)
    beside = highway.rollouts(DENSE[:2], policies.random, decisions=50, workers=2)
    same(alone, beside)
    assert len(np.unique(alone.requested)) == 3


@needs_sumo
@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        (drivers.failing, ZeroDivisionError, "divides by zero"),
        (drivers.failing_oddly, SimulationFailed, "no such luck"),
    ],
)
def test_what_goes_wrong_in_a_process_is_told_here(policy, error, message):
    with pytest.raises(error, match=message) as told:
        highway.rollouts(DENSE, policy, decisions=2, workers=1)
    assert "drivers.py" in "".join([str(told.value), *getattr(told.value, "__notes__", [])])


def test_a_policy_that_cannot_be_sent_is_refused():
    with pytest.raises(
        InvalidInput, match=r"`policy` must be picklable.*Use a function of a module"
    ):
        highway.rollouts(DENSE, lambda states, safe: None)


def test_rollouts_say_what_is_wrong():
    with pytest.raises(InvalidInput, match="`scenarios` must hold at least one"):
        highway.rollouts([], policies.keep)
    with pytest.raises(InvalidInput, match="`scenarios` must be a `Scenario`; got 3"):
        highway.rollouts([3], policies.keep)
    with pytest.raises(InvalidInput, match="`workers` must be an integer from 0; got -1"):
        highway.rollouts(DENSE, policies.keep, workers=-1)


PROGRAM = """
import sys
import drivers
from drivers import Road, positions
from inverseq.worlds import highway

if __name__ == "__main__":
    scenarios = highway.training_scenarios(10_000, "T2", seed=0)
    highway.rollouts(scenarios, drivers.Telling(sys.argv[1]), progress=False)
"""


@needs_sumo
@pytest.mark.skipif(os.name != "posix", reason="processes are told otherwise here")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_no_process_is_left_behind(tmp_path, sent):
    script, told = tmp_path / "drive.py", tmp_path / "told"
    script.write_text(PROGRAM)
    parent = subprocess.Popen(
        [sys.executable, str(script), str(told)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until(told.exists)
    if sent == signal.SIGINT:
        os.killpg(parent.pid, sent)  # as a terminal does: to everybody
    else:
        parent.kill()
    errors = parent.communicate(timeout=60)[1]
    assert parent.returncode in (-sent, 130)
    assert errors.count("KeyboardInterrupt") == (sent == signal.SIGINT)
    until(lambda: not alive(parent.pid))


def alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def until(holds, patience=60):
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
