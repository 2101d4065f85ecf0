// The panel of one key. It is masked until the operator asks for it, which is logged; then it shows each limit as stored, live, and what an
// operator has ruled.
import { get, post } from "./api.js";
import { h, keep, write } from "./dom.js";
import * as rule from "./rule.js";
import * as sliding from "./sliding.js";
import { causes, clock, counts, masked, moment, number, percent, span, visible } from "./words.js";

let panel, key, policy, state, received, problem, polling, frame, actions;

// open shows a key: {policy, id, masked, ...} of the list of keys, or {policy, text} that an operator wrote; and what is known of its policy.
export function open(chosen, mayChange, of) {
	panel = document.getElementById("key");
	key = { ...chosen };
	policy = of;
	state = actions = undefined;
	problem = "";
	panel.replaceChildren(...[
		h("header.panelhead", {}, h("div", {}, h("p.eyebrow", {}, "Policy ", h("bdi", {}, visible(key.policy, 60))), h("h2", { id: "key-title", tabindex: "-1" }, h("bdi"))),
			h("button.button", { type: "button", "aria-label": "Close", onclick: close }, "\u2715")),
		h("p.sub.about"), h("p.problem", { role: "alert" }),
		key.id ? h("section.ask", {}, h("button.button.primary", { type: "button", onclick: reveal }, "Show this key"),
			h("p.sub", {}, "The instance that knows it sends it. That you asked is logged.")) : null,
		h("div.known", { hidden: true }),
	].filter(Boolean));
	if (mayChange) actions = rule.make(() => key, () => state, () => policy, () => load());
	panel.onclose = () => panel.open || stop(); // by Escape; the event comes later, when another key may be open
	panel.onclick = (event) => {
		if (event.target === panel) close(); // beside it
	};
	panel.showModal();
	show();
	if (key.text != null) begin();
	else panel.querySelector(".ask button").focus();
}

// seen updates what the lists know of the key that is open.
export function seen(document) {
	if (!panel?.open || !key?.id) return;
	for (const minutes of ["1", "5", "60"]) {
		const { refused = [], nearest = [] } = document.keys?.[minutes] ?? {};
		const now = [...refused, ...nearest].find((one) => one.policy === key.policy && one.id === key.id);
		if (now) {
			key = { ...now, text: key.text, whole: key.whole, minutes };
			break;
		}
	}
	show();
}

// close closes the panel, if it is open.
export function close() {
	if (!panel?.open) return;
	panel.close();
	stop();
}

async function reveal(event) {
	const button = event.currentTarget;
	button.disabled = true;
	try {
		const found = await post("/v1/seen/key", { policy: key.policy, id: key.id });
		key.whole = found.key;
		panel.querySelector(".ask").remove();
		if (found.cut) show(); // nothing can be asked about it
		else {
			key.text = found.key; // in quotes if it is not UTF-8, as a ruling about it
			begin();
		}
		panel.querySelector("#key-title").focus();
	} catch (failed) {
		problem = failed.message;
		button.disabled = false;
		show();
	}
}

function begin() {
	const known = panel.querySelector(".known");
	known.hidden = false;
	known.append(h("p.ruling", { hidden: true }), actions?.element ?? "", h("div.limits"), h("section.history", { hidden: true }, h("h3", {}, "History"), h("ol")));
	load();
	polling = setInterval(load, 1000);
	frame = requestAnimationFrame(animate);
}

function stop() {
	clearInterval(polling);
	cancelAnimationFrame(frame);
	key = state = undefined;
	panel.replaceChildren(); // a whole key does not stay in the page
}

async function load() {
	const asked = key;
	try {
		const query = { policy: key.policy, key: key.text };
		if (key.plan) query.plan = key.plan; // otherwise the limits would be those of others
		const found = await get("/v1/state", query);
		if (key?.text !== asked.text) return;
		state = found;
		received = performance.now();
		problem = "";
	} catch (failed) {
		if (!key) return;
		problem = failed.message;
		if (failed.status === 404) {
			problem = "This is no policy of the file, so nothing more is known of its keys here."; // but a domain of Envoy's, say
			panel.querySelector(".known").hidden = true;
		}
		if (failed.status === 400 || failed.status === 404) clearInterval(polling); // it would fail again
	}
	show();
}

