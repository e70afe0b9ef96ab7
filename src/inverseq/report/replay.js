"use strict";

// Times are seconds since the first decision, lengths metres along the ring, speeds m/s.
const { traces, colours, speeds } = JSON.parse(document.getElementById("data").textContent);
const { meta } = traces[0];
const { track_m: RING, lanes: LANES, dt_s: FRAME } = meta;
const DECISION = FRAME * meta.action_every;
const LAST = traces[0].frames.length - 1;
const END = LAST * FRAME;
const NARROW = 420; // pixels of a canvas below which less of the road is shown, and larger
const EASE = 0.25; // seconds between the lanes of which a change of lanes is the mean

const one = (selector, inside = document) => inside.querySelector(selector);
const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
const within = (low, value, high) => Math.min(Math.max(value, low), high);
const around = (metres) => ((((metres + RING / 2) % RING) + RING) % RING) - RING / 2;
const decisionAt = (time) => Math.min(Math.floor(time / DECISION + 1e-9), traces[0].steps.length - 1);
const calm = matchMedia("(prefers-reduced-motion: reduce)");

// -- what is where ------------------------------------------------------------------------------

function between(time) {
  const place = within(0, time / FRAME, LAST);
  const k = Math.min(Math.floor(place), LAST - 1);
  return [k, place - k];
}

function laneOf(frames, i, time) {
  const [k, share] = between(time);
  const from = Number(frames[k][1][i]);
  return from + share * (Number(frames[k + 1][1][i]) - from);
}

// All vehicles, the ego first: metres ahead of the ego, place on the ring, lane, speed.
function scene({ frames }, time) {
  const [k, share] = between(time);
  const [here, next] = [frames[k], frames[k + 1]];
  const cars = here[0].map((x, i) => {
    const place = x / 10 + share * around((next[0][i] - x) / 10);
    const speed = (here[2][i] + share * (next[2][i] - here[2][i])) / 10;
    const moments = calm.matches ? [time] : [time, time - EASE, time - 2 * EASE];
    const lane = moments.reduce((sum, moment) => sum + laneOf(frames, i, moment), 0) / moments.length;
    return { place, lane, speed, length: meta.vehicles[i].len };
  });
  for (const car of cars) car.ahead = around(car.place - cars[0].place);
  return cars;
}

function colourOf(speed) {
  const share = within(0, (speed - speeds[0]) / (speeds[1] - speeds[0]), 1);
  return colours[Math.round(share * (colours.length - 1))];
}

// -- the canvas of a policy ---------------------------------------------------------------------

let theme = {};

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["paper", "ink", "soft", "road", "stripe", "outline", "link", "hatch"]) {
    theme[name] = style.getPropertyValue(`--${name}`).trim();
  }
  theme.font = `11px ${style.fontFamily}`;
}

function layout(canvas) {
  const width = canvas.clientWidth;
  const lane = within(22, width / 20, 30);
  const strip = LANES * lane;
  const thin = 9;
  const ring = strip + 46;
  return { width, lane, strip, thin, ring, height: ring + LANES * thin + 2, view: width < NARROW ? 70 : 100 };
}

function prepare(canvas) {
  const at = layout(canvas);
  const scale = devicePixelRatio || 1;
  const [width, height] = [Math.round(at.width * scale), Math.round(at.height * scale)];
  if (canvas.width !== width || canvas.height !== height) {
    canvas.style.height = `${at.height}px`;
    canvas.width = width;
    canvas.height = height;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, at.width, at.height);
  pen.font = theme.font;
  return [pen, at];
}

function draw(policy, time) {
  const [pen, at] = prepare(policy.canvas);
  if (at.width === 0) return;
  const cars = scene(policy.trace, time);
  drawStrip(pen, at, policy.trace, time, cars);
  drawRing(pen, at, cars);
}

