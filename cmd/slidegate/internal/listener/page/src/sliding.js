// Draws one limit as it is stored. Above, the units that count, each at its time; the window slides over them to the right, so they move to
// its left edge. Below, at the same scale, the units that are free: what reaches the left edge above becomes free below.
import { h, set, svg, write } from "./dom.js";
import { count, number, span, visible } from "./words.js";

const columns = 150, high = 60;

// micros returns a time of a document in microseconds; it may be a number or text.
export function micros(time) {
	return typeof time === "number" ? time : Date.parse(time) * 1000;
}

// most is how many units can be free: of a token bucket its burst, otherwise the quota.
function most(limit) {
	return limit.capacity ?? limit.quota;
}

// arrange returns what is drawn of a limit at a time: places are parts of the width, and heights parts of the height.
export function arrange(limit, now) {
	const window = limit.window_us || 1;
	const units = (limit.units ?? []).map((one) => ({ units: one.counts ?? one.units, from: micros(one.from), to: micros(one.to), frees: micros(one.frees) })).filter((one) => one.frees > now);
	const holds = (limit.holds ?? []).map((one) => ({ units: one.units, frees: micros(one.ends) })).filter((one) => one.frees > now);
	// Holds may last for many windows: those are named below the drawing.
	const width = Math.max(window, ...units.map((one) => one.frees - now), ...holds.map((one) => Math.min(one.frees - now, 4 * window)));
	const place = (time) => Math.min(1, Math.max(0, (time - now + window) / width));
	const frees = [...units, ...holds].sort((a, b) => a.frees - b.frees), free = freeAt(limit, frees, now);
	const drawn = bars(units, place, window / width);
	return { bars: drawn, highest: Math.max(0, ...drawn.map((bar) => bar.units)), steps: steps(limit, frees, free, now, width), next: next(limit, frees, now), now: window / width, free, width };
}

// freeAt returns how many units are free: more and more after the answer.
function freeAt(limit, frees, now) {
	const counted = frees.reduce((sum, one) => sum + one.units, 0);
	if (limit.form !== "bucket") return Math.max(limit.remaining, most(limit) - counted);
	const full = frees.at(-1)?.frees ?? now, answered = micros(limit.now);
	return full <= now ? most(limit) : Math.max(limit.remaining, Math.floor(most(limit) - ((most(limit) - limit.remaining) * (full - now)) / (full - answered)));
}

// bars returns rectangles: of each part, and of columns of stamps.
function bars(units, place, end) {
	const stamps = new Map(), all = [];
	for (const one of units) {
		if (one.to > one.from) {
			const from = place(one.from), to = Math.max(from + 1 / columns, Math.min(end, place(one.to)));
			all.push({ from, to, units: one.units, frees: one.frees });
			continue;
		}
		const column = Math.min(columns - 1, Math.floor(place(one.from) * columns));
		const there = stamps.get(column);
		if (there) there.units += one.units;
		else stamps.set(column, { from: column / columns, to: (column + 0.75) / columns, units: one.units, frees: one.frees });
	}
	all.push(...stamps.values());
	const highest = Math.max(1, ...all.map((bar) => bar.units));
	return all.filter((bar) => bar.units > 0).map((bar) => ({ ...bar, height: Math.max(0.06, bar.units / highest) }));
}

// steps returns how many units are free from now on: places and shares of the quota. A bucket fills continuously.
function steps(limit, frees, free, now, width) {
	const quota = Math.max(1, most(limit)), share = (free) => Math.min(1, Math.max(0, free / quota));
	let counted = frees.reduce((sum, one) => sum + one.units, 0);
	const points = [[0, share(free)]];
	for (const one of frees) {
		const at = (one.frees - now) / width;
		if (at > 1) break;
		if (limit.form !== "bucket") points.push([at, share(free)]);
		counted -= one.units;
		free = Math.max(free, quota - counted);
		points.push([at, share(free)]);
	}
	points.push([1, share(free)]);
	return points;
}

// next returns what becomes free when: the first times, neighbors together, and when all is free.
function next(limit, frees, now) {
	const together = (limit.window_us || 1) / 40, groups = [];
	for (const one of frees) {
		if (one.units <= 0) continue;
		const last = groups.at(-1);
		if (last && one.frees - last.from <= together) {
			last.units += one.units;
			last.frees = one.frees;
		} else groups.push({ from: one.frees, frees: one.frees, units: one.units });
	}
	return groups.map((group) => ({ units: group.units, after: (group.frees - now) / 1000 }));
}

// make returns the drawing of a limit.
export function make() {
	const drawing = svg("svg", { class: "sliding", viewBox: `0 0 1000 ${2 * high + 18}`, preserveAspectRatio: "none", role: "img" },
		svg("rect", { class: "window", y: 0, height: high }), svg("path", { class: "units" }), svg("path", { class: "soon" }),
		svg("path", { class: "edge" }),
		svg("path", { class: "free" }), svg("path", { class: "freeline" }), svg("path", { class: "quotaline", d: `M0 ${high + 18.75}H1000` }));
	return h("section.limit", {},
		h("div.limithead", {}, h("h3", {}, h("bdi")), h("span.limitstate")),
		h("p.sub.limitsub"),
		h("div.drawing", {}, h("div.axis", {}, h("span"), h("span.axisname"), h("span.nowlabel")), drawing,
			h("div.axis", {}, h("span", {}, "now"), h("span.axisname"), h("span"))),
		h("p.details.barkey"),
		h("ul.next"), h("ul.next.holds"));
}

