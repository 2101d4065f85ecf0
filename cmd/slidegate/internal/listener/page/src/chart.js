// Draws the last hour: bars of what was admitted and refused, narrow bars within them for what was decided without the store, and a line for
// what shadow mode would have refused.
import uPlot from "../uplot/uPlot.esm.js";
import { h, write } from "./dom.js";
import { hour } from "./sums.js";
import { number, percent, short, time } from "./words.js";

export const shown = [
	{ name: "admitted", label: "Admitted" },
	{ name: "refused", label: "Refused" },
	{ name: "shadow_refused", label: "Refused in shadow" },
	{ name: "without_store", label: "Without the store" },
];

// whole are the distances of the axis of counts.
const whole = Array.from({ length: 12 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat();

let plot, box, tip, minutes = [];
const hidden = new Set();

// start prepares the chart, which is drawn at the first update.
export function start() {
	box = document.getElementById("hour");
	tip = h(".tip.floating", { hidden: true });
	document.getElementById("legend").append(...shown.map(({ name, label }) => h("button", {
		type: "button", "aria-pressed": "true", "data-series": name,
		onclick: (event) => {
			const off = !hidden.delete(name);
			if (off) hidden.add(name);
			event.currentTarget.setAttribute("aria-pressed", String(!off));
			redraw();
		},
	}, h("i.swatch." + name), label)));
	new ResizeObserver(() => plot && (plot.width !== box.clientWidth || plot.height !== box.clientHeight) && redraw()).observe(box);
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

// update shows the last hour of policies.
export function update(policies, now) {
	minutes = hour(policies, now);
	if (!plot) redraw();
	else plot.setData(columns());
	const sums = shown.map(({ name, label }) => label.toLowerCase() + " " + number(minutes.reduce((sum, one) => sum + one[name], 0)));
	box.setAttribute("role", "img");
	box.setAttribute("aria-label", "Requests per minute in the last 60 minutes: " + sums.join(", "));
}

// columns returns the data as uPlot takes it. The bar behind is as high as both, and that of what was admitted covers its lower part.
function columns() {
	const value = (name) => (one) => (hidden.has(name) ? 0 : one[name]);
	const present = (name) => minutes.map((one) => value(name)(one) || null);
	const admitted = minutes.map(value("admitted")), shadow = present("shadow_refused");
	return [minutes.map((one) => one.at / 1000), minutes.map((one, i) => admitted[i] + value("refused")(one)), admitted, present("without_store"), shadow, shadow];
}

// redraw makes the chart again, in the colours and the size that hold now.
export function redraw() {
	if (!minutes.length || !box.clientWidth) return;
	plot?.destroy();
	const css = getComputedStyle(document.documentElement), colour = (name) => css.getPropertyValue("--" + name).trim();
	const font = "12px " + getComputedStyle(document.body).fontFamily;
	const bars = (share, most) => uPlot.paths.bars({ size: [share, most] });
	const axis = { stroke: colour("faint"), font, ticks: { show: false }, grid: { stroke: colour("line"), width: 1 } };
	plot = new uPlot({
		width: box.clientWidth, height: box.clientHeight, padding: [10, 22, 0, 0], legend: { show: false },
		cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
		scales: {
			x: { time: true, range: (_, from, to) => [from - 30, to + 30] },
			y: { range: (_, __, to) => [0, Math.max(4, to * 1.08)] },
		},
		axes: [
			{ ...axis, grid: { show: false }, size: 26, space: 64, values: (_, ticks) => ticks.map((seconds) => time(seconds * 1000)) },
			{ ...axis, size: (_, labels) => 12 + 7 * Math.max(1, ...(labels ?? []).map((label) => label.length)), space: 44, incrs: whole, values: (_, ticks) => ticks.map(short) },
		],
		series: [
			{},
			{ stroke: null, fill: () => stripes(colour("refused"), colour("card")), paths: bars(0.74, 26), points: { show: false } },
			{ stroke: null, fill: colour("admitted"), paths: bars(0.74, 26), points: { show: false } },
			{ stroke: null, fill: colour("ink"), paths: bars(0.34, 12), points: { show: false } },
			{ stroke: colour("card"), width: 4.5, points: { show: false } }, // sets the line off the bars behind it
			{ stroke: colour("touched"), width: 2.5, dash: [6, 3], points: { show: false } },
		],
		hooks: { setCursor: [point] },
	}, columns(), box);
	plot.over.append(tip);
	tip.hidden = true;
}

// stripes are how refused requests look everywhere, so that colours are not needed to tell them apart.
function stripes(colour, ground) {
	const size = 7, tile = h("canvas", { width: size, height: size }), pen = tile.getContext("2d");
	pen.fillStyle = colour;
	pen.fillRect(0, 0, size, size);
	pen.strokeStyle = ground;
	pen.globalAlpha = 0.45;
	pen.lineWidth = 2;
	for (const x of [-size, 0, size]) {
		pen.beginPath();
		pen.moveTo(x - 1, size + 1);
		pen.lineTo(x + size + 1, -1);
		pen.stroke();
	}
	return pen.createPattern(tile, "repeat");
}

// point shows the numbers of the minute under the pointer.
function point(plot) {
	const { idx, left } = plot.cursor, one = minutes[idx];
	tip.hidden = !one || left < 0;
	if (tip.hidden) return;
	tip.replaceChildren(h("b", {}, time(one.at)), ...shown.map(({ name, label }) => row(label, number(one[name]))),
		row("Share refused", percent(one.refused, one.admitted + one.refused)));
	const right = left > plot.over.clientWidth / 2;
	tip.style.left = right ? "" : left + 14 + "px";
	tip.style.right = right ? plot.over.clientWidth - left + 14 + "px" : "";
}

function row(label, value) {
	const line = h("div", {}, h("span", {}, label), h("span"));
	write(line.lastChild, value);
	return line;
}