function drawStrip(pen, at, trace, time, cars) {
  const x = (metres) => at.width / 2 + (metres / (2 * at.view)) * at.width;
  const y = (lane) => (LANES - 0.5 - lane) * at.lane;
  pen.save();
  pen.beginPath();
  pen.roundRect(0, 0, at.width, at.strip, 6);
  pen.clip();
  pen.fillStyle = theme.road;
  pen.fillRect(0, 0, at.width, at.strip);
  drawLines(pen, at, x, cars[0].place);
  drawChoices(pen, at, x, y, trace, time);
  for (const car of cars.toReversed()) {
    if (Math.abs(car.ahead) < at.view + car.length) {
      drawCar(pen, x(car.ahead - car.length), y(car.lane), x(car.length) - x(0), at.lane, car, car === cars[0]);
    }
  }
  // What lies beyond the range of sight is there, and the policy does not know it.
  pen.globalAlpha = 0.62;
  pen.fillStyle = theme.paper;
  pen.fillRect(0, 0, x(-meta.sight_m), at.strip);
  pen.fillRect(x(meta.sight_m), 0, at.width, at.strip);
  pen.restore();

  pen.fillStyle = theme.soft;
  pen.textBaseline = "top";
  pen.textAlign = "center";
  for (let metres = -80; metres <= 80; metres += 40) {
    if (Math.abs(metres) >= at.view) continue;
    pen.fillRect(x(metres) - 0.5, at.strip + 2, 1, 4);
    pen.fillText(metres ? `${metres > 0 ? "+" : "−"}${Math.abs(metres)} m` : "0", x(metres), at.strip + 9);
  }
}

function drawLines(pen, at, x, place) {
  pen.strokeStyle = theme.stripe;
  pen.lineWidth = 1.2;
  const metre = x(1) - x(0);
  pen.setLineDash([4 * metre, 6 * metre]);
  pen.lineDashOffset = ((place - at.view) % 10) * metre; // they lie still while the ego drives
  for (let lane = 1; lane < LANES; lane++) {
    pen.beginPath();
    pen.moveTo(0, lane * at.lane);
    pen.lineTo(at.width, lane * at.lane);
    pen.stroke();
  }
  pen.setLineDash([]);
}

// A cell beside the ego for each action: tinted if it is allowed, hatched if not, framed if chosen.
function drawChoices(pen, at, x, y, trace, time) {
  const k = decisionAt(time);
  const step = trace.steps[k];
  const lane = Number(trace.frames[k * meta.action_every][1][0]);
  const left = x(-13);
  const width = x(8) - left;
  const cells = meta.to_the_left.map((by, action) => ({ action, lane: lane + by }));
  for (const cell of cells.filter((cell) => cell.lane >= 0 && cell.lane < LANES)) {
    const top = y(cell.lane) - at.lane / 2 + 2;
    pen.beginPath();
    pen.roundRect(left, top, width, at.lane - 4, 4);
    if (step.safe_kr[cell.action]) {
      pen.globalAlpha = 0.22;
      pen.fillStyle = theme.link;
      pen.fill();
      pen.globalAlpha = 1;
    } else {
      hatch(pen, left, top, width, at.lane - 4);
    }
    if (cell.action === step.a) {
      pen.beginPath();
      pen.roundRect(left, top, width, at.lane - 4, 4);
      pen.strokeStyle = theme.link;
      pen.lineWidth = 1.8;
      pen.stroke();
    }
  }
}

function hatch(pen, left, top, width, height) {
  pen.save();
  pen.clip();
  pen.strokeStyle = theme.hatch;
  pen.lineWidth = 2;
  pen.beginPath();
  for (let at = left - height; at < left + width; at += 6) {
    pen.moveTo(at, top + height);
    pen.lineTo(at + height, top);
  }
  pen.stroke();
  pen.restore();
}

function drawCar(pen, left, middle, length, lane, car, ego) {
  const height = 0.5 * lane;
  const radius = Math.min(3.5, 0.3 * height);
  const body = (by) => {
    pen.beginPath();
    pen.roundRect(left - by, middle - height / 2 - by, length + 2 * by, height + 2 * by, radius + by);
  };
  if (ego) {
    pen.fillStyle = theme.ink;
    body(3.4);
    pen.fill();
    pen.fillStyle = theme.paper;
    body(1.6);
    pen.fill();
  } else {
    pen.fillStyle = theme.outline;
    body(0.9);
    pen.fill();
  }
  pen.fillStyle = colourOf(car.speed);
  body(0);
  pen.fill();
  if (length > 9) {
    pen.fillStyle = "rgb(0 0 0 / 0.42)"; // the windscreen says where the front is
    pen.beginPath();
    pen.roundRect(left + 0.62 * length, middle - 0.34 * height, 0.16 * length, 0.68 * height, 1);
    pen.fill();
  }
}

