// Numbers, times and keys as text.

export function number(n) {
	return Math.round(n).toLocaleString("en-US");
}

// short is for axes and narrow places.
export function short(n) {
	if (n >= 1e6) return trim(n / 1e6) + "M";
	if (n >= 1e4) return trim(n / 1e3) + "k";
	return number(n);
}

function trim(n) {
	return String(Math.round(n * 10) / 10);
}

// percent formats a share as the program does elsewhere: what is not 0 or 100 % never looks as if it were.
export function percent(part, whole) {
	if (!(whole > 0) || part <= 0) return "0\u00a0%";
	if (part >= whole) return "100\u00a0%";
	const p = (100 * part) / whole;
	if (p < 0.01) return "<\u00a00.01\u00a0%";
	if (p > 99.9) return ">\u00a099.9\u00a0%";
	return p.toFixed(p < 0.095 ? 2 : 1) + "\u00a0%";
}

export function count(n, one, many = one + "s") {
	return number(n) + " " + (n === 1 ? one : many);
}

const units = [[86400e3, "d"], [3600e3, "h"], [60e3, "m"], [1e3, "s"]];

// span formats a duration in its two largest units; less than ten seconds with a tenth.
export function span(ms) {
	if (ms < 9950) return Math.max(0, ms / 1000).toFixed(1) + "s";
	ms = Math.round(ms / 1000) * 1000;
	for (let i = 0; i < units.length; i++) {
		if (ms < units[i][0]) continue;
		const rest = i + 1 < units.length ? Math.floor((ms % units[i][0]) / units[i + 1][0]) : 0;
		return Math.floor(ms / units[i][0]) + units[i][1] + (rest > 0 ? " " + rest + units[i + 1][1] : "");
	}
	return "0s";
}

// milliseconds formats a latency.
export function milliseconds(ms) {
	return ms < 10 ? ms.toFixed(1) + " ms" : number(ms) + " ms";
}

const hours = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };

// time formats a time of day, in the operator's own time zone.
export function time(at) {
	return new Date(at).toLocaleTimeString([], hours);
}

const whole = { day: "numeric", month: "short", year: "numeric", ...hours, timeZoneName: "short" };

// moment formats a time with its date and zone, for what is kept or told to others.
export function moment(text) {
	const at = new Date(text);
	return Number.isNaN(at.getTime()) ? String(text) : at.toLocaleString("en-GB", whole);
}

// clock formats a time of today, and the date too on another day, in the operator's own time zone.
export function clock(text) {
	const at = new Date(text);
	if (Number.isNaN(at.getTime())) return String(text);
	if (at.toDateString() === new Date().toDateString()) return time(at);
	return at.toLocaleDateString([], { day: "numeric", month: "short", year: "numeric" }) + ", " + time(at);
}

// visible shows every character of a text: those that are unprintable, or that change the direction of writing, are escaped as in Go.
// The middle of a long text is cut out, since keys tend to differ at their ends.
export function visible(text, width = 64) {
	text = String(text);
	if (text === "") return '""';
	let characters = Array.from(text.length > 20 * width ? text.slice(0, 8 * width) + "\u2026" + text.slice(-8 * width) : text, escape);
	const length = characters.reduce((sum, c) => sum + c.length, 0);
	if (length <= width) return characters.join("");
	return take(characters, width / 2) + "\u2026" + take(characters.reverse(), width / 2, true);
}

function take(characters, width, reversed) {
	const taken = [];
	for (const c of characters) {
		if ((width -= c.length) < 0) break;
		taken.push(c);
	}
	return (reversed ? taken.reverse() : taken).join("");
}

function escape(c) {
	if (c === " " || !/[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]/u.test(c)) return c;
	const point = c.codePointAt(0);
	const named = { 7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r" }[point];
	if (named) return named;
	if (point < 0x80) return "\\x" + point.toString(16).padStart(2, "0");
	return point < 0x10000 ? "\\u" + point.toString(16).padStart(4, "0") : "\\U" + point.toString(16).padStart(8, "0");
}

// tag is the beginning of the ID of a key, since masks may look alike.
export function tag(key) {
	return key.id ? " #" + visible(key.id, 16).slice(0, 4) : "";
}

// masked returns what is shown of a key that is masked.
export function masked(key) {
	return visible(key.masked, 32) + tag(key);
}

const reasons = {
	limits: "a limit", block_list: "a block list", ruling: "a ruling", penalty: "the penalty", failure: "the failure mode", never: "a cost above the quota",
	other: "other causes",
};

// by is one cause of refusals, in words.
export function by(one) {
	if (!one.by) return "";
	return one.by === "limits" && one.limit ? visible(one.limit, 48) : (reasons[one.by] ?? visible(one.by, 48));
}

// causes is all that refused a key, what refused it most first.
export function causes(key) {
	const all = key.causes?.length ? key.causes : key.by ? [key] : [];
	return all.map((one) => by(one) + (one.shadow ? " in shadow" : "") + (all.length > 1 || one.shadow ? " (" + number(one.refused) + ")" : "")).join(", ");
}

// counts returns how many requests of a key were refused, and how many admitted: also those that shadow mode would have refused.
export function counts(key) {
	const shadow = key.shadow_refused || 0;
	return { refused: key.refused - shadow, admitted: key.admitted + shadow };
}
