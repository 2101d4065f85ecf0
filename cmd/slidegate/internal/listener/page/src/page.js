// Starts the page: who looks, the stream of what all instances see, and which range and policy are shown.
import { follow, get, Problem, useToken } from "./api.js";
import * as chart from "./chart.js";
import { h, steady, write } from "./dom.js";
import * as instances from "./instances.js";
import * as panel from "./key.js";
import * as overview from "./overview.js";
import * as policies from "./policies.js";
import { time, visible } from "./words.js";
import * as who from "./who.js";

const at = (id) => document.getElementById(id);
let me, seen, range = 5, chosen = null, stream, last = 0;

// show draws the last document.
function show() {
	if (!seen) return;
	at("overview").hidden = false;
	if (chosen != null && !seen.policies.some((policy) => policy.name === chosen)) chosen = null;
	const some = chosen == null ? seen.policies : seen.policies.filter((policy) => policy.name === chosen);
	const keys = { refused: [], nearest: [], ...seen.keys?.[range] }, of = (list) => (chosen == null ? list : list.filter((key) => key.policy === chosen));
	const refused = of(keys.refused), nearest = of(keys.nearest);
	overview.update(seen, some, { refused }, range);
	write(at("hour-of"), chosen == null ? "" : visible(chosen, 40));
	chart.update(some, seen.now);
	policies.update(seen, range, chosen, choose);
	who.update("refused", steady(at("refused"), refused), range, open);
	who.update("nearest", steady(at("nearest"), nearest), range, open);
	instances.update(seen);
	panel.seen(seen);
}

function choose(policy) {
	chosen = policy;
	show();
}

function open(key) {
	panel.open(key, me.role === "operator", seen?.policies.find((policy) => policy.name === key.policy));
}

// ---- who looks -----------------------------------------------------------------------------------------------------

async function begin() {
	try {
		me = await get("/v1/whoami");
	} catch (problem) {
		if (problem.status === 401) return ask("");
		live("lost", "No answer");
		setTimeout(begin, 2000);
		return;
	}
	at("signin").hidden = true;
	at("find").hidden = false;
	at("leave").hidden = !me.name;
	at("leave").title = me.name ? "Signed in as " + me.name + ", " + me.role : "";
	watch();
}

function ask(problem) {
	stream?.abort();
	panel.close();
	seen = undefined;
	at("overview").hidden = at("find").hidden = at("leave").hidden = true;
	at("signin").hidden = false;
	write(at("signin-problem"), problem);
	write(at("scope"), "");
	live("waiting", "Not signed in");
	at("token").focus();
}

at("signin").addEventListener("submit", async (event) => {
	event.preventDefault();
	useToken(at("token").value.trim());
	try {
		await get("/v1/whoami");
	} catch (problem) {
		useToken("");
		return write(at("signin-problem"), problem.message);
	}
	at("token").value = "";
	write(at("signin-problem"), "");
	await begin();
	at("main").focus();
});

at("leave").addEventListener("click", () => {
	useToken("");
	ask("");
});

// ---- the stream ----------------------------------------------------------------------------------------------------

// watch follows the stream until the page is hidden. Instances say what they see only while somebody looks, so a hidden page does not.
async function watch() {
	stream?.abort();
	if (document.hidden) return;
	const own = (stream = new AbortController());
	const take = (document) => {
		if (own.signal.aborted) return;
		seen = document;
		last = performance.now();
		live("good", "Live");
		show();
	};
	while (!own.signal.aborted) {
		try {
			take(await get("/v1/seen", {}, own.signal)); // it waits for the other instances, which the stream does not
			await follow("/v1/seen/stream", own.signal, take);
		} catch (problem) {
			if (own.signal.aborted) return;
			if (problem instanceof Problem && problem.status === 401) return ask("The token is no longer valid.");
			if (!(problem instanceof Problem)) console.error(problem); // a fault of this page
			live("lost", problem.status ? problem.message : "Reconnecting");
		}
		await new Promise((resolve) => setTimeout(resolve, 1000));
	}
}

document.addEventListener("visibilitychange", () => {
	if (document.hidden) {
		stream?.abort();
		live("waiting", "Paused");
	} else if (me && at("signin").hidden) watch();
});

setInterval(() => {
	if (seen && !document.hidden && performance.now() - last > 4000) live("lost", "No news since " + time(Date.now() - performance.now() + last));
}, 1000);

function live(state, text) {
	at("live").dataset.state = state;
	write(at("live"), text);
}

// ---- controls ------------------------------------------------------------------------------------------------------

at("ranges").addEventListener("change", (event) => {
	range = Number(event.target.value);
	show();
});

const themes = ["auto", "light", "dark"];
at("theme").addEventListener("click", () => {
	const root = document.documentElement, next = themes[(themes.indexOf(root.dataset.theme ?? "auto") + 1) % themes.length];
	if (next === "auto") delete root.dataset.theme;
	else root.dataset.theme = next;
	write(at("theme"), "Theme: " + next);
	chart.redraw();
});

at("find").addEventListener("click", () => {
	const dialog = at("finder"), names = (seen?.policies ?? []).map((policy) => policy.name);
	const select = h("select", { id: "find-policy", name: "policy" }, names.map((name) => h("option", { value: name }, visible(name, 60))));
	const input = h("input", { id: "find-key", name: "key", required: true, autocomplete: "off", spellcheck: "false" });
	if (chosen != null) select.value = chosen;
	dialog.replaceChildren(h("form", {
		onsubmit: (event) => {
			event.preventDefault();
			dialog.close();
			open({ policy: select.value, text: input.value });
		},
	}, h("h2", { id: "finder-title" }, "Find a key"),
	h(".field", {}, h("label", { for: "find-policy" }, "Policy"), select),
	h(".field.wide", {}, h("label", { for: "find-key" }, "Key"), input, h("small.details", {}, "As for slidegate explain, such as 203.0.113.7 or a user\u2019s name.")),
	h("div.buttons", {}, h("button.button.primary", { type: "submit" }, "Open"), h("button.button", { type: "button", onclick: () => dialog.close() }, "Cancel"))));
	dialog.showModal();
	input.focus();
});

chart.start();
begin();