function drawRing(pen, at, cars) {
  const x = (metres) => (metres / RING) * at.width;
  const y = (lane) => at.ring + (LANES - 0.5 - lane) * at.thin;
  pen.fillStyle = theme.soft;
  pen.textBaseline = "bottom";
  pen.textAlign = "left";
  pen.fillText("the whole ring, unrolled", 0, at.ring - 4);
  pen.textAlign = "right";
  pen.fillText(`${RING} m`, at.width, at.ring - 4);
  pen.fillStyle = theme.road;
  pen.beginPath();
  pen.roundRect(0, at.ring, at.width, LANES * at.thin, 3);
  pen.fill();
  const ego = ((cars[0].place % RING) + RING) % RING;
  pen.save();
  pen.clip();
  pen.globalAlpha = 0.2;
  pen.fillStyle = theme.link;
  for (const turn of [-RING, 0, RING]) {
    pen.fillRect(x(ego + turn - at.view), at.ring, x(2 * at.view), LANES * at.thin);
  }
  pen.restore();
  const long = Math.max(x(5), 3.4);
  for (const car of cars.toReversed()) {
    const mine = car === cars[0];
    const left = within(1, x(((car.place % RING) + RING) % RING) - long, at.width - long - 1);
    const layers = [
      ...(mine ? [[2.8, theme.ink], [1.2, theme.paper]] : [[0.6, theme.outline]]),
      [0, colourOf(car.speed)],
    ];
    for (const [by, colour] of layers) {
      pen.fillStyle = colour;
      pen.beginPath();
      pen.roundRect(left - by, y(car.lane) - 2.2 - by, long + 2 * by, 4.4 + 2 * by, 1 + by);
      pen.fill();
    }
  }
}

// -- what is said of a policy -------------------------------------------------------------------

const policies = all(".drive").map((panel, i) => {
  const trace = traces[i];
  const { steps, frames } = trace;
  const sums = { mean: [null], changes: [0], keepRight: [0], unsafe: [0], collisions: [0] };
  let speed = 0;
  steps.forEach((step, k) => {
    speed += frames[(k + 1) * meta.action_every][2][0] / 10;
    sums.mean.push(speed / (k + 1));
    sums.changes.push(sums.changes[k] + (step.executed !== 0));
    sums.keepRight.push(sums.keepRight[k] + step.keep_right);
    sums.unsafe.push(sums.unsafe[k] + step.unsafe);
    sums.collisions.push(sums.collisions[k] + step.collision);
  });
  // Values differ more from state to state than from action to action: bars compare actions.
  const worst = steps
    .filter((step) => step.q && step.q[step.a] !== null)
    .map((step) => step.q[step.a] - Math.min(...step.q.filter((value) => value !== null)))
    .filter((less) => less > 0)
    .sort((a, b) => a - b);
  const spread = worst[Math.floor(0.9 * (worst.length - 1))] || 1;
  return { panel, trace, sums, spread, canvas: one("canvas", panel), shown: {}, decision: null };
});

function say(policy, name, text) {
  if (policy.shown[name] === text) return;
  policy.shown[name] = text;
  one(`[data-is="${name}"]`, policy.panel).textContent = text;
}

function tell(policy, time) {
  const { trace, sums } = policy;
  const k = decisionAt(time);
  const done = Math.floor(time / DECISION + 1e-9);
  const [frame, share] = between(time);
  const speed = [0, 1].map((i) => trace.frames[frame + i][2][0] / 10);
  say(policy, "speed", (speed[0] + share * (speed[1] - speed[0])).toFixed(1));
  say(policy, "mean", done ? sums.mean[done].toFixed(1) : "–");
  if (policy.decision === k) return;
  policy.decision = k;
  say(policy, "changes", String(sums.changes[k + 1]));
  const [right, unsafe, collisions] = [sums.keepRight, sums.unsafe, sums.collisions].map((sum) => sum[k + 1]);
  say(policy, "breaches", String(right + unsafe + collisions));
  say(policy, "kinds", `keep\u00a0right\u00a0${right}, unsafe\u00a0${unsafe}, collisions\u00a0${collisions}`);
  const step = trace.steps[k];
  const broken = step.keep_right || step.unsafe || step.collision;
  one('[data-is="breaches"]', policy.panel).classList.toggle("broken", broken);
  all("[data-action]", policy.panel).forEach((row) => tellAction(row, step, policy.spread));
  policy.canvas.setAttribute("aria-label", inWords(trace, k));
}

function tellAction(row, step, spread) {
  const action = Number(row.dataset.action);
  const chosen = action === step.a;
  const allowed = step.safe_kr[action];
  row.classList.toggle("chosen", chosen);
  row.classList.toggle("forbidden", !allowed);
  const words = [!step.safe[action] ? "not safe" : !allowed ? "against keep right" : "allowed"];
  if (chosen) words.unshift(step.executed === action ? "chosen" : "asked for, not done");
  one(".verdict", row).textContent = words.filter((word) => !chosen || word !== "allowed").join(", ");
  const value = step.q ? step.q[action] : null;
  one(".value", row).textContent = value === null ? "" : short(value);
  const share = value === null ? 0 : within(0.02, 1 - (step.q[step.a] - value) / spread, 1);
  one(".bar span", row).style.width = `${100 * share}%`;
}