// update shows a limit at a time.
export function update(element, limit, now) {
	const at = arrange(limit, now), slots = limit.form === "slots", bucket = limit.form === "bucket", part = (name) => element.querySelector(name);
	const wait = limit.retry_after_us == null || limit.retry_after_us < 0 ? null : Math.max(0, limit.retry_after_us - (now - micros(limit.now))) / 1000;
	write(part("h3 bdi"), visible(limit.text, 60));
	write(part(".limitstate"), number(at.free) + " of " + number(most(limit)) + " free");
	element.classList.toggle("refusing", at.free <= 0);
	write(part(".limitsub"), [limit.name && visible(limit.name, 40), limit.algorithm === "default" ? "hard cap" : visible(limit.algorithm ?? "", 40), at.free > 0 ? "admits now" :
		wait == null ? "never admits" : wait > 0 ? "admits again in " + span(wait) + (slots ? " at the latest" : "") : "admits again"].filter((text) => text && text !== '""').join(" \u00b7 "));
	draw(element.querySelector("svg"), at);
	const [top, name, nowLabel] = element.querySelectorAll(".axis:first-child span"), bottom = element.querySelector(".axis:last-child span:last-child");
	element.classList.toggle("bucket", bucket);
	element.querySelector(".axis").hidden = bucket; // it keeps no times
	set(element.querySelector("svg"), { viewBox: bucket ? `0 ${high + 16} 1000 ${high + 2}` : `0 0 1000 ${2 * high + 18}` });
	write(top, "\u2212" + span(limit.window_us / 1000));
	write(nowLabel, "now");
	nowLabel.style.right = 100 * (1 - at.now) + "%";
	name.hidden = at.now < 0.75;
	write(name, slots ? "slots by when they were taken or renewed" : "counts in the window");
	write(part(".barkey"), bucket || !at.highest ? "" : `The highest bar is ${count(at.highest, slots ? "slot" : "unit")}. ` + (slots ? "Green ends first, unless it is renewed or released." : "Green becomes free first."));
	write(element.querySelector(".axis:last-child .axisname"), "free, of " + number(most(limit)));
	write(bottom, "+" + span(at.width / 1000));
	list(part(".next"), soon(limit, at.next));
	list(part(".holds"), (limit.holds ?? []).filter((one) => micros(one.ends) > now).slice(0, 5).map((one) =>
		["held", number(one.units), "until " + span((micros(one.ends) - now) / 1000) + " from now, by " + visible(one.id ?? "", 24)]));
	set(element.querySelector("svg"), { "aria-label": spoken(limit) });
}

// spoken changes only when the document does, so that a screen reader is not interrupted.
function spoken(limit) {
	const now = micros(limit.now), groups = arrange(limit, now).next;
	return `${number(limit.used)} of ${number(most(limit))} units count.` + groups.slice(0, 3).map((one) => ` ${number(one.units)} free in ${span(one.after)}.`).join("");
}

function soon(limit, groups) {
	if (!groups.length) return [];
	if (limit.form === "slots") return groups.slice(0, 3).map((one) => ["free", "+" + number(one.units), "in " + span(one.after) + " at the latest, unless renewed"]);
	if (limit.form === "bucket") return [["free", number(most(limit)), "in " + span(groups.at(-1).after) + ", filling all the time"]];
	const lines = groups.slice(0, 3).map((one) => ["free", "+" + number(one.units), "in " + span(one.after)]);
	if (groups.length > 3) lines.push(["free", "all " + number(most(limit)), "in " + span(groups.at(-1).after)]);
	return lines;
}

function list(element, rows) {
	while (element.children.length > rows.length) element.lastChild.remove();
	rows.forEach(([kind, amount, text], i) => {
		const line = element.children[i] ?? element.appendChild(h("li", {}, h("b"), " ", h("span")));
		line.className = kind;
		write(line.firstChild, amount);
		write(line.lastChild, text);
	});
}

function draw(drawing, { bars, steps, now }) {
	const path = (chosen) => chosen.map((bar) => {
		const x = 1000 * bar.from, y = high * bar.height;
		return `M${x.toFixed(1)} ${high}v${-y.toFixed(1)}H${(1000 * bar.to).toFixed(1)}V${high}z`;
	}).join("") || null;
	const first = Math.min(...bars.map((bar) => bar.frees));
	set(drawing.querySelector(".window"), { x: 0, width: 1000 * now });
	set(drawing.querySelector(".units"), { d: path(bars.filter((bar) => bar.frees > first)) });
	set(drawing.querySelector(".soon"), { d: path(bars.filter((bar) => bar.frees === first)) });
	set(drawing.querySelector(".edge"), { d: `M0 0V${2 * high + 18}` + (now < 1 ? `M${1000 * now} 0V${high}` : "") });
	const base = 2 * high + 18, line = steps.map(([x, y], i) => `${i ? "L" : "M"}${(1000 * x).toFixed(1)} ${(base - (high - 0.75) * y).toFixed(1)}`).join("");
	set(drawing.querySelector(".freeline"), { d: line });
	set(drawing.querySelector(".free"), { d: `${line}V${base}H0z` });
}
