// The headline, the figures and the banners: is it refusing, and does something need an operator?
import { h, keep, write } from "./dom.js";
import { total } from "./sums.js";
import { by, count, counts, masked, milliseconds, number, percent, visible } from "./words.js";

const at = (id) => document.getElementById(id);
const rangeWords = { 1: "the last minute", 5: "the last 5 minutes", 60: "the last hour" };

// update shows a document for a range of minutes and the chosen policies. It counts decisions: a request that two policies decide counts twice.
export function update(seen, policies, keys, minutes) {
	const sum = total(policies, seen.now, minutes), all = sum.admitted + sum.refused;
	const alive = seen.instances.filter((one) => one.alive), least = (n) => (seen.instances.length > 1 ? "\u2265\u00a0" : "") + number(n);
	write(at("headline"), all === 0 ? "No decisions" : sum.refused === 0 ? "Nothing is refused" : "Refusing " + percent(sum.refused, all));
	at("headline").classList.toggle("alarm", sum.refused > 0);
	write(at("verdict"), verdict(sum, all, keys, minutes));
	document.title = (sum.refused > 0 ? percent(sum.refused, all) + " refused" : "Slidegate") + " \u2013 " + count(alive.length, "instance");
	figures([
		["Admitted", least(sum.admitted), percent(sum.admitted, all) + " of decisions"],
		["Refused", least(sum.refused), percent(sum.refused, all) + " of decisions", sum.refused > 0],
		["Refused in shadow", least(sum.shadow_refused), "of the admitted"],
		["Without the store", least(sum.without_store), "by failure modes", sum.without_store > 0],
		["Slowest 99th percentile", slowest(alive), "of one decision"],
		["Leased", number(alive.reduce((n, one) => n + (one.leases_out || 0), 0)), "units not spent yet"],
	]);
	write(at("scope"), scope(seen, alive));
	banners(seen, alive);
}

function verdict(sum, all, keys, minutes) {
	if (all === 0) return "Nothing was decided in " + rangeWords[minutes] + ".";
	const range = number(all) + (all === 1 ? " decision in " : " decisions in ") + rangeWords[minutes] + ".";
	const worst = keys.refused[0];
	const refused = worst ? counts(worst).refused : 0;
	if (sum.refused === 0 || refused === 0) return range;
	const share = refused > sum.refused ? "" : " with " + percent(refused, sum.refused) + " of all refusals";
	return range + " Most refused: " + masked(worst) + " under " + visible(worst.policy, 32) + share + (by(worst) ? (worst.causes?.length > 1 ? ", mostly by " : ", by ") + by(worst) : "") + ".";
}

function slowest(alive) {
	const all = alive.map((one) => one.latency_ms?.p99).filter((ms) => ms > 0);
	return all.length ? milliseconds(Math.max(...all)) : "\u2013";
}

function figures(rows) {
	keep(at("figures"), rows, ([label]) => label,
		([label]) => h(".figure", {}, h("dt", {}, label), h("dd", {}, h("span.value", {}, h("data")), h("span.note"))),
		(element, [, value, note, alarm]) => {
			element.classList.toggle("alarm", Boolean(alarm));
			write(element.querySelector("data"), value);
			write(element.querySelector(".note"), note);
		});
}

// scope says which instances are shown, and how old the counts of the others are, which have decided more since.
function scope(seen, alive) {
	const stores = [...new Set(alive.map((one) => one.store).filter(Boolean))].map((store) => visible(store, 24));
	const ages = alive.filter((one) => one.id !== seen.self).map((one) => (Date.parse(seen.now) - Date.parse(one.seen)) / 1000);
	return (seen.scope === "all" ? count(alive.length, "instance") : "this instance") + (stores.length ? ", " + stores.join(", ") : "") +
		(ages.length ? ", as of " + Math.max(1, ...ages.map(Math.ceil)) + " s ago" : "");
}

// banners show what is wrong, with a symbol and in words.
function banners(seen, alive) {
	const all = [], without = alive.filter((one) => one.without_store), names = (list) => list.map((one) => visible(one.name, 40)).join(", ");
	if (without.length) {
		const who = seen.scope !== "all" ? "This instance does not reach it" : without.length === alive.length ? "No instance reaches it" :
			names(without) + (without.length === 1 ? " does" : " do") + " not reach it";
		all.push(["store", "Deciding without the store.", who + ", so failure modes decide, and counts are not shared."]);
	}
	if (seen.scope !== "all") all.push(["scope", "Only this instance is shown.", seen.why ? visible(seen.why, 300) : ""]);
	else if (seen.why) all.push(["unread", "Not all instances are shown.", visible(seen.why, 300)]);
	const configs = new Set(alive.map((one) => one.config));
	if (configs.size > 1) all.push(["config", "Instances use different configurations.", "See their hashes below."]);
	const restart = alive.filter((one) => one.restart_needed?.length);
	if (restart.length) all.push(["restart", "A restart is needed.", names(restart) + " read a configuration of which a part is not in force."]);
	keep(at("banners"), all, ([name]) => name,
		([name]) => h("p.warning", { "data-banner": name }, warningSign(), h("span", {}, h("strong"), " ", h("span"))),
		(element, [, title, text]) => {
			write(element.querySelector("strong"), title);
			write(element.querySelector("strong ~ span"), text);
		});
}

function warningSign() {
	return h("span.sign", { "aria-hidden": "true" }, "\u25b2");
}