// As many digits as there is room for.
function short(value) {
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.max(Math.abs(value), 10)) - 1));
  return value.toFixed(digits).replace("-", "−");
}

function inWords(trace, k) {
  const frame = trace.frames[k * meta.action_every];
  const step = trace.steps[k];
  const near = frame[0].filter((x) => Math.abs(around((x - frame[0][0]) / 10)) <= meta.sight_m).length - 1;
  const allowed = meta.actions.filter((_, action) => step.safe_kr[action]);
  return (
    `The road around the car, and the whole ring below. At ${k * DECISION} s it drives ` +
    `${(frame[2][0] / 10).toFixed(1)} m/s in lane ${frame[1][0]} with ${near} others in sight; ` +
    `allowed: ${allowed.join(", ")}; chosen: ${meta.actions[step.a]}.`
  );
}

// -- time ---------------------------------------------------------------------------------------

const [play, slider, clock] = ["play", "slider", "clock"].map((id) => document.getElementById(id));
const chart = one(".plot");
const cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
cursor.setAttribute("class", "cursor");
one("svg.chart").append(cursor);
let now = 0;
let playing = false;
let before = null; // when the last picture was drawn, while playing
const pace = () => Number(one('input[name="pace"]:checked').value);
const minutes = (time) => `${Math.floor(time / 60)}:${String(Math.floor(time % 60)).padStart(2, "0")}`;

function show() {
  // Who asked for less motion sees the moments that were recorded, and nothing between them.
  const time = calm.matches ? Math.floor(now / FRAME + 1e-9) * FRAME : now;
  for (const policy of policies) {
    draw(policy, time);
    tell(policy, time);
  }
  slider.value = time;
  const text = `${minutes(time)} / ${minutes(END)}`;
  if (clock.textContent !== text) {
    clock.textContent = text;
    slider.setAttribute("aria-valuetext", `${Math.floor(time)} of ${END} seconds`);
  }
  const { from, to, top, bottom } = chart.dataset;
  const x = Number(from) + (time / END) * (to - from);
  cursor.setAttribute("d", `M${x.toFixed(1)} ${top}V${bottom}`);
}

function tick(moment) {
  if (!playing) return;
  if (before !== null) now = Math.min(now + (pace() * (moment - before)) / 1000, END);
  before = moment;
  if (now >= END) setPlaying(false);
  show();
  if (playing) requestAnimationFrame(tick);
}

function setPlaying(wanted) {
  if (wanted === playing) return;
  if (wanted && now >= END) now = 0;
  playing = wanted;
  before = null;
  one("span", play).textContent = playing ? "Pause" : "Play";
  play.classList.toggle("playing", playing);
  if (playing) requestAnimationFrame(tick);
}

function go(time) {
  now = within(0, time, END);
  show();
}

const KEYS = {
  " ": () => setPlaying(!playing),
  ArrowLeft: () => go((Math.ceil(now / DECISION - 1e-9) - 1) * DECISION),
  ArrowRight: () => go((Math.floor(now / DECISION + 1e-9) + 1) * DECISION),
  Home: () => go(0),
  End: () => go(END),
};

addEventListener("keydown", (event) => {
  const { target } = event;
  if (event.altKey || event.ctrlKey || event.metaKey || !(event.key in KEYS)) return;
  // A button is pressed by the space bar anyway, and arrows choose among the speeds.
  if (event.key === " " && target.closest("button, summary")) return;
  if (event.key !== " " && target.closest('input[type="radio"]')) return;
  event.preventDefault();
  KEYS[event.key]();
});
play.addEventListener("click", () => setPlaying(!playing));
slider.addEventListener("input", () => go(Number(slider.value)));
one("svg.chart").addEventListener("pointerdown", (event) => {
  const box = event.currentTarget.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * event.currentTarget.viewBox.baseVal.width;
  const { from, to } = chart.dataset;
  go((END * (x - from)) / (to - from));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readTheme();
  show();
});
calm.addEventListener("change", show);
addEventListener("hashchange", openAt);
new ResizeObserver(show).observe(one(".drives"));

// An address may end in the seconds at which to begin: drive.html#t=42
function openAt() {
  const asked = /^#t=(\d+(\.\d+)?)$/.exec(location.hash);
  go(asked ? Number(asked[1]) : now);
}

readTheme();
openAt();