// show updates everything but the drawings.
function show() {
	if (!key) return;
	write(panel.querySelector("#key-title bdi"), key.whole == null && key.text == null ? masked(key) : visible(key.whole ?? key.text, 160));
	write(panel.querySelector(".about"), known());
	write(panel.querySelector(".problem"), problem);
	if (!state) return;
	actions?.update();
	ruling(panel.querySelector(".ruling"));
	const limits = state.limits ?? [];
	keep(panel.querySelector(".limits"), limits, (limit) => limit.text + "\n" + (limit.name ?? "") + limits.indexOf(limit), sliding.make, drawLimit);
	const history = state.history ?? [];
	panel.querySelector(".history").hidden = history.length === 0;
	keep(panel.querySelector(".history ol"), history.slice(0, 20), (one) => one.at + one.kind + one.who, (one) => h("li", {}, h("b", {}, changed(one) + about(one)), h("span", {}, visible(one.why || "no reason", 200)), h("small.details", {}, clock(one.at) + ", by " + visible(one.who, 60))));
}

// known is what there is to say about the key, beside its limits.
function known() {
	const all = [];
	if (key.minutes || key.admitted != null) {
		const { admitted, refused } = counts(key);
		all.push(`${key.at_least ? "at least " : ""}${number(admitted)} admitted and ${number(refused)} refused in the last ${key.minutes === "1" ? "minute" : (key.minutes ?? "5") + " minutes"}`);
		if (key.refused > 0 && causes(key)) all.push("refused by: " + causes(key));
		if (key.share > 0 && !state) all.push(percent(key.share, 1) + " of its limit used");
		if (key.routes?.length) all.push(key.routes.slice(0, 3).map((route) => visible(route, 40)).join(", "));
	}
	for (const name of ["plan", "list", "override"]) if (state?.[name]) all.push(name + " " + visible(state[name], 40));
	if (state?.penalty_us > 0) all.push("kept out by the penalty for " + span(state.penalty_us / 1000));
	if (key.cut) all.push("it is longer than 1,024 bytes, so only its beginning is known, and nothing can be asked or ruled about it");
	if (state?.prefix) all.push("a prefix: the addresses in it have keys and counts of their own, and a ruling is about them all");
	else if (state && !key.id && !state.ruling && !state.history?.length && !state.list && state.limits?.every((limit) => limit.used === 0)) {
		all.push("nothing counts for it now; if you expected something, check the spelling");
	}
	if (state?.by === "ruling" && !state.limits?.length && !state.prefix && policy?.limits?.length && !policy.varies) {
		all.push("without the ruling: " + policy.limits.map((limit) => visible(limit, 40)).join(", "));
	}
	return all.join(" \u00b7 ");
}

function ruling(line) {
	const { ruling } = state;
	line.hidden = !ruling;
	if (ruling) write(line, changed(ruling) + about(ruling) + (ruling.until ? ", until " + moment(ruling.until) : ", until it is ended") + ", by " + visible(ruling.who, 60) + (ruling.why ? ": " + visible(ruling.why, 200) : ""));
}

// about names what a ruling is about, if that is more than this key: a prefix.
function about(ruling) {
	return rule.isWider(ruling, state) ? " for " + visible(ruling.key, 60) : "";
}

const kinds = { block: "Blocked", unlimited: "Unlimited", clear: "Ruling ended", reset: "Reset" };

function changed(one) {
	if (one.kind === "limits") return "Limits " + (one.limits ?? []).map((limit) => visible(limit, 40)).join(", ");
	return kinds[one.kind] ?? visible(one.kind, 20);
}

function drawLimit(element, limit) {
	sliding.update(element, limit, sliding.micros(limit.now) + (performance.now() - received) * 1000);
}

const still = matchMedia("(prefers-reduced-motion: reduce)");
let drawn = 0;

// animate moves the windows on between two answers: ten times a second are smooth enough, and cost little.
function animate(now) {
	frame = requestAnimationFrame(animate);
	if (!state || now - drawn < (still.matches ? 1000 : 100)) return;
	drawn = now;
	const elements = panel.querySelectorAll(".limit");
	(state.limits ?? []).forEach((limit, i) => elements[i] && drawLimit(elements[i], limit));
}
